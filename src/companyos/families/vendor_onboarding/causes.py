"""What is hidden in a vendor case: facts about the firm and its ticket, and troubles."""

from typing import Annotated, Literal

from companyos.families.kit.case import Fact, Trouble
from companyos.families.kit.everyday import EverydayTroubles

FORM = "vendor_onboarding"  # the id of the form, and the kind of the tickets
SECOND_FORM = "vendor_countersignature"


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case, without its rules. `kit.case` explains facts and troubles.

    `Source` records hold the true value of a metric, `Metric` records the measured one. In the target of a trouble,
    `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        Literal["no", "open", "done"],
        Fact(
            odds=(0.8, 0.1, 0.1),
            shown_in=tuple(("Ticket", "earlier", field) for field in ("reference", "status", "resolution", "reason")),
        ),
        "another ticket asks for the same, and how far it is",
    ]
    conflict: Annotated[
        Literal["no", "requester", "manager"],
        Fact(odds=(0.74, 0.14, 0.12), shown_in=(("Entry", "entry", "owner"),)),
        "who of the company owns the firm: nobody, the requester or the requester's manager",
    ]
    # lapsed: it ended after the ticket was opened
    insurance: Annotated[
        Literal["valid", "lapsed", "expired"],
        Fact(odds=(0.7, 0.15, 0.15), shown_in=(("Entry", "entry", "insurance_until"),)),
        "whether the firm's insurance is valid, ended after the ticket was opened, or ended before",
    ]
    personal_data: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Entry", "entry", "data_class"),)),
        "the firm would handle personal data",
    ]
    framework: Annotated[
        bool,
        Fact(odds=(0.6, 0.4), shown_in=(("Entry", "entry", "framework"),)),
        "the firm has a framework agreement",
    ]
    # long_ago: before the present figures; between: before the amendment; lately: after it
    applied: Annotated[
        Literal["lately", "between", "long_ago"],
        Fact(odds=(0.4, 0.25, 0.35), shown_in=(("Entry", "entry", "applied_on"),)),
        "when the firm applied: after the last amendment, before it, or before the present figures",
    ]
    score: Annotated[
        Literal[
            "under", "at_older", "over_older", "at_minimum", "over_minimum",
            "over_amended", "at_outside", "over_outside", "at_personal", "over",
        ],
        Fact(
            odds=(0.12, 0.04, 0.11, 0.08, 0.12, 0.08, 0.06, 0.08, 0.07, 0.24),
            shown_in=(("Source", "score", "value"), ("Metric", "score", "value")),
        ),
        "the true compliance score, at or over one of the figures that a rulebook can have",
    ]  # fmt: skip
    amount: Annotated[
        Literal["tiny", "below_small", "at_small", "small", "large", "larger", "huge"],
        Fact(odds=(0.11, 0.11, 0.12, 0.16, 0.16, 0.16, 0.18), shown_in=(("Ticket", "ticket", "amount"),)),
        "the amount: around the limit of small orders, above the limit of the department head, or above everybody's",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    score_stale: Annotated[bool, Trouble(dial="stale", target=("score",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("score",))]
    head_away: Annotated[bool, Trouble(dial="absence", target=("head",))]
    head_deputy_away: Annotated[bool, Trouble(dial="absence", target=("head_deputy",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    controller_away: Annotated[bool, Trouble(dial="absence", target=("controller",))]
    procurement_away: Annotated[bool, Trouble(dial="absence", target=("procurement",))]
    compliance_away: Annotated[bool, Trouble(dial="absence", target=("compliance",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(
            dial="rejections",
            target=(
                "head", "head_deputy", "head_third", "cfo", "controller", "treasurer", "procurement", "procurement_deputy",
                "compliance", "compliance_deputy", "cto", "hr",
            ),
        ),
    ]  # fmt: skip
    contract_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=contract"))]
