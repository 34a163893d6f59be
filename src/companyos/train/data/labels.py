"""Expert labels for episodes that a model has played: what the expert would have done at every state.

Where the model's turn equals the expert's, the turn is learnt as it is. Where it differs, the expert's turn becomes a
branch of the window at that place (`branches.py`). Worker processes label episodes while others are still being played;
they do not need torch.
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
from companyos.train.data.demonstrations import figures_of, stands_in, values_of
from companyos.train.data.repeats import moves
from companyos.train.data.script import heard, opening
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import encoded

# Kinds of labels. SAME: the model's turn is the expert's. OTHER_WORDS: same call, other working lines. DIFFERS: another
# call. BLIND: the expert's call needs a value that the script has dropped. NONE: the expert has nothing left to do.
SAME, OTHER_WORDS, DIFFERS, BLIND, NONE = "same", "other_words", "differs", "blind", "none"
_ALIKE = 4  # equal branches of an episode at most: a call stays due until the model makes it


class EpisodeRecord(msgspec.Struct, frozen=True):
    """An episode as a labeller receives it: the lines of its calls, and the windows they were written in."""

    task_id: str
    lines: list[str]
    windows: list[tuple[list[int], list[tuple[int, int]]]]  # tokens, and the span of each turn


class Rules(msgspec.Struct, frozen=True):
    """Settings of the labeller."""

    working: bool = False
    branches: int = 12  # most branches of an episode
    loop: int = 3  # repeating a call that had the same reply this many times in a row is a loop
    reserve: int = 128  # most tokens of a turn
    seed: int = 0


class BranchLabel(msgspec.Struct, frozen=True):
    """The expert's turn at a place of a window, and whether the model was in a loop there."""

    window: int
    at: int
    tokens: list[int]
    loop: bool


class Labelled(msgspec.Struct, frozen=True):
    """The labels of an episode: the spans of each window that are learnt as they are, and the branches."""

    spans: list[list[tuple[int, int]]]
    twigs: list[BranchLabel]
    counts: dict[str, int]
    labels: list[tuple[str, str, str]]  # for each state: kind, the model's line, the expert's line


def label(rules: Rules, tokenizer_json: str, story: EpisodeRecord) -> Labelled:
    """Replay an episode and ask the expert at every state."""
    walk = _EpisodeLabeller(rules, Tokenizer(tokenizer_json), story)
    places = [(number, span) for number, (_, spans) in enumerate(story.windows) for span in spans]
    for line, (window, span) in zip(story.lines, places, strict=True):
        if not walk.step(line, window, span):
            break
    return walk.labelled()


class Labellers:
    """A pool of processes that label episodes. With 0 workers, this process does it.

    Each process receives the settings once, because a tokenizer has megabytes.
    """

    def __init__(self, workers: int, rules: Rules, tokenizer_json: str) -> None:
        self._how = rules, tokenizer_json
        context = get_context("spawn")
        self._hands = ProcessPoolExecutor(workers, context, _prepare, self._how) if workers else None

    def label(self, story: EpisodeRecord) -> "Future[Labelled]":
        if self._hands is not None:
            return self._hands.submit(_label, story)
        here: Future[Labelled] = Future()
        here.set_result(label(*self._how, story))
        return here

    def close(self) -> None:
        if self._hands is not None:
            self._hands.shutdown(wait=False, cancel_futures=True)


_prepared: list[tuple[Rules, str]] = []  # the settings, in a worker process


def _prepare(rules: Rules, tokenizer_json: str) -> None:
    set_up_worker()
    _prepared.append((rules, tokenizer_json))


def _label(story: EpisodeRecord) -> Labelled:
    return label(*_prepared[0], story)


class _EpisodeLabeller:
    """An episode while it is being labelled."""

    def __init__(self, rules: Rules, tokenizer: Tokenizer, story: EpisodeRecord) -> None:
        self._rules, self._tokenizer, self._story = rules, tokenizer, story
        self._env: CompanyEnv = make(story.task_id)
        self._teacher = Teacher(self._env)
        self._told = [opening(self._env.look())]
        self._spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._twigs: list[BranchLabel] = []
        self._counts: Counter[str] = Counter()
        self._labels: list[tuple[str, str, str]] = []
        self._due: Call | None = None
        self._looked_up: list[Call] = []  # answered calls that the model made while this call was due
        self._running = 0  # how many times in a row the last call had the same reply
        self._last = ("", "")

    def step(self, line: str, window: int, span: tuple[int, int]) -> bool:
        """Label a state, then make the model's call. Return False if no later state can be labelled."""
        call = parse_line(line, self._env.toolbox)
        due = self._teacher.due()
        if due.call is None:
            self._counts[NONE] += 1
            self._labels.append((NONE, line, due.why))
            return False
        if due.call != self._due:
            self._due, self._looked_up = due.call, []
        in_loop = self._running >= self._rules.loop and line == self._last[0]
        kind, said = self._compare(call, due.call, due.working, window, span, in_loop)
        self._counts[kind] += 1
        self._counts["states"] += 1
        self._counts["loops"] += in_loop
        self._labels.append((kind, line, said))
        obs = self._env.step(line if isinstance(call, str) else call)
        reply = heard(obs, call if isinstance(call, str) else "")
        self._told.append(reply)
        if not isinstance(call, str) and obs.reply.code != NO_ANSWER:
            self._looked_up.append(call)
        same = (line, reply) == self._last and not moves(call, self._env.toolbox)
        self._running, self._last = self._running + 1 if same else 1, (line, reply)
        return not obs.done

    def _compare(
        self, call: Call | str, due: Call, lines: Sequence[str], window: int, span: tuple[int, int], loop: bool
    ) -> tuple[str, str]:
        """Return the kind of a label and the line of the expert's call. Record what is learnt."""
        tokens, (start, end) = self._story.windows[window][0], span
        working = tuple(lines) if self._rules.working else ()
        seen = self._in_sight(due, working, tokens[:start]) if window else due
        if seen is None:
            return BLIND, write_line(due)
        if seen is not due:
            working = ()
        wanted, _ = encoded(self._tokenizer.encode, write_line(seen), working)
        if tokens[start:end] == wanted:
            self._spans[window].append(span)
            return SAME, write_line(seen)
        if len(wanted) < self._rules.reserve:
            self._twigs.append(BranchLabel(window, start, wanted, loop))
        return OTHER_WORDS if call == seen else DIFFERS, write_line(seen)

    def _in_sight(self, due: Call, working: Sequence[str], before: list[int]) -> Call | None:
        """Return the call that is due, or the call that shows what it needs and the script has lost; None if neither helps.

        Without this a model would learn to invent values (see `demonstrations.py`). Each call is repeated once for one due
        call. Otherwise two replies that do not fit into the window together would be read in turns for ever.
        """
        seen, lacking = self._tokenizer.decode(before), False
        for value in (*values_of(due), *figures_of(working)):
            if stands_in(value, seen) or not any(stands_in(value, text) for text in self._told):
                continue
            lacking = True
            reading = next(self._readings(value), None)
            if reading is not None and reading not in self._looked_up:
                return reading
        return None if lacking else due

    def _readings(self, value: str) -> Iterator[Call]:
        """Yield the calls that showed a value and that can be repeated without a write or a wait, latest first."""
        for turn, text in zip(reversed(self._env.turns), reversed(self._told), strict=False):
            tool = self._env.toolbox.find(turn.call) if turn.call.app else None
            if tool is not None and not tool.writes and tool.method != "wait" and stands_in(value, text):
                yield turn.call

    def labelled(self) -> Labelled:
        spans = [self._spans[number] for number in range(len(self._story.windows))]
        return Labelled(spans, self._chosen(), dict(self._counts), self._labels)

    def _chosen(self) -> list[BranchLabel]:
        """Choose branches: those out of loops, the first two, then random ones: later mistakes often follow from these."""
        often: Counter[tuple[int, ...]] = Counter()
        few: list[BranchLabel] = []
        for twig in self._twigs:
            often[tuple(twig.tokens)] += 1
            if often[tuple(twig.tokens)] <= _ALIKE:
                few.append(twig)
        streams = Streams(f"labels/{self._rules.seed}/{self._story.task_id}")

        def order(number: int) -> tuple[bool, float]:
            return not few[number].loop and number > 1, streams.at("branch", number).random()

        return [few[number] for number in sorted(sorted(range(len(few)), key=order)[: self._rules.branches])]
