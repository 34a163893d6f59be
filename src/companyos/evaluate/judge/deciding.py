"""The facts that decide the right ending of an episode: what they mean, and when the agent read them or could have."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from companyos.assurance.replay import action_of
from companyos.assurance.twins import twins_with_other_ending
from companyos.company import Metric, Policy, Ticket
from companyos.core.episode import Turn
from companyos.core.task import TaskId
from companyos.env import CompanyEnv
from companyos.env.knowledge import Knowledge
from companyos.evaluate.judge.clauses import clause_for
from companyos.families import family
from companyos.families.kit.case import Cause, Fact
from companyos.families.kit.citations import Cites
from companyos.families.kit.goals import ANSWER, SIGNED_REQUEST
from companyos.families.kit.missed import in_words

READ, STALE, OTHER_SOURCE = "read", "stale", "other source"
NOT_ASKED, UNANSWERED, NOT_READ = "not asked", "unanswered", "not read"
# The fact was read, but not the policy, or another record, that the right ending depends on as well.
NO_POLICY, NO_RECORD = "policy not read", "record not read"
_MAX_TOLD = 2  # facts in a story


class DecidingFact(msgspec.Struct, frozen=True):
    """A fact that decides the right ending, and how the agent treated it."""

    cause: str
    blind: bool  # the agent saw the same bytes as on a twin (same task, this one fact changed)
    assumed_otherwise: bool  # it closed the ticket in the way that is right on that twin
    shown_at: int  # the first step whose reply differs from the twin's; 0 if none does
    claimed: bool = False  # the ending that it chose rests on this fact: on that twin, the fact has to be cited


class FactInWords(msgspec.Struct, frozen=True):
    """A deciding fact for a reader. `how` is one of the constants above."""

    cause: str
    meaning: str  # what is so in this case
    how: str
    reading: str  # when it was read, or when it could have been, in a sentence or two
    unread: tuple[str, ...] = ()  # ids of the records that the agent should have read, or of the people to ask


def deciding_facts(env: CompanyEnv, act: int) -> list[DecidingFact]:
    """Return the facts that decide the ending: those whose change gives a twin with another right ending.

    The calls before the decisive one, number `act`, are made again on these twins.
    """
    ticket = env.world.get(Ticket, env.setting.case.ticket_id)
    specs = _specs(env)
    facts: dict[str, DecidingFact] = {}
    for cause, twin_id in twins_with_other_ending(env.task_id):
        twin = CompanyEnv(TaskId.parse(twin_id), "sparse")
        right = twin.setting.ending
        assumed = (right.resolution, right.reason) == (ticket.resolution, ticket.reason) and not env.success
        shown_at = _first_difference(twin, env.turns[: act - 1])
        # A fact with several other values has several twins; one of them is enough.
        so_far = facts.get(cause, DecidingFact(cause, blind=False, assumed_otherwise=False, shown_at=0))
        facts[cause] = DecidingFact(
            cause,
            blind=so_far.blind or not shown_at,
            assumed_otherwise=so_far.assumed_otherwise or assumed,
            shown_at=shown_at if assumed or not so_far.assumed_otherwise else so_far.shown_at,
            claimed=so_far.claimed or (assumed and _has_to_be_cited(twin, specs[cause])),
        )
    return list(facts.values())


def _first_difference(twin: CompanyEnv, turns: Sequence[Turn]) -> int:
    """Return the first step whose reply or time differs on a twin; 0 if none does."""
    for step, turn in enumerate(turns, 1):
        twin.step(action_of(turn))
        twin_turn = twin.turns[-1]
        if twin_turn.now != turn.now or msgspec.json.encode(twin_turn.reply) != msgspec.json.encode(turn.reply):
            return step
    return 0


def told_facts(env: CompanyEnv, facts: Sequence[DecidingFact], act: int) -> tuple[FactInWords, ...]:
    """Return the one or two facts that explain a failure or a lucky success best, in words.

    In a failure, these are the facts that the agent took to be otherwise; else those that the right ending has to cite.
    In all other cases they are the facts that no reply had shown.
    """
    specs = _specs(env)
    assumed = [fact for fact in facts if fact.assumed_otherwise]
    cited = [fact for fact in facts if _has_to_be_cited(env, specs[fact.cause])]
    blind = [fact for fact in facts if fact.blind]
    chosen = blind if env.success else assumed or cited or blind
    turns = env.turns[: act - 1]
    return tuple(_in_words(env, specs[fact.cause], fact, turns) for fact in chosen[:_MAX_TOLD])


def _in_words(env: CompanyEnv, cause: Cause, fact: DecidingFact, turns: Sequence[Turn]) -> FactInWords:
    how, reading = _reading(env, cause, fact, turns)
    unread = () if how == READ else tuple(record for _, record, _ in _places(env, cause))
    # An ending that rests on a false claim was not chosen because something else was not read.
    may_lack_more = how == READ and (not fact.claimed or _has_to_be_cited(env, cause))
    if may_lack_more and (gap := _unread_beside(env, turns)):
        how, record, sentence = gap
        reading, unread = f"{reading} {sentence}", (record,)
    return FactInWords(cause.name, fact_in_this_case(env, cause), how, reading, unread)


def fact_in_this_case(env: CompanyEnv, cause: Cause) -> str:
    """Return what a fact means and what is so in this case. The declared meaning of a bool describes the value True."""
    value = getattr(env.setting.causes, cause.name)
    meaning = cause.meaning or in_words(cause.name)
    if value is True:
        return meaning
    if value is not False:
        return f"{meaning} (here: {in_words(value)})"
    # For example "the firm would handle personal data, so its minimum score is higher": the rest is not so here.
    meaning = meaning.partition(", so ")[0]
    statement, semicolon, remark = meaning.partition("; ")  # for example "; only Legal knows"
    return f"whether {statement} (here: no){semicolon}{remark}"


def _specs(env: CompanyEnv) -> dict[str, Cause]:
    """Return the causes of the task's family by name."""
    return {cause.name: cause for cause in family(TaskId.parse(env.task_id).family).specs()}


def _has_to_be_cited(env: CompanyEnv, cause: Cause) -> bool:
    """Return whether the right ending has to cite a field that shows a fact."""
    return not {place[1:] for place in _places(env, cause)}.isdisjoint(_must_cite(env))


def _must_cite(env: CompanyEnv) -> list[tuple[str, str]]:
    """Return record and field of each fact that the right ending has to cite."""
    return [fact for goal in env.setting.ending.goals if isinstance(goal, Cites) for fact in goal.facts]


def _unread_beside(env: CompanyEnv, turns: Sequence[Turn]) -> tuple[str, str, str] | None:
    """Return a record that the right ending depends on and that no reply had shown: `how`, its id, and a sentence.

    These are the facts to cite that exist at the start, and the policy that requires the ending, in any version.
    """
    world, ending = env.setting.world, env.setting.ending
    for record, field in _must_cite(env):
        if not record.startswith((SIGNED_REQUEST, ANSWER)) and not _was_shown(turns, "id", record, field):
            how = NO_POLICY if world.peek(Policy, record) else NO_RECORD
            return how, record, f"But {record}'s {in_words(field)}, which had to be cited as well, was never read."
    clause = clause_for(world, (TaskId.parse(env.task_id).family,), ending.resolution, ending.reason)
    if clause is None or _was_shown(turns, "title", clause.title, "text"):
        return None
    return NO_POLICY, clause.policy_id, f"But {clause.policy_id}, the policy that requires this ending, was never read."


def _was_shown(turns: Sequence[Turn], key: str, value: str, field: str) -> bool:
    """Return whether a reply showed a field, or a term, of a record whose `key` is `value`."""
    shown = (data for turn in turns for data in _records(turn.reply.data) if data.get(key) == value)
    return any(field in part for data in shown for part in _records(data))


Place = tuple[str, str, str]  # kind, record and field


def _places(env: CompanyEnv, cause: Cause) -> list[Place]:
    """Return where a fact can be read: in fields of records, or (kind `Mind`) from a person who knows it."""
    assert isinstance(cause.annotation, Fact)
    roles = env.setting.case.roles
    return [
        (kind, roles[role], field) for kind, role, field in cause.annotation.shown_in if kind != "Source" and role in roles
    ]


def _reading(env: CompanyEnv, cause: Cause, fact: DecidingFact, turns: Sequence[Turn]) -> tuple[str, str]:
    """Return how the agent came by a fact, and a sentence about it."""
    places = _places(env, cause)
    for kind, record, _ in places:
        if kind == "Metric" and (reading := _bad_reading(env, record, turns)):
            return reading
    if not fact.blind:
        return READ, f"Step {fact.shown_at} had shown it{_as_shown(turns[fact.shown_at - 1], places)}."
    for kind, record, field in places:
        if kind == "Mind":
            return _asking(record, env.scene.brief, turns)
        return NOT_READ, _not_read(record, field, env.scene.brief, turns)
    return NOT_READ, "No reply had shown it."


def _as_shown(turn: Turn, places: Sequence[Place]) -> str:
    shown = [
        f"{record}'s {in_words(field)} is {data[field]}"
        for _, record, field in places
        for data in _records(turn.reply.data)
        if data.get("id") == record and field in data
    ]
    return f" ({shown[0]})" if shown else ""


def _bad_reading(env: CompanyEnv, name: str, turns: Sequence[Turn]) -> tuple[str, str] | None:
    """Return why the last reading of a metric was no use: too old, or from another source. None if it was right."""
    metric = env.setting.world.get(Metric, name)
    readings = [
        (step, turn.call.method, data)
        for step, turn in enumerate(turns, 1)
        for data in _records(turn.reply.data)
        if data.get("id") == name and "value" in data
    ]
    if not readings:
        return None
    step, method, data = readings[-1]
    if "age_days" not in data:
        return OTHER_SOURCE, f"Step {step} had shown {data['value']} for {name}, but {method} is not where it is measured."
    if data["age_days"] <= metric.max_age_days:
        return None
    return STALE, (
        f"Step {step} had shown only an old measurement: {name} was {data['value']}, measured {data['age_days']} days "
        f"before, and at most {metric.max_age_days} days are allowed. It was not refreshed and read again."
    )


def _asking(person: str, brief: str, turns: Sequence[Turn]) -> tuple[str, str]:
    asked = [step for step, turn in enumerate(turns, 1) if turn.call.params.get("to") == person]
    if asked:
        return UNANSWERED, f"{person} knows it and was asked at step {asked[0]}, but no reply had shown the answer."
    return NOT_ASKED, f"{person} knows it and was never asked{_known_since(person, brief, turns, 'could have been asked')}."


def _not_read(record: str, field: str, brief: str, turns: Sequence[Turn]) -> str:
    since = _known_since(record, brief, turns, "could have been read")
    return f"It is in {record}'s {in_words(field)}, which was not read{since}."


def _known_since(record: str, brief: str, turns: Sequence[Turn], could: str) -> str:
    """Return from which step on the agent knew an id, so that it could have used it."""
    knowledge = Knowledge(brief)
    if record in knowledge.values:
        return f"; it {could} from the start"
    for step, turn in enumerate(turns, 1):
        knowledge.hear(turn.reply)
        if record in knowledge.values:
            return f"; it {could} after step {step}, which named {record}"
    return f"; no reply had named {record}"


def _records(data: Any) -> Iterator[dict[str, Any]]:
    """Yield all dicts inside the data of a reply."""
    if isinstance(data, dict):
        yield data
        for value in data.values():
            yield from _records(value)
    elif isinstance(data, list | tuple):
        for item in data:
            yield from _records(item)
