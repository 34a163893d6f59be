"""Labels are what the expert would do at each state, as the tokens that the model should have written."""

from collections import Counter
from collections.abc import Sequence

import pytest

from companyos.core.calls import Call
from companyos.env import make
from companyos.env.line_syntax import parse_line, write_line
from companyos.env.teacher import Due, Teacher, work_aloud
from companyos.train.data.demonstrations import DemoPlan, demonstration_of
from companyos.train.data.labels import BLIND, DIFFERS, NONE, OTHER_WORDS, SAME, EpisodeRecord, LabelRules, label
from companyos.train.data.script import Script, opening, reply_text
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import encode_turn
from companyos.train.decoding.attempts import LOOP_CALLS
from companyos.train.model.models import Learner
from tests.helpers import FAMILY, task_id

LIMIT = 8192
TASKS = [task_id(seed) for seed in range(3)]


@pytest.fixture
def tokenizer(learner: Learner) -> Tokenizer:
    return learner.script_tokenizer()


def episode_of(task: str, turns: Sequence[tuple[str, tuple[str, ...]]], tokenizer: Tokenizer) -> EpisodeRecord:
    """Return the episode of a model that writes these turns: the line of each call, and its working lines."""
    env, script, spans = make(task), Script(tokenizer.encode, LIMIT, 416), list[tuple[int, int]]()
    script.open(opening(env.look()))
    lines = []
    for line, working in turns:
        start = len(script.tokens)
        script.add_turn(*encode_turn(tokenizer.encode, line, working))
        spans.append((start, len(script.tokens)))
        lines.append(line)
        call = parse_line(line, env.toolbox)
        obs = env.step(line if isinstance(call, str) else call)
        if obs.done:
            break
        assert not script.add_reply(reply_text(obs))
    return EpisodeRecord(task, lines, [(script.tokens[: spans[-1][1]], spans)])


def expert_turns(task: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(write_line(turn.call), turn.working) for turn in work_aloud(make(task))]


@pytest.mark.parametrize("working", [True, False])
def test_the_labels_of_an_experts_episode_agree_with_it_everywhere(
    learner: Learner, tokenizer: Tokenizer, working: bool
) -> None:
    rules = LabelRules(working=working, reserve=416)
    for task in TASKS:
        turns = [(line, lines if working else ()) for line, lines in expert_turns(task)]
        labelled = label(rules, learner.tokenizer_json, episode_of(task, turns, tokenizer))
        assert {kind for kind, _, _ in labelled.labels} == {SAME}
        assert labelled.branches == []
        plan = DemoPlan((FAMILY,), slips=0.0, limit=LIMIT, reserve=416 - 288 * working, working=working)
        assert labelled.spans[0] == demonstration_of(plan, tokenizer, task).windows[0].spans


def test_a_right_call_with_other_working_becomes_a_branch(learner: Learner, tokenizer: Tokenizer) -> None:
    turns = [(line, ("1 < 2: made up",)) for line, _ in expert_turns(TASKS[0])]
    labelled = label(
        LabelRules(working=True, reserve=416, branches=99), learner.tokenizer_json, episode_of(TASKS[0], turns, tokenizer)
    )
    assert {kind for kind, _, _ in labelled.labels} == {OTHER_WORDS}
    assert len(labelled.branches) == len(turns)


def test_after_a_detour_the_labels_continue_from_the_models_state(learner: Learner, tokenizer: Tokenizer) -> None:
    right = [(line, ()) for line, _ in expert_turns(TASKS[1])]
    turns = [*right[:3], ("no", ()), ("my_changes", ()), *right[3:]]
    episode = episode_of(TASKS[1], turns, tokenizer)
    labelled = label(LabelRules(reserve=416), learner.tokenizer_json, episode)
    kinds = [kind for kind, _, _ in labelled.labels]
    assert kinds[:5] == [SAME, SAME, SAME, DIFFERS, DIFFERS]
    assert set(kinds[5:]) == {SAME}
    assert [due for _, _, due in labelled.labels][3:6] == [right[3][0]] * 3
    for branch, span in zip(labelled.branches, episode.windows[0][1][3:5], strict=True):
        assert branch.at == span[0]
        assert tokenizer.decode(branch.tokens) == f" {right[3][0]}\n"


def test_labels_end_where_the_episode_is_lost(
    learner: Learner, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, due = [(line, ()) for line, _ in expert_turns(TASKS[0])], Teacher.due

    def lost_after_two(teacher: Teacher, verify: bool = True) -> Due:
        return due(teacher, verify) if teacher._env.step_count < 2 else Due(why="lost: damage")

    monkeypatch.setattr(Teacher, "due", lost_after_two)
    labelled = label(LabelRules(reserve=416), learner.tokenizer_json, episode_of(TASKS[0], right, tokenizer))
    assert [kind for kind, _, _ in labelled.labels] == [SAME, SAME, NONE]
    assert len(labelled.spans[0]) == 2


def test_in_a_loop_only_a_few_equal_branches_are_learnt(learner: Learner, tokenizer: Tokenizer) -> None:
    right = [(line, ()) for line, _ in expert_turns(TASKS[2])]
    episode = episode_of(TASKS[2], [*right[:2], *[("my_changes", ())] * 12], tokenizer)
    labelled = label(LabelRules(reserve=416, branches=12), learner.tokenizer_json, episode)
    assert labelled.counts["loops"] > 5
    assert 0 < len(labelled.branches) <= 4
    assert labelled.counts[DIFFERS] == 12


def play_labels(task: str, limit: int, learner: Learner, tokenizer: Tokenizer) -> tuple[set[str], int, bool]:
    """Make the call of every label. Return the kinds of labels, the most equal calls with equal replies, and the success."""
    env, script, window = make(task), Script(tokenizer.encode, limit, 128), list[tuple[int, int]]()
    script.open(opening(env.look()))
    lines, windows, kinds = list[str](), list[tuple[list[int], list[tuple[int, int]]]](), set[str]()
    counts: Counter[tuple[str, str]] = Counter()
    while not env.done:
        start = len(script.tokens)
        windows_so_far = [*windows, (script.tokens + tokenizer.encode(" no\n"), [*window, (start, start + 1)])]
        kind, _, due = label(
            LabelRules(working=True), learner.tokenizer_json, EpisodeRecord(task, [*lines, "no"], windows_so_far)
        ).labels[-1]
        call = parse_line(due, env.toolbox)
        assert isinstance(call, Call)
        kinds.add(kind)
        lines.append(due)
        script.add_turn(tokenizer.encode(f" {due}\n"))
        window.append((start, len(script.tokens)))
        reply, tokens = reply_text(env.step(call)), script.tokens[:]
        counts[due, reply] += 1
        if script.add_reply(reply):
            windows.append((tokens, window))
            window = []
    return kinds, max(counts.values()), bool(env.success)


def test_an_agent_that_follows_the_labels_does_not_loop(learner: Learner, tokenizer: Tokenizer) -> None:
    """If a window is too short for all values that a call needs, reading one record again drops another."""
    kinds, highest_count, success = play_labels(task_id(0, "50"), 1200, learner, tokenizer)
    assert BLIND in kinds
    assert highest_count < LOOP_CALLS
    assert success
