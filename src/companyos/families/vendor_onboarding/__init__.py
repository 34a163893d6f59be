"""Vendor onboarding: may this firm become a supplier, and who signs for it?

What makes it hard: the rules differ from task to task, and stand in a dozen papers. The checks have an order, exemptions and
exceptions, each one looks at another system, and the compliance score may be out of date. Approvers check values only: an
agent that asks the wrong office, or asks although the ticket has to be declined, gets a signature and has lost.
"""

from companyos.families.kit.family import Family
from companyos.families.kit.rulebooks import with_rules
from companyos.families.vendor_onboarding import audit as audit  # registers what approvers check
from companyos.families.vendor_onboarding.causes import Causes
from companyos.families.vendor_onboarding.expert import expert
from companyos.families.vendor_onboarding.judge import judge
from companyos.families.vendor_onboarding.rules import DESIGN, RULES
from companyos.families.vendor_onboarding.stage import hire, stage

RuledCauses = with_rules(Causes, DESIGN, __name__)

FAMILY = Family(
    name="vendor_onboarding",
    phrase="vendor onboarding",
    causes=RuledCauses,
    actor="Vendor Analyst",
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 81, 25: 100, 50: 125, 75: 147, 100: 175},
    hire=hire,
    rules=RULES,
)
