"""The right ending of a vendor case: the ruling by its rulebook, as goals over the records of the company."""

from companyos.core.world import Streams, World
from companyos.families.kit.case import Case
from companyos.families.kit.citations import CitedFacts
from companyos.families.kit.family import Ending
from companyos.families.kit.goals import SIGNED_REQUEST
from companyos.families.kit.rulings import ruled_ending
from companyos.families.vendor_onboarding.causes import FORM, SECOND_FORM, Causes
from companyos.families.vendor_onboarding.facts import ROLES, draw_numbers
from companyos.families.vendor_onboarding.rules import RULES
from companyos.rules import NO_CHECK, Question, VersionDay, answered, figure


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending: what the rulebook orders for the facts that the causes name."""
    roles, streams = case.roles, Streams(case.draws)
    ruling = RULES.ruling(causes, streams)
    last_form = SECOND_FORM if len(ruling.signers) > 1 else FORM
    request = f"{SIGNED_REQUEST}:{last_form}"
    entry, score, earlier, ticket = roles["entry"], roles["score"], roles["earlier"], roles["ticket"]
    facts = {
        "other_reference": (earlier, "reference"),
        "other_status": (earlier, "status"),
        "owner": (entry, "owner"),
        "requester": (ticket, "requester"),
        "insurance_until": (entry, "insurance_until"),
        "certificate": (entry, "certificate"),
        "data_class": (entry, "data_class"),
        "score": (score, "value"),
        "minimum": minimum_of(case, causes),
        "amount": (ticket, "amount"),
        "limit": (roles["cfo"], "limit"),
        "status": (request, "status"),
        "decided_by": (request, "decided_by"),
    }
    return ruled_ending(
        world,
        case,
        ruling,
        facts=facts,
        whom={office: roles[role] for office, role in ROLES.items()} | {"requester": roles["requester"], "other": earlier},
        forms=(FORM, SECOND_FORM),
        must_be_fresh=(score,) if "score" in ruling.asked or ruling.check == NO_CHECK else (),
        rivals=_figures(case),
    )


def minimum_of(case: Case, causes: Causes) -> tuple[str, str]:
    """Return the paper that sets the minimum score of a case, and the name of the figure there."""
    streams = Streams(case.draws)
    numbers, book, answer = draw_numbers(streams), RULES.book(causes, streams), RULES.answers(causes, streams)
    applied = answered(figure(book, "minimum"), answer)
    if applied == numbers.amended:
        return case.roles["amendment"], "minimum"
    older = answer(Question("edition", ("minimum", book.get(VersionDay, "minimum").day)))
    names = {numbers.personal: "minimum_personal", numbers.outside: "minimum_no_framework"}
    return case.roles["older" if older else "policy"], names.get(applied, "minimum")


def _figures(case: Case) -> CitedFacts:
    """Return all figures of the minimum score, in all papers."""
    papers = [case.roles[role] for role in ("policy", "older", "amendment") if role in case.roles]
    return tuple(
        (paper, name) for paper in papers for name in ("minimum", "minimum_personal", "minimum_no_framework")
    )
