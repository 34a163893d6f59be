"""A small example: the desk that decides on visitor badges. Its rulebooks use every kind of piece."""

from companyos.core.world.streams import Streams
from companyos.rules import (
    Amends,
    AnyOf,
    AnyPiece,
    Applies,
    Before,
    Check,
    Computed,
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
    Level,
    Limit,
    Order,
    Otherwise,
    Papers,
    Parts,
    RateTable,
    Row,
    Rulebook,
    Scale,
    Second,
    Signer,
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
from companyos.rules.conditions import Value

VOCABULARY = Vocabulary(
    topic="Visitor badges",
    facts={
        "repeated": yes_no(
            (
                "another open ticket asks for a badge for the same visitor",
                "the same visitor has a second ticket that is still open",
                HeldOut("there is a further open ticket for this visitor"),
            ),
        ),
        "passport_until": day("the last day of the passport", "the day on which the passport ends"),
        "visit_on": day("the day of the visit", "the first day of the visit"),
        "opened": day("the day on which the ticket was opened", "the opening date of the ticket"),
        "memo_day": day("the date of this paper"),
        "days": number("the number of days", "the length of the visit in days"),
        "score": number("the visitor's trust score", "the score that the screening gives", HeldOut("the screening score")),
        "open_badges": number("the number of the host's open badges"),
        "visitor": word(
            guest=("the visitor is a guest", "the badge is for a guest"),
            contractor=("the visitor is a contractor", "the badge is for a contractor"),
            auditor=("the visitor is an auditor", "the badge is for an auditor"),
            but={"guest": ("the visitor is not a guest", "the badge is for somebody other than a guest")},
        ),
        "minor": yes_no(("the visitor is under age", "the visitor is a minor"), ("the visitor is of age",)),
        "zone": word(
            "the zone",
            lobby=("the visitor stays in the lobby", "the badge opens the lobby only"),
            office=("the visitor goes to the offices", "the badge opens the offices"),
            lab=("the visitor goes to the laboratory", "the badge opens the laboratory"),
        ),
        "brief_visit": yes_no(
            ("the visit is a brief visit", "it is a brief visit"), ("the visit is not a brief visit", "it is no brief visit")
        ),
        "risk_class": word(
            class_1=("the risk class is class_1",),
            class_2=("the risk class is class_2",),
            class_3=("the risk class is class_3",),
        ),
        "badge_form": word(nobody=("no office may sign for so many days", "no office has a limit that covers the visit")),
    },
    checks={
        "repeat": ("Repeat", "Second request", HeldOut("Duplicate")),
        "passport": ("Passport", "Identity", HeldOut("Travel document")),
        "stay": ("Length", "Duration"),
        "host": ("Host", "Open badges"),
        "score": ("Screening", "Trust"),
        "risk": ("Risk", "Hazard"),
        "authority": ("Authority", "Mandate"),
    },
    offices={
        "Desk Lead": ("the Desk Lead",),
        "Site Manager": ("the Site Manager",),
        "Security Officer": ("the Security Officer",),
        "HR Lead": ("the HR Lead",),
    },
    recipients={"host": ("the host", "the host of the visit"), "other": ("the other ticket",)},
    citations={
        "other_status": ("the other ticket's status",),
        "passport_until": ("the visitor's passport_until",),
        "days": ("the ticket's days",),
        "open_badges": ("the number of open badges",),
        "score": ("the value of the trust score",),
        "least_score": ("the least score of the policy",),
        "zone": ("the ticket's zone",),
        "signed_by": ("the badge form's decided_by",),
        "status": ("the badge form's status",),
    },
    resolutions=("completed", "declined", "on_hold", "escalated", "duplicate", "cannot_be_done"),
    reasons=(
        "same_request", "document_expired", "above_limit", "below_minimum", "conflict_of_interest", "beyond_authority",
        "all_checks_passed",
    ),
    forms={"badge_form": ("the badge form", "the form for the badge")},
    limits={
        "least_score": ("least score", "minimum score"),
        "most_badges": ("limit for open badges", "highest number of open badges"),
    },
    terms={"brief_visit": ("brief visit",)},
    agreed_days={"qualifying_day": ("qualifying day", "reference day")},
    tables={"longest_stay": ("longest stay in days", "maximum length in days")},
    scales={"risk_class": ("risk class",)},
    levels={name: (name,) for name in ("class_1", "class_2", "class_3", "lobby", "office", "lab")},
    ways={
        "expired_count": ("expired badges count", "badges that have expired count"),
        "expired_do_not_count": ("expired badges do not count", "badges that have expired do not count"),
        "team_counts": ("the badges of the host's team count as the host's own",),
    },
    papers=("Notes from the fire drill", "News from the reception"),
)  # fmt: skip

LANGUAGE = Language(VOCABULARY)
OWNER = "Site Manager"  # of the policies

# Few values for each fact, around the numbers that `build` draws.
DOMAINS: dict[str, tuple[Value, ...]] = {
    "repeated": (False, False, True),
    "passport_until": (1, 5, 9),
    "visit_on": (4, 6),
    "opened": (3, 5, 8),
    "memo_day": (5,),
    "days": (1, 2, 3, 5, 6),
    "score": (30, 40, 44, 50, 54, 60, 64, 80),
    "open_badges": (1, 3, 4, 9),
    "visitor": ("guest", "contractor", "auditor"),
    "minor": (False, True),
    "zone": ("lobby", "office", "lab"),
}
COSTS = {"score": 2, "open_badges": 1}

LAB = Holds("zone", "is", "lab")
CONTRACTOR, AUDITOR = Holds("visitor", "is", "contractor"), Holds("visitor", "is", "auditor")
BRIEF = Holds("brief_visit")


SLOTS = (
    Slot("order", {
        "house": ("repeat", "passport", "stay", "host", "score", "risk", "authority"),
        "score_first": ("score", "repeat", "host", "passport", "stay", "risk", "authority"),
        "risk_early": ("repeat", "risk", "stay", "passport", "score", "host", "authority"),
        "backwards": ("authority", "risk", "score", "host", "stay", "passport", "repeat"),
    }, held_out=("backwards",)),
    Slot("order_change", {
        "no": None,
        "guest": (Holds("visitor", "is", "guest"),),
        "host": (Applies("host"),),
        "strictest": Strictest(("escalated", "cannot_be_done", "declined", "duplicate", "on_hold")),
    }),
    Slot("passport_then", {
        "wait": Then("on_hold", "document_expired", "waiting_on", "host"),
        "declined": Then("declined", "document_expired"),
        "manager": Then("escalated", "document_expired", "escalated_to", "Site Manager"),
    }),
    Slot("passport_unless", {
        "brief": (BRIEF,), "no": None, "auditor_or_minor": (AnyOf((AUDITOR, Holds("minor"))),),
    }),
    Slot("passport_despite", {"no": None, "lab": (LAB,)}),
    Slot("qualifying_day", {"visit": "visit_on", "opened": "opened"}),
    Slot("stay_unless", {"no": None, "auditor": (AUDITOR,), "not_a_guest": (Holds("visitor", "is_not", "guest"),)}),
    Slot("host_counts", {
        "expired_too": ("expired_count",), "live": ("expired_do_not_count",), "team": ("expired_count", "team_counts"),
    }, held_out=("team",)),
    Slot("score_op", {"below": "below", "at_most": "at_most"}),
    Slot("score_then", {
        "officer": Then("escalated", "below_minimum", "escalated_to", "Security Officer"),
        "declined": Then("declined", "below_minimum"),
    }),
    Slot("special_scores", {"one": ("lab",), "two": ("lab", "contractor")}),
    Slot("which_score", {"higher": "higher", "lower": "lower"}),
    Slot("score_version", {"opened": "opened", "visit": "visit_on"}),
    Slot("risk_needs", {"lab": (LAB,), "short_enough": (Applies("stay", holds=False),)}),
    Slot("brief_means", {"at_most": "at_most", "below": "below"}),
    Slot("second", {"no": None, "minor": (Holds("minor"),), "long": (Holds("days", "above", 2), LAB)}),
    Slot("signer", {"ladder": "ladder", "fixed": "fixed"}),
    Slot("amendment", {"no": None, "limit": "limit", "check": "check"}),
    Slot("amended_from", {"at_once": (), "opened": (Holds("opened", "at_least", "@memo_day"),)}),
    Slot("papers", {"later": "later", "older": "older"}),
)  # fmt: skip


def build(parts: Parts, streams: Streams) -> Rulebook:
    """Return the rulebook of drawn parts."""
    least = streams.at("number", "least_score").pick((40, 44))
    pieces: list[AnyPiece] = [
        Order(parts("order")),
        Check("repeat", (Holds("repeated"),), Then("duplicate", "same_request", "duplicate_of", "other")),
        Check("passport", (Holds("passport_until", "below", "@qualifying_day"),), parts("passport_then")),
        Check("stay", (Holds("days", "above", "@longest_stay"),), Then("declined", "above_limit")),
        Check("host", (Holds("open_badges", "above", "@most_badges"),), Then("declined", "conflict_of_interest")),
        Check("score", (Holds("score", parts("score_op"), "@least_score"),), parts("score_then")),
        Check("risk", (Holds("risk_class", "is", "class_1"), *parts("risk_needs")),
              Then("escalated", "above_limit", "escalated_to", "Security Officer")),
        Check("authority", (Holds("badge_form", "is", "nobody"),), Then("cannot_be_done", "beyond_authority")),
        Otherwise(Then("completed", "all_checks_passed", form="badge_form")),
        Evidence("repeat", ("other_status",)), Evidence("passport", ("passport_until",)), Evidence("stay", ("days", "zone")),
        Evidence("host", ("open_badges",)), Evidence("score", ("score", "least_score")), Evidence("risk", ("zone",)),
        Evidence("authority", ("days",)), Evidence("none", ("status", "signed_by", "score")),
        Definition("brief_visit", (Holds("days", parts("brief_means"), 2),)),
        DayMeant("qualifying_day", parts("qualifying_day")),
        Computed("open_badges", parts("host_counts")),
        Limit("most_badges", 3),
        Limit("least_score", least + 10),
        VersionDay("least_score", parts("score_version")),
        RateTable("longest_stay", "zone", (Row("lobby", 2), Row("office", 5), Row("lab", 3))),
        Scale("risk_class", ("class_1", "class_2", "class_3")),
        Level("risk_class", "class_1", (Holds("visitor", "is_not", "guest"), Holds("days", "above", 2))),
        Level("risk_class", "class_2", (AnyOf((LAB, Holds("days", "above", 2))),)),
        Level("risk_class", "class_3"),
    ]  # fmt: skip
    pieces += [Unless("passport", parts("passport_unless"))] if parts("passport_unless") else []
    pieces += [Despite("passport", parts("passport_despite"))] if _lost(parts) else []
    pieces += [Unless("stay", parts("stay_unless"))] if parts("stay_unless") else []
    change = parts("order_change")
    if change:
        earlier, later = sorted(("passport", "score"), key=parts("order").index)
        pieces.append(change if isinstance(change, Strictest) else Before(later, earlier, change))
    special = {"lab": Instead("least_score", least + 20, (LAB,)), "contractor": Instead("least_score", least, (CONTRACTOR,))}
    pieces += [special[name] for name in parts("special_scores")]
    pieces += [WhichFigure("least_score", parts("which_score"))] if len(parts("special_scores")) > 1 else []
    ladder = Ladder("badge_form", ("Desk Lead", "Site Manager"))
    longer = (Holds("brief_visit", "is", False), Holds("days", "at_most", 3))
    signers = (Signer("badge_form", "Desk Lead", (BRIEF,)), Signer("badge_form", "Site Manager", longer))
    pieces += [ladder] if parts("signer") == "ladder" else signers
    pieces += [Second("badge_form", "HR Lead", parts("second"))] if parts("second") else []
    if parts("amendment"):
        amended: dict[str, Limit | Evidence] = {
            "limit": Limit("most_badges", 8),
            "check": Evidence("none", ("status", "signed_by")),
        }
        pieces += [Amends(amended[parts("amendment")], parts("amended_from")), Papers(parts("papers"))]
    return Rulebook(tuple(pieces), ((Limit("least_score", least), Instead("least_score", least + 10, (LAB,))),))


def _lost(parts: Parts) -> bool:
    return bool(parts("passport_despite") and parts("passport_unless"))


DESIGN = Design(
    SLOTS,
    build,
    held_out_pairs=(
        (("passport_unless", "brief"), ("qualifying_day", "opened")),
        (("special_scores", "two"), ("score_version", "visit")),
    ),
)
