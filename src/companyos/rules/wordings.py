"""How each piece is said. One table, which renders and parses.

`{when}` is a clause or several, `{then}` is an order such as `close the ticket as declined with the reason below_minimum`.
Every piece has a wording for a handbook, a memo and a mail, and one that only tasks with new wording use. A new wording must
read well with every value of its slots; read some of them aloud.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from companyos.rules.grammar import Register, Wording
from companyos.rules.pieces import (
    NO_CHECK,
    Amends,
    AskOwner,
    Before,
    Check,
    Complete,
    Despite,
    Evidence,
    Order,
    Otherwise,
    Papers,
    Row,
    SeeAlso,
    Strictest,
    Then,
    Unless,
)


def said(*, new: str = "", fixed: Mapping[str, Any] | None = None, **texts: str) -> list[Wording]:
    """Return the wordings of a piece: one for each register, and a held-out one for all of them.

    A second wording for a register has an underscore behind its name, such as `handbook_`.
    """
    registers: dict[str, Register] = {"handbook": "handbook", "memo": "memo", "mail": "mail"}
    known = [Wording(text, registers[name.rstrip("_")], fixed=fixed or {}) for name, text in texts.items()]
    return [*known, Wording(new, held_out=True, fixed=fixed or {})] if new else known


def orders(*texts: str, new: str) -> list[Wording]:
    """Return the wordings of `Then`, which fit every register."""
    return [*(Wording(text) for text in texts), Wording(new, held_out=True)]


THEN = [
    *orders(
        "close the ticket as {resolution} with the reason {reason}",
        "close the ticket as {resolution} (reason: {reason})",
        "resolve the ticket as {resolution}, giving {reason} as the reason",
        new="end the ticket as {resolution} on the grounds of {reason}",
    ),
    *orders(
        "set {field} to {whom} and close the ticket as {resolution} with the reason {reason}",
        "close the ticket as {resolution} (reason: {reason}) with {field} set to {whom}",
        "enter {whom} as {field} and resolve the ticket as {resolution}, giving {reason} as the reason",
        new="end the ticket as {resolution} on the grounds of {reason}, with {whom} in the field {field}",
    ),
    *orders(
        "have {form} signed and close the ticket as {resolution} with the reason {reason}",
        "get {form} signed and close the ticket as {resolution} (reason: {reason})",
        "obtain a signature on {form} and resolve the ticket as {resolution}, giving {reason} as the reason",
        new="see that {form} is signed, then end the ticket as {resolution} on the grounds of {reason}",
    ),
    *orders(
        "have {form} signed, set {field} to {whom} and close the ticket as {resolution} with the reason {reason}",
        "get {form} signed and close the ticket as {resolution} (reason: {reason}) with {field} set to {whom}",
        "obtain a signature on {form}, enter {whom} as {field} and resolve the ticket as {resolution}, "
        "giving {reason} as the reason",
        new="see that {form} is signed, then end the ticket as {resolution} on the grounds of {reason}, "
        "with {whom} in the field {field}",
    ),
]

CHECKS: dict[type[Struct], list[Wording]] = {
    Then: THEN,
    Check: said(
        handbook="the {check} check: if {when}, {then}",
        handbook_="the {check} check applies if {when}; in that case, {then}",
        memo="on the {check} check: where {when}, please {then}",
        mail="if {when}, that is a case for the {check} check, so please {then}",
        new="whenever {when}, the {check} check tells you to {then}",
    ),
    Otherwise: said(
        handbook="if no check applies, {then}",
        memo="where none of the checks applies, please {then}",
        mail="if you find that no check applies, please {then}",
        new="for a ticket that passes every check, the rule is to {then}",
    ),
    Unless: said(
        handbook="a ticket is exempt from the {check} check if {when}",
        handbook_="the {check} check does not apply if {when}",
        memo="we grant an exemption from the {check} check where {when}",
        mail="you can skip the {check} check if {when}",
        new="the {check} check is waived whenever {when}",
    ),
    Despite: said(
        handbook="an exemption from the {check} check is lost if {when}",
        memo="no exemption from the {check} check is granted where {when}",
        mail="please do not skip the {check} check if {when}, even if an exemption seems to fit",
        new="exemptions from the {check} check are void whenever {when}",
    ),
    Evidence: [
        *said(
            handbook="if the {check} check decides, cite {facts}",
            memo="evidence for the {check} check: {facts}",
            mail="when the {check} check decides a ticket, please cite {facts}",
            new="the evidence that the {check} check calls for: {facts}",
        ),
        *said(
            handbook="if no check applies, cite {facts}",
            memo="evidence for a ticket to which no check applies: {facts}",
            mail="when you close a ticket to which no check applies, please cite {facts}",
            new="the evidence for a ticket that passes every check: {facts}",
            fixed={"check": NO_CHECK},
        ),
    ],
    Order: said(
        handbook="make the checks in this order, and let the first one that applies decide: {checks|, }",
        memo="order of the checks, of which the first one that applies decides: {checks|, then }",
        mail="please go through the checks in the order {checks|, then }, and stop at the first one that applies",
        new="of the following checks, the first one that applies decides the ticket: {checks|; }",
    ),
    Before: said(
        handbook="if {when}, the {check} check moves to the place directly before the {other} check",
        memo="where {when}, make the {check} check directly before the {other} check",
        mail="please pull the {check} check forward, directly before the {other} check, if {when}",
        new="the {check} check comes forward and stands directly before the {other} check whenever {when}",
    ),
    Strictest: said(
        handbook="if several checks apply, the strictest resolution counts ({resolutions|, then }), "
        "and among equal resolutions the order of the checks decides",
        memo="where several checks apply, please take the strictest resolution, which is the first of {resolutions|, }, "
        "and go by the order of the checks only among equal ones",
        mail="if more than one check applies, the first resolution in the row {resolutions|, } wins, "
        "and the order of the checks matters only for checks with the same resolution",
        new="among all checks that apply, the one with the strictest resolution decides (from strict to mild: "
        "{resolutions|, }), with the order of the checks as the tie-breaker",
    ),
}

COUNTED_NOUNS: dict[str, tuple[str, str]] = {  # one, several
    "exemption": ("exemption from a check", "exemptions from checks"),
    "lost_exemption": ("rule by which an exemption is lost", "rules by which an exemption is lost"),
    "special_figure": ("special figure", "special figures"),
    "second_signature": ("rule on a second signature", "rules on a second signature"),
    "change_of_order": ("rule that changes the order of the checks", "rules that change the order of the checks"),
    "amendment": ("amendment", "amendments"),
}


def _counts() -> list[Wording]:
    """Return the wordings of an index, with the right number of its noun."""
    wordings = []
    for kind, (one, several) in COUNTED_NOUNS.items():
        wordings += said(
            handbook=f"there are no {several}",
            memo=f"number of {several} in all our papers: 0",
            mail=f"you will find no {several} in our papers",
            new=f"none of our papers contains any {several}",
            fixed={"kind": kind, "count": 0},
        )
        wordings += said(
            handbook=f"in all papers together, there is one {one}",
            memo=f"number of {several} in all our papers: 1",
            mail=f"you will find one {one} in our papers, and no other",
            new=f"our papers contain exactly one {one}",
            fixed={"kind": kind, "count": 1},
        )
        wordings += said(
            handbook=f"in all papers together, there are {{count}} {several}",
            memo=f"number of {several} in all our papers: {{count}}",
            mail=f"you will find {{count}} {several} in our papers, and no others",
            new=f"our papers contain exactly {{count}} {several}",
            fixed={"kind": kind},
        )
    return wordings


PAPERS: dict[type[Struct], list[Wording]] = {
    Amends: [
        *said(
            handbook="with effect from the date of this paper, this rule replaces the earlier one: {piece}",
            memo="please note that one rule has changed: {piece}",
            mail="one rule is different from now on: {piece}",
            new="forget what the older papers say on this point: {piece}",
        ),
        *said(
            handbook="if {when}, this rule replaces the earlier one: {piece}",
            memo="please note that one rule has changed where {when}: {piece}",
            mail="one rule is different if {when}: {piece}",
            new="forget what the older papers say on this point whenever {when}: {piece}",
        ),
    ],
    Papers: said(
        handbook="if an amendment contradicts an older paper, {by} counts",
        memo="where an amendment and an older paper disagree, please go by {by}",
        mail="if you read one thing in an amendment and another thing in an older paper, {by} is right",
        new="between an amendment and an older paper that disagree, {by} prevails",
    ),
    Complete: _counts(),
    SeeAlso: said(
        handbook="see also the paper “{paper}”",
        memo="more rules are in the paper “{paper}”",
        mail="please read “{paper}” as well",
        new="the paper “{paper}” belongs to these rules",
    ),
    AskOwner: said(
        handbook="{office} answers questions about {topic}",
        memo="please put questions about {topic} to {office}",
        mail="if you need to know more about {topic}, just ask {office}",
        new="whatever you want to know about {topic}, {office} can tell you",
    ),
    Row: [Wording("{number} for {level}")],
}
BY = {
    "higher": ("the higher one",),
    "lower": ("the lower one",),
    "special": ("the one with the most conditions",),
    "later": ("the amendment",),
    "older": ("the older paper",),
}
