"""Apps: what an actor can do. Three apps, one toolbox; people are programs behind the same calls."""

from companyos.apps.approvalflow import Approval, ApprovalType
from companyos.apps.colleagues import TOOLBOX
from companyos.apps.datahub import Entry, Metric, Policy, Source
from companyos.apps.people import Message, Mind, Person
from companyos.apps.ticketdesk import Comment, Ticket
from companyos.apps.tool import Tool, Toolbox

KINDS = (Person, Mind, Message, Ticket, Comment, Metric, Source, Entry, Policy, ApprovalType, Approval)

__all__ = [
    "KINDS",
    "TOOLBOX",
    "Approval",
    "ApprovalType",
    "Comment",
    "Entry",
    "Message",
    "Metric",
    "Mind",
    "Person",
    "Policy",
    "Source",
    "Ticket",
    "Tool",
    "Toolbox",
]
