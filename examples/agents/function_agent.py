"""An agent as a function. It is a poor one: it reads the ticket of the brief, then closes it as a duplicate."""

import re

from companyos import Call


def agent(obs):
    ticket = {"ticket_id": re.search(r"T-\d+", obs.task)[0]}  # `obs.task` is the brief
    if obs.step == 0:
        return Call("ticketdesk", "get_ticket", ticket)
    closing = {"resolution": "duplicate", "reason": "same_request", "evidence": []}
    return Call("ticketdesk", "resolve_ticket", ticket | closing)
