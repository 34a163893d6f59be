"""Labels are what the expert would do at each state, in the tokens that the model should have said."""

from collections import Counter
from collections.abc import Sequence

import pytest

from companyos.core.calls import Call
from companyos.env import make
from companyos.env.line_syntax import parse_line, write_line
from companyos.env.teacher import Due, Teacher, work_aloud
from companyos.train.data.demonstrations import DemoPlan, shown
from companyos.train.data.labels import BLIND, DIFFERS, NONE, OTHER_WORDS, SAME, EpisodeRecord, Rules, label
from companyos.train.data.script import Script, heard, opening
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import encoded
from companyos.train.decoding.attempts import LOOPED
from companyos.train.model.models import Learner
from tests.helpers import FAMILY, task_id

LIMIT = 8192
TASKS = [task_id(seed) for seed in range(3)]


@pytest.fixture
def tokenizer(learner: Learner) -> Tokenizer:
    return learner.script_tokenizer()


def told(task: str, turns: Sequence[tuple[str, tuple[str, ...]]], tokenizer: Tokenizer) -> EpisodeRecord:
    """The story of somebody who says these turns."""
    env, script, spans = make(task), Script(tokenizer.encode, LIMIT, 416), list[tuple[int, int]]()
    script.open(opening(env.look()))
    lines = []
    for line, working in turns:
        start = len(script.tokens)
        script.say(*encoded(tokenizer.encode, line, working))
        spans.append((start, len(script.tokens)))
        lines.append(line)
        call = parse_line(line, env.toolbox)
        obs = env.step(line if isinstance(call, str) else call)
        if obs.done:
            break
        assert not script.hear(heard(obs))
    return EpisodeRecord(task, lines, [(script.tokens[: spans[-1][1]], spans)])


def way(task: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(write_line(turn.call), turn.working) for turn in work_aloud(make(task))]


@pytest.mark.parametrize("working", [True, False])
def test_an_expert_agrees_with_itself_everywhere(learner: Learner, tokenizer: Tokenizer, working: bool) -> None:
    rules = Rules(working=working, reserve=416)
    for task in TASKS:
        turns = [(line, lines if working else ()) for line, lines in way(task)]
        found = label(rules, learner.tokenizer_json, told(task, turns, tokenizer))
        assert {kind for kind, _, _ in found.labels} == {SAME}
        assert found.twigs == []
        plan = DemoPlan((FAMILY,), slips=0.0, limit=LIMIT, reserve=416 - 288 * working, working=working)
        assert found.spans[0] == shown(plan, tokenizer, task).windows[0].calls


def test_a_call_that_is_right_with_other_working_is_taught_as_a_branch(learner: Learner, tokenizer: Tokenizer) -> None:
    turns = [(line, ("1 < 2: made up",)) for line, _ in way(TASKS[0])]
    found = label(Rules(working=True, reserve=416, branches=99), learner.tokenizer_json, told(TASKS[0], turns, tokenizer))
    assert {kind for kind, _, _ in found.labels} == {OTHER_WORDS}
    assert len(found.twigs) == len(turns)


def test_after_a_detour_the_expert_goes_on_where_the_model_stands(learner: Learner, tokenizer: Tokenizer) -> None:
    right = [(line, ()) for line, _ in way(TASKS[1])]
    turns = [*right[:3], ("no", ()), ("my_changes", ()), *right[3:]]
    story = told(TASKS[1], turns, tokenizer)
    found = label(Rules(reserve=416), learner.tokenizer_json, story)
    kinds = [kind for kind, _, _ in found.labels]
    assert kinds[:5] == [SAME, SAME, SAME, DIFFERS, DIFFERS]
    assert set(kinds[5:]) == {SAME}
    assert [due for _, _, due in found.labels][3:6] == [right[3][0]] * 3
    for twig, span in zip(found.twigs, story.windows[0][1][3:5], strict=True):
        assert twig.at == span[0]
        assert tokenizer.decode(twig.tokens) == f" {right[3][0]}\n"


def test_labels_end_where_nobody_could_win(learner: Learner, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    right, due = [(line, ()) for line, _ in way(TASKS[0])], Teacher.due

    def lost_after_two(teacher: Teacher, verify: bool = True) -> Due:
        return due(teacher, verify) if teacher._env.step_count < 2 else Due(why="lost: damage")

    monkeypatch.setattr(Teacher, "due", lost_after_two)
    found = label(Rules(reserve=416), learner.tokenizer_json, told(TASKS[0], right, tokenizer))
    assert [kind for kind, _, _ in found.labels] == [SAME, SAME, NONE]
    assert len(found.spans[0]) == 2


def test_who_repeats_one_call_is_taught_to_go_on_a_few_times_only(learner: Learner, tokenizer: Tokenizer) -> None:
    right = [(line, ()) for line, _ in way(TASKS[2])]
    story = told(TASKS[2], [*right[:2], *[("my_changes", ())] * 12], tokenizer)
    found = label(Rules(reserve=416, branches=12), learner.tokenizer_json, story)
    assert found.counts["loops"] > 5
    assert 0 < len(found.twigs) <= 4
    assert found.counts[DIFFERS] == 12


def followed(task: str, limit: int, learner: Learner, tokenizer: Tokenizer) -> tuple[set[str], int, bool]:
    """Make the call of every label. Return the kinds of labels, the most equal calls with equal replies, and the success."""
    env, script, window = make(task), Script(tokenizer.encode, limit, 128), list[tuple[int, int]]()
    script.open(opening(env.look()))
    lines, windows, kinds = list[str](), list[tuple[list[int], list[tuple[int, int]]]](), set[str]()
    made: Counter[tuple[str, str]] = Counter()
    while not env.done:
        start = len(script.tokens)
        here = [*windows, (script.tokens + tokenizer.encode(" no\n"), [*window, (start, start + 1)])]
        kind, _, due = label(Rules(working=True), learner.tokenizer_json, EpisodeRecord(task, [*lines, "no"], here)).labels[
            -1
        ]
        call = parse_line(due, env.toolbox)
        assert isinstance(call, Call)
        kinds.add(kind)
        lines.append(due)
        script.say(tokenizer.encode(f" {due}\n"))
        window.append((start, len(script.tokens)))
        reply, seen = heard(env.step(call)), script.tokens[:]
        made[due, reply] += 1
        if script.hear(reply):
            windows.append((seen, window))
            window = []
    return kinds, max(made.values()), bool(env.success)


def test_who_follows_the_labels_is_not_sent_round_in_circles(learner: Learner, tokenizer: Tokenizer) -> None:
    """In a window that is too short for all that a call needs, reading one record again pushes out another."""
    kinds, most, success = followed(task_id(0, "50"), 1200, learner, tokenizer)
    assert BLIND in kinds
    assert most < LOOPED
    assert success
