"""The company: its records, its people, its three apps and their tools. Colleagues act through the same tools as agents."""

from companyos.company.apps.approvalflow import Approval, ApprovalType
from companyos.company.apps.clutter import ALL_TOOLS, EXTRAS, toolbox_of
from companyos.company.apps.datahub import Draft, Entry, Metric, Policy, Source
from companyos.company.apps.ticketdesk import Comment, Ticket
from companyos.company.apps.tool import Tool, Toolbox
from companyos.company.colleagues import TOOLBOX
from companyos.company.people import Message, Mind, Person, Season

# All record types. Those that are cited most come first, because a citation is looked up by its id in this order.
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
