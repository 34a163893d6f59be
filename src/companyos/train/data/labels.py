"""Expert labels for episodes that a model has played: what the expert would have done at every state.

Where the model's turn equals the expert's, the turn is learnt as it is. Where it differs, the expert's turn becomes a
branch of the window at that position (`branches.py`). Worker processes label finished episodes while others are still
being played; they do not need torch.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from companyos.core.calls import NO_ANSWER, Call
from companyos.core.parallel import set_up_worker
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make
from companyos.env.line_syntax import parse_line, write_line
from companyos.env.teacher import Teacher
from companyos.train.data.demonstrations import contains_value, figures_of, values_of
from companyos.train.data.repeats import changes_world
from companyos.train.data.script import opening, reply_text
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import encode_turn

# Kinds of labels. SAME: the model's turn is the expert's. OTHER_WORDS: same call, other working lines. DIFFERS: another
# call. BLIND: the expert's call needs a value that the script has dropped. NONE: the expert has nothing left to do.
SAME, OTHER_WORDS, DIFFERS, BLIND, NONE = "same", "other_words", "differs", "blind", "none"
_MAX_EQUAL_BRANCHES = 4  # of an episode: a call stays due until the model makes it, so the same branch may come often


class EpisodeRecord(msgspec.Struct, frozen=True):
    """An episode as a labeller receives it: the lines of its calls, and the windows they were written in."""

    task_id: str
    lines: list[str]
    windows: list[tuple[list[int], list[tuple[int, int]]]]  # tokens, and the span of each turn


class LabelRules(msgspec.Struct, frozen=True):
    """Settings of the labeller."""

    working: bool = False  # whether labels have working lines
    branches: int = 12  # most branches of an episode
    loop: int = 3  # repeating a call that had the same reply this many times in a row is a loop
    reserve: int = 128  # most tokens of a turn
    seed: int = 0


class BranchLabel(msgspec.Struct, frozen=True):
    """The expert's turn at a position of a window, and whether the model was in a loop there."""

    window: int  # its index in the episode
    at: int  # index of the token where the branch begins
    tokens: list[int]
    loop: bool


class Labelled(msgspec.Struct, frozen=True):
    """The labels of an episode: the spans of each window that are learnt as they are, and the branches."""

    spans: list[list[tuple[int, int]]]
    branches: list[BranchLabel]
    counts: dict[str, int]
    labels: list[tuple[str, str, str]]  # for each state: kind, the model's line, the expert's line


def label(rules: LabelRules, tokenizer_json: str, episode: EpisodeRecord) -> Labelled:
    """Replay an episode and ask the expert at every state."""
    labeller = _EpisodeLabeller(rules, Tokenizer(tokenizer_json), episode)
    turns = [(number, span) for number, (_, spans) in enumerate(episode.windows) for span in spans]
    for line, (window, span) in zip(episode.lines, turns, strict=True):
        if not labeller.step(line, window, span):
            break
    return labeller.labelled()


class Labellers:
    """A pool of processes that label episodes. With 0 workers, this process does it.

    Each process receives the settings once, because a tokenizer has megabytes.
    """

    def __init__(self, workers: int, rules: LabelRules, tokenizer_json: str) -> None:
        self._settings = rules, tokenizer_json
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, context, _prepare_worker, self._settings) if workers else None

    def label(self, episode: EpisodeRecord) -> "Future[Labelled]":
        if self._pool is not None:
            return self._pool.submit(_label_in_worker, episode)
        future: Future[Labelled] = Future()
        future.set_result(label(*self._settings, episode))
        return future

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


_worker_settings: list[tuple[LabelRules, str]] = []  # in a worker process: its settings


def _prepare_worker(rules: LabelRules, tokenizer_json: str) -> None:
    set_up_worker()
    _worker_settings.append((rules, tokenizer_json))


def _label_in_worker(episode: EpisodeRecord) -> Labelled:
    return label(*_worker_settings[0], episode)


class _EpisodeLabeller:
    """An episode while it is being labelled."""

    def __init__(self, rules: LabelRules, tokenizer: Tokenizer, episode: EpisodeRecord) -> None:
        self._rules, self._tokenizer, self._episode = rules, tokenizer, episode
        self._env: CompanyEnv = make(episode.task_id)
        self._teacher = Teacher(self._env)
        self._texts_shown = [opening(self._env.look())]
        self._spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._branches: list[BranchLabel] = []
        self._counts: Counter[str] = Counter()
        self._labels: list[tuple[str, str, str]] = []
        self._due: Call | None = None
        self._made_while_due: list[Call] = []  # answered calls that the model made while `_due` was due
        self._same_replies = 0  # how many times in a row the last call had the same reply
        self._last = ("", "")  # line and reply of the last call

    def step(self, line: str, window: int, span: tuple[int, int]) -> bool:
        """Label a state, then make the model's call. Return False if no later state can be labelled."""
        call = parse_line(line, self._env.toolbox)
        due = self._teacher.due()
        if due.call is None:
            self._counts[NONE] += 1
            self._labels.append((NONE, line, due.why))
            return False
        if due.call != self._due:
            self._due, self._made_while_due = due.call, []
        in_loop = self._same_replies >= self._rules.loop and line == self._last[0]
        kind, expert_line = self._compare(call, due.call, due.working, window, span, in_loop)
        self._counts[kind] += 1
        self._counts["states"] += 1
        self._counts["loops"] += in_loop
        self._labels.append((kind, line, expert_line))
        obs = self._env.step(line if isinstance(call, str) else call)
        reply = reply_text(obs, call if isinstance(call, str) else "")
        self._texts_shown.append(reply)
        if not isinstance(call, str) and obs.reply.code != NO_ANSWER:
            self._made_while_due.append(call)
        is_repeat = (line, reply) == self._last and not changes_world(call, self._env.toolbox)
        self._same_replies = self._same_replies + 1 if is_repeat else 1
        self._last = (line, reply)
        return not obs.done

    def _compare(
        self, call: Call | str, due: Call, due_working: Sequence[str], window: int, span: tuple[int, int], in_loop: bool
    ) -> tuple[str, str]:
        """Return the kind of a label and the line of the expert's call. Record what is learnt."""
        tokens, (start, end) = self._episode.windows[window][0], span
        working = tuple(due_working) if self._rules.working else ()
        target = self._possible_call(due, working, tokens[:start]) if window else due  # the first window has dropped nothing
        if target is None:
            return BLIND, write_line(due)
        if target is not due:
            working = ()
        target_tokens, _ = encode_turn(self._tokenizer.encode, write_line(target), working)
        if tokens[start:end] == target_tokens:
            self._spans[window].append(span)
            return SAME, write_line(target)
        if len(target_tokens) < self._rules.reserve:
            self._branches.append(BranchLabel(window, start, target_tokens, in_loop))
        return OTHER_WORDS if call == target else DIFFERS, write_line(target)

    def _possible_call(self, due: Call, working: Sequence[str], script: list[int]) -> Call | None:
        """Return the due call if the script shows all its values, or the call that shows a dropped one again.

        Without this a model would learn to invent values (see `demonstrations.py`). While one call is due, each other call
        is repeated only once: otherwise two replies that do not fit into the window together would be read in turns for
        ever. Return None if a value is missing and no call may show it.
        """
        visible, lacks_value = self._tokenizer.decode(script), False
        for value in (*values_of(due), *figures_of(working)):
            if contains_value(value, visible) or not any(contains_value(value, text) for text in self._texts_shown):
                continue
            lacks_value = True
            reading = next(self._readings(value), None)
            if reading is not None and reading not in self._made_while_due:
                return reading
        return None if lacks_value else due

    def _readings(self, value: str) -> Iterator[Call]:
        """Yield the calls that showed a value and that can be repeated without a write or a wait, latest first."""
        for turn, text in zip(reversed(self._env.turns), reversed(self._texts_shown), strict=False):
            tool = self._env.toolbox.find(turn.call) if turn.call.app else None
            if tool is not None and not tool.writes and tool.method != "wait" and contains_value(value, text):
                yield turn.call

    def labelled(self) -> Labelled:
        spans = [self._spans[number] for number in range(len(self._episode.windows))]
        return Labelled(spans, self._chosen(), dict(self._counts), self._labels)

    def _chosen(self) -> list[BranchLabel]:
        """Return the branches that are learnt: those in loops and the first two of the episode, then random ones.

        The first two come first because later mistakes often follow from them.
        """
        counts: Counter[tuple[int, ...]] = Counter()
        candidates: list[BranchLabel] = []
        for branch in self._branches:
            counts[tuple(branch.tokens)] += 1
            if counts[tuple(branch.tokens)] <= _MAX_EQUAL_BRANCHES:
                candidates.append(branch)
        streams = Streams(f"labels/{self._rules.seed}/{self._episode.task_id}")

        def order(index: int) -> tuple[bool, float]:
            preferred = candidates[index].loop or index < 2
            return not preferred, streams.at("branch", index).random()

        chosen = sorted(range(len(candidates)), key=order)[: self._rules.branches]
        return [candidates[index] for index in sorted(chosen)]
