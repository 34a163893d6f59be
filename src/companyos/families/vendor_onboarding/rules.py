"""The rulebooks of vendor onboarding: their words, their slots, and how they are put together.

The first variant of each slot belongs to the house rulebook, which has the rules of version 3.
"""

from companyos.core.world import Streams
from companyos.families.kit.rulebooks import Rules
from companyos.families.vendor_onboarding.causes import FORM
from companyos.families.vendor_onboarding.facts import Numbers, answers, draw_numbers
from companyos.rules import (
    Amends,
    AnyOf,
    AnyPiece,
    Applies,
    Before,
    Check,
    Conditions,
    DayMeant,
    Definition,
    Design,
    Despite,
    Evidence,
    HeldOut,
    Holds,
    Instead,
    Ladder,
    Language,
    Limit,
    Order,
    Otherwise,
    Papers,
    Parts,
    Rulebook,
    Second,
    Slot,
    Strictest,
    Then,
    Unless,
    VersionDay,
    Vocabulary,
    WhichFigure,
    day,
    number,
    word,
    yes_no,
)

# -- words -------------------------------------------------------------------------------------------------------------

VOCABULARY = Vocabulary(
    topic="Vendor onboarding",
    facts={
        "same_not_cancelled": yes_no(
            (
                "another ticket that is not cancelled has the same reference",
                "a second ticket has the same reference and is not cancelled",
                HeldOut("a ticket with the same reference exists and is not cancelled"),
            ),
        ),
        "same_open": yes_no(
            (
                "another ticket with the same reference is still open",
                "a second ticket with the same reference is not finished yet",
                HeldOut("work on another ticket with the same reference goes on"),
            ),
        ),
        "owner": word(
            requester=("the requester owns the firm", "the register names the requester as the owner of the firm"),
            manager=("the requester's manager owns the firm", "the register names the requester's manager as the owner"),
        ),
        "insurance_until": day("the last day of the firm's insurance", "the date in insurance_until"),
        "opened": day("the day on which the ticket was opened", "the opening date of the ticket"),
        "today": day("today", "the day on which you decide"),
        "applied_on": day("the day of the firm's application", "the date in applied_on"),
        "memo_day": day("the date of this paper"),
        "score": number("the fresh compliance score", "the compliance score", HeldOut("the measured compliance score")),
        "amount": number("the amount", "the amount on the ticket", HeldOut("the sum on the ticket")),
        "data_class": word(
            personal=("the firm handles personal data", "the entry's data_class is personal"),
            standard=("the firm handles no personal data", "the entry's data_class is standard"),
        ),
        "framework": yes_no(
            ("the firm has a framework agreement with us", "the register shows a framework agreement with the firm"),
            ("the firm has no framework agreement with us", "the register shows no framework agreement with the firm"),
        ),
        "small_order": yes_no(("the order is a small order", "it is a small order")),
        FORM: word(nobody=("no office may sign for the amount", "the amount is above the limits of all who sign")),
    },
    checks={
        "duplicate": ("Duplicate", "Same request", HeldOut("Repetition")),
        "owner": ("Ownership", "Independence", HeldOut("Interests")),
        "insurance": ("Insurance", "Cover", HeldOut("Liability")),
        "score": ("Score", "Compliance", HeldOut("Rating")),
        "referral": ("Referral", "Exposure"),
        "authority": ("Authority", "Mandate", HeldOut("Signature")),
    },
    offices={
        "Head": ("the head of the requester's department",),
        "CFO": ("the CFO",),
        "CEO": ("the CEO",),
        "CTO": ("the CTO",),
        "Procurement Lead": ("the Procurement Lead",),
        "Compliance Officer": ("the Compliance Officer",),
        "HR Lead": ("the HR Lead",),
        "Vendor Desk Lead": ("the Vendor Desk Lead",),
    },
    recipients={"requester": ("the requester", "the ticket's requester"), "other": ("the other ticket",)},
    citations={
        "other_reference": ("the other ticket's reference",),
        "other_status": ("the other ticket's status",),
        "owner": ("the entry's owner",),
        "requester": ("the ticket's requester",),
        "insurance_until": ("the entry's insurance_until",),
        "certificate": ("the entry's certificate",),
        "score": ("the metric's value",),
        "minimum": ("the minimum that applied",),
        "data_class": ("the entry's data_class",),
        "amount": ("the ticket's amount",),
        "limit": ("the limit of the person who is CFO",),
        "status": ("the approval's status",),
        "decided_by": ("the approval's decided_by",),
    },
    resolutions=("completed", "declined", "on_hold", "escalated", "duplicate", "cannot_be_done"),
    reasons=(
        "same_request", "already_done", "conflict_of_interest", "contradicts_policy", "document_expired", "not_covered",
        "below_minimum", "above_limit", "beyond_authority", "all_checks_passed",
    ),
    forms={FORM: ("the vendor_onboarding request", "the request for vendor_onboarding")},
    limits={
        "minimum": ("minimum score", "least score", HeldOut("score that a vendor needs")),
    },
    terms={"small_order": ("small order",)},
    agreed_days={"closing_day": ("day that counts", "day to go by", HeldOut("reference day"))},
    papers=("Notes from the quarterly review", "Letter to the department heads"),
)  # fmt: skip

# -- slots -------------------------------------------------------------------------------------------------------------

PERSONAL, FRAMEWORK, SMALL = Holds("data_class", "is", "personal"), Holds("framework"), Holds("small_order")
OUTSIDE, OWNED = Holds("framework", "is", False), Holds("owner", "is", "requester")
SINCE_MEMO: Conditions = (Holds("applied_on", "at_least", "@memo_day"),)
EXEMPTIONS: dict[str, Conditions] = {"no": (), "small": (SMALL,), "framework": (FRAMEWORK,)}
CHECKED = ("duplicate", "owner", "insurance", "score", "authority")  # the checks of every rulebook


def then(resolution: str, reason: str, field: str = "", whom: str = "") -> Then:
    return Then(resolution, reason, field, whom)


SLOTS = (
    Slot("order", {
        "house": ("duplicate", "owner", "insurance", "score", "referral", "authority"),
        "score_first": ("score", "duplicate", "owner", "referral", "insurance", "authority"),
        "insurance_first": ("insurance", "duplicate", "score", "owner", "referral", "authority"),
        "owner_first": ("owner", "score", "insurance", "duplicate", "referral", "authority"),
        "backwards": ("authority", "referral", "score", "insurance", "owner", "duplicate"),
    }, held_out=("backwards",)),
    Slot("order_change", {
        "no": None,
        "personal": (PERSONAL,),
        "strictest": Strictest(("escalated", "cannot_be_done", "declined", "duplicate", "on_hold")),
    }),
    Slot("duplicate_counts", {"not_cancelled": "same_not_cancelled", "open": "same_open"}),
    Slot("duplicate_then", {
        "duplicate": then("duplicate", "same_request", "duplicate_of", "other"),
        "declined": then("declined", "same_request", "duplicate_of", "other"),
        "hold": then("on_hold", "already_done", "waiting_on", "Vendor Desk Lead"),
    }),
    Slot("owner_counts", {"requester": OWNED, "near": AnyOf((OWNED, Holds("owner", "is", "manager")))}),
    Slot("owner_then", {
        "compliance": then("escalated", "conflict_of_interest", "escalated_to", "Compliance Officer"),
        "declined": then("declined", "conflict_of_interest"),
        "procurement": then("escalated", "contradicts_policy", "escalated_to", "Procurement Lead"),
        "hold": then("on_hold", "conflict_of_interest", "waiting_on", "HR Lead"),
    }, held_out=("hold",)),
    Slot("owner_unless", {"no": "no", "small": "small", "framework": "framework"}),
    Slot("insurance_day", {"today": "today", "opened": "opened"}),
    Slot("insurance_then", {
        "requester": then("on_hold", "document_expired", "waiting_on", "requester"),
        "declined": then("declined", "document_expired"),
        "procurement": then("escalated", "not_covered", "escalated_to", "Procurement Lead"),
    }, held_out=("procurement",)),
    Slot("insurance_unless", {"no": "no", "framework": "framework", "small": "small"}),
    Slot("insurance_despite", {"no": False, "personal": True}),
    Slot("score_limit", {"below": "below", "at_most": "at_most"}),
    Slot("score_then", {
        "declined": then("declined", "below_minimum"),
        "hold": then("on_hold", "below_minimum", "waiting_on", "requester"),
        "compliance": then("escalated", "below_minimum", "escalated_to", "Compliance Officer"),
        "cfo": then("escalated", "not_covered", "escalated_to", "CFO"),
    }, held_out=("cfo",)),
    Slot("score_unless", {"no": "no", "framework": "framework", "small": "small"}),
    Slot("score_raised", {"personal": ("personal",), "outside": ("outside",), "both": ("personal", "outside")}),
    Slot("score_which", {"higher": "higher", "lower": "lower"}),
    Slot("score_version", {"opened": "opened", "applied_on": "applied_on"}),
    Slot("small_means", {"at_most": "at_most", "below": "below"}),
    Slot("referral", {"no": "", "personal": "personal", "outside": "outside"}),
    Slot("referral_then", {
        "compliance": then("escalated", "above_limit", "escalated_to", "Compliance Officer"),
        "hold": then("on_hold", "above_limit", "waiting_on", "Procurement Lead"),
    }),
    Slot("referral_unless", {"no": (), "insured": (Applies("insurance", holds=False), Holds("framework"))}),
    Slot("ladder", {
        "head_cfo": ("Head", "CFO"), "lead_cfo": ("Procurement Lead", "CFO"), "cfo": ("CFO",),
    }, held_out=("cfo",)),
    Slot("second", {"no": "", "personal": "personal", "large": "large"}),
    Slot("second_by", {"compliance": "Compliance Officer", "cto": "CTO", "hr": "HR Lead"}, held_out=("hr",)),
    Slot("authority_then", {
        "cannot": then("cannot_be_done", "beyond_authority"),
        "ceo": then("escalated", "beyond_authority", "escalated_to", "CEO"),
    }),
    Slot("amendment", {"no": "", "score": "score", "small": "small"}),
    Slot("amended_from", {"at_once": (), "applied_on": SINCE_MEMO}),
    Slot("papers", {"later": "later", "older": "older"}),
    Slot("duplicate_cites", {"both": ("other_reference", "other_status"), "status": ("other_status",)}),
    Slot("owner_cites", {"owner": ("owner",), "both": ("owner", "requester")}),
    Slot("insurance_cites", {"until": ("insurance_until",), "certificate": ("certificate",)}),
    Slot("score_cites", {"both": ("score", "minimum"), "class": ("score", "data_class")}),
    Slot("authority_cites", {"both": ("amount", "limit"), "amount": ("amount",)}),
    Slot("passed_cites", {"all": ("status", "decided_by", "score"), "signature": ("status", "decided_by")}),
)  # fmt: skip


# -- rulebooks ---------------------------------------------------------------------------------------------------------


def build(parts: Parts, streams: Streams) -> Rulebook:
    """Return the rulebook of drawn parts."""
    numbers = draw_numbers(streams)
    order = tuple(check for check in parts("order") if check != "referral" or parts("referral"))
    pieces: list[AnyPiece] = [
        Order(order),
        Check("duplicate", (Holds(parts("duplicate_counts")),), parts("duplicate_then")),
        Check("owner", (parts("owner_counts"),), parts("owner_then")),
        Check("insurance", (Holds("insurance_until", "below", "@closing_day"),), parts("insurance_then")),
        Check("score", (Holds("score", parts("score_limit"), "@minimum"),), parts("score_then")),
        Check("authority", (Holds(FORM, "is", "nobody"),), parts("authority_then")),
        Otherwise(Then("completed", "all_checks_passed", form=FORM)),
        *(Evidence(check, parts(f"{check}_cites")) for check in CHECKED),
        Evidence("none", parts("passed_cites")),
        DayMeant("closing_day", parts("insurance_day")),
        Definition("small_order", (Holds("amount", parts("small_means"), numbers.small_order),)),
        *_figures(numbers.minimum, numbers, parts),
        VersionDay("minimum", parts("score_version")),
        Ladder(FORM, parts("ladder")),
        *_exemptions(parts),
        *_referral(parts, numbers),
        *_changes(parts, numbers),
    ]
    if parts("second"):
        when: Conditions = (PERSONAL,) if parts("second") == "personal" else (_large(numbers),)
        pieces.append(Second(FORM, parts("second_by"), when))
    if len(_raised(parts)) > 1:
        pieces.append(WhichFigure("minimum", parts("score_which")))
    return Rulebook(tuple(pieces), (_figures(numbers.older, numbers, parts),))


def _large(numbers: Numbers) -> Holds:
    return Holds("amount", "above", numbers.large_order)


def _exemptions(parts: Parts) -> list[AnyPiece]:
    pieces: list[AnyPiece] = []
    for check in ("owner", "insurance", "score"):
        when = EXEMPTIONS[parts(f"{check}_unless")]
        pieces += [Unless(check, when)] if when else []
        if check == "insurance" and when and parts("insurance_despite"):
            pieces.append(Despite(check, (PERSONAL,)))
    return pieces


def _referral(parts: Parts, numbers: Numbers) -> list[AnyPiece]:
    """Return the check of large orders, if there is one."""
    if not parts("referral"):
        return []
    when = (PERSONAL if parts("referral") == "personal" else OUTSIDE, _large(numbers))
    pieces: list[AnyPiece] = [
        Check("referral", when, parts("referral_then")),
        Evidence("referral", ("amount", "data_class")),
    ]
    if parts("referral") == "personal" and parts("referral_unless"):
        pieces.append(Unless("referral", parts("referral_unless")))
    return pieces


def _changes(parts: Parts, numbers: Numbers) -> list[AnyPiece]:
    """Return the change of the order and the amendment, if there are any."""
    pieces: list[AnyPiece] = []
    change = parts("order_change")
    if isinstance(change, Strictest):
        pieces.append(change)
    elif change:
        earlier, later = sorted(("insurance", "score"), key=parts("order").index)
        pieces.append(Before(later, earlier, change))
    if parts("amendment"):
        smaller = Definition("small_order", (Holds("amount", "below", numbers.small_order - 1000),))
        is_used = any(parts(f"{check}_unless") == "small" for check in ("owner", "insurance", "score"))
        amends_small = parts("amendment") == "small" and is_used
        amended = smaller if amends_small else Limit("minimum", numbers.amended)
        # If the day of the application decides which figures count, an amendment cannot count on earlier days.
        by_day = not amends_small and parts("score_version") == "applied_on"
        pieces += [Amends(amended, SINCE_MEMO if by_day else parts("amended_from")), Papers(parts("papers"))]
    return pieces


def _figures(minimum: int, numbers: Numbers, parts: Parts) -> tuple[Limit | Instead, ...]:
    """Return the minimum score and its special figures, in one version."""
    special = {
        "personal": Instead("minimum", numbers.personal, (PERSONAL,)),
        "outside": Instead("minimum", numbers.outside, (OUTSIDE,)),
    }
    return Limit("minimum", minimum), *(special[name] for name in _raised(parts))


def _raised(parts: Parts) -> tuple[str, ...]:
    """Return the special figures. Firms without an agreement need none if all others are exempt."""
    return ("personal",) if parts("score_unless") == "framework" else parts("score_raised")


DESIGN = Design(
    SLOTS,
    build,
    held_out_pairs=(
        (("insurance_unless", "small"), ("score_unless", "framework")),
        (("score_version", "applied_on"), ("score_limit", "at_most")),
    ),
)
# A fact that costs more to find out is asked later, and only if the ending still depends on it.
COSTS = {"score": 3, "covers": 1, "same_open": 1, "same_not_cancelled": 1, "owner": 1}
# The kinds of rules at which tasks are aimed.
TARGETS = {
    "order": ("order", "order_change"),
    "conditions": ("duplicate_counts", "owner_counts", "insurance_day", "score_limit"),
    "terms": ("small_means",),
    "consequences": ("duplicate_then", "owner_then", "insurance_then"),
    "authority": ("authority_then",),
    "exemptions": ("owner_unless", "insurance_unless", "score_unless"),
    "lost exemptions": ("insurance_despite",),
    "figures": ("score_raised",),
    "several figures": ("score_which",),
    "version": ("score_version",),
    "amendment": ("amendment", "papers"),
    "amended_from": ("amended_from",),
    "referral": ("referral", "referral_unless"),
    "signing": ("ladder", "second", "second_by"),
}
RULES = Rules(DESIGN, Language(VOCABULARY), "Vendor Desk Lead", answers, COSTS, TARGETS)
