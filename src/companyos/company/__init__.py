"""Apps: what an actor can do. Three apps, one toolbox; people are programs behind the same calls."""

from companyos.company.apps.approvalflow import Approval, ApprovalType
from companyos.company.apps.clutter import ALL_TOOLS, EXTRAS, toolbox_of
from companyos.company.apps.datahub import Draft, Entry, Metric, Policy, Source
from companyos.company.apps.ticketdesk import Comment, Ticket
from companyos.company.apps.tool import Tool, Toolbox
from companyos.company.colleagues import TOOLBOX
from companyos.company.people import Message, Mind, Person, Season

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
