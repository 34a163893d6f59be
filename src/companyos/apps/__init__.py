"""Apps: what an actor can do. Three apps, one toolbox; people are programs behind the same calls."""

from companyos.apps.approvalflow import Approval, ApprovalType
from companyos.apps.clutter import ALL_TOOLS, EXTRAS, toolbox_of
from companyos.apps.colleagues import TOOLBOX
from companyos.apps.datahub import Draft, Entry, Metric, Policy, Source
from companyos.apps.people import Message, Mind, Person, Season
from companyos.apps.ticketdesk import Comment, Ticket
from companyos.apps.tool import Tool, Toolbox

# What is cited most comes first: a citation is looked up by id alone.
KINDS = (Ticket, Metric, Entry, Policy, Person, Approval, ApprovalType, Message, Comment, Mind, Source, Season, Draft)

__all__ = [
    "ALL_TOOLS",
    "EXTRAS",
    "KINDS",
    "TOOLBOX",
    "Approval",
    "ApprovalType",
    "Comment",
    "Draft",
    "Entry",
    "Message",
    "Metric",
    "Mind",
    "Person",
    "Policy",
    "Season",
    "Source",
    "Ticket",
    "Tool",
    "Toolbox",
    "toolbox_of",
]
