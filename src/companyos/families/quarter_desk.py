"""Quarter desk: one pair of hands for many tickets. While one waits the next goes on, and nobody waits before all do."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from companyos.company.clerk import advance
from companyos.core.calls import Call, Procedure, Reply, Working, aloud
from companyos.families.kit.moves import Move, Shown

NO_ANSWERS = ("out_of_office", "queue")  # what such mail is about takes longer: it is no time to look again
TOO_MANY = "too_many"  # the ground on which a request is refused while others of one's own are pending


class TicketJob:
    """A ticket that is worked on, by a program that thinks it is alone: what it wants next, and what it waits for."""

    def __init__(self, ticket_id: str, program: Procedure, asked: bool = False) -> None:
        self.ticket_id = ticket_id
        self.asked = asked  # whether the office that all share was asked to sign for it
        self.closed: Shown = {}  # how it was closed: resolution, reason, evidence
        self._concerns = {ticket_id}  # records that news for it can be about
        self._crowded = False  # its request has to wait for room among those that are pending
        self._program = aloud(program)
        self._call: Call | None = None
        self.working: tuple[str, ...] = ()  # said before that call
        self._go_on(None)

    @property
    def done(self) -> bool:
        return self._call is None

    @property
    def call(self) -> Call:
        assert self._call is not None, f"nothing is left to do for {self.ticket_id}"
        return self._call

    @property
    def waits(self) -> bool:
        return self._crowded or self.call.method == "wait"

    def go_on_with(self, program: Procedure) -> None:
        """Drops what it was about to do and does this instead."""
        self._program.close()
        self._program = aloud(program)
        self._go_on(None)

    def hear(self, reply: Reply) -> None:
        """Takes in the reply to its call."""
        if reply.code == TOO_MANY:
            self._crowded = True
            return
        call = self.call
        self._concerns |= {value for value in call.params.values() if isinstance(value, str)}
        if reply.ok:
            self._concerns |= {row["id"] for row in reply.data.get("rows", [reply.data]) if self._is_ours(row)}
            if call.method == "resolve_ticket":
                self.closed = call.params
        self._go_on(reply)

    def wake(self, reply: Reply) -> None:
        """Time has passed: goes on if that brought news for it, or if nothing came for anybody."""
        arrived = reply.data["arrived"]
        if self._crowded:
            self._crowded = False
        elif not arrived or self._concerns & {letter["about"] for letter in arrived if letter["topic"] not in NO_ANSWERS}:
            self._go_on(reply)

    def _is_ours(self, row: Shown) -> bool:
        data: Any = row.get("data") or {}
        return self.ticket_id in (row.get("ticket_id"), data.get("ticket_id"))

    def _go_on(self, reply: Reply | None) -> None:
        self.working, self._call = advance(self._program, reply) or ((), None)


class SharedOffice(Struct, frozen=True):
    """An office that all tickets share: who sits in it, and for how many it signs, those that are due first."""

    people: frozenset[str]
    signatures: int

    def is_asked_by(self, job: TicketJob) -> bool:
        return job.call.method == "submit_approval" and job.call.params["approver"] in self.people


def work_off(jobs: list[TicketJob], office: SharedOffice, beyond_limit: Mapping[str, Procedure]) -> Move[None]:
    """Takes all jobs to their end, in the order given: that in which they are due.

    Where the office has signed for as many as it does, goes on with what is to be done beyond its limit.
    """
    while unfinished := [job for job in jobs if not job.done]:
        for job in unfinished:
            if job.waits:
                continue
            if not job.asked and office.is_asked_by(job):
                before = jobs[: jobs.index(job)]
                if not all(other.done or other.asked for other in before):
                    continue  # it may yet need what this one would take
                if sum(other.asked for other in before) >= office.signatures:
                    job.go_on_with(beyond_limit[job.ticket_id])
                    break
                job.asked = True
            for line in job.working:
                yield Working(line)
            job.hear((yield job.call))
            break
        else:
            waiting = [job for job in unfinished if job.waits]
            reply = yield Call("ticketdesk", "wait", {"hours": 24})
            for job in waiting:
                job.wake(reply)
