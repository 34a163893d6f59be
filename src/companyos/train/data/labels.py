"""Labels: an expert says what it would have done at every state of an episode that a model has played.

Where the model's turn is the expert's, it is learnt as it stands. Where it is not, the expert's turn becomes a branch of
the window at that place (`branches.py`). Workers label episodes while others are still being played: they need no torch.
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
from companyos.train.data.demonstrations import Tongue, figures_of, stands_in, values_of
from companyos.train.data.repeats import moves
from companyos.train.data.script import heard, opening
from companyos.train.data.turns import encoded

# What a label is: the model's own turn; its call in other words; another call; needs what was forgotten; there is none.
SAME, OTHER_WORDS, DIFFERS, BLIND, NONE = "same", "other_words", "differs", "blind", "none"
_ALIKE = 4  # branches of an episode that say the same: a call stays due for as long as it is not made


class Story(msgspec.Struct, frozen=True):
    """An episode as it travels to whoever labels it: its calls, and the windows through which they were said."""

    task_id: str
    lines: list[str]
    windows: list[tuple[list[int], list[tuple[int, int]]]]  # tokens; from where to where each turn stands


class Rules(msgspec.Struct, frozen=True):
    """How states are labelled."""

    working: bool = False
    branches: int = 12  # of an episode, at most
    loop: int = 3  # a call that was made so often running, with the same reply, is a loop if it is made again
    reserve: int = 128  # tokens that a turn may have
    seed: int = 0


class Twig(msgspec.Struct, frozen=True):
    """A branch of a window, and whether it leads out of a loop."""

    window: int
    at: int
    tokens: list[int]
    loop: bool


class Labelled(msgspec.Struct, frozen=True):
    """An episode with its labels: for each window, what is learnt of it as it stands; and branches."""

    spans: list[list[tuple[int, int]]]
    twigs: list[Twig]
    counts: dict[str, int]
    labels: list[tuple[str, str, str]]  # of each state: what its label is, what the model said, what was due


def label(rules: Rules, tokenizer: str, story: Story) -> Labelled:
    """Walks an episode again and asks the expert at every state."""
    walk = _Walk(rules, Tongue(tokenizer), story)
    places = [(number, span) for number, (_, spans) in enumerate(story.windows) for span in spans]
    for line, (window, span) in zip(story.lines, places, strict=True):
        if not walk.step(line, window, span):
            break
    return walk.labelled()


class Labellers:
    """Processes that label stories; with none of them, this one does. Each is told once how: a tokenizer has megabytes."""

    def __init__(self, workers: int, rules: Rules, tokenizer: str) -> None:
        self._how = rules, tokenizer
        context = get_context("spawn")
        self._hands = ProcessPoolExecutor(workers, context, _prepare, self._how) if workers else None

    def label(self, story: Story) -> "Future[Labelled]":
        if self._hands is not None:
            return self._hands.submit(_label, story)
        here: Future[Labelled] = Future()
        here.set_result(label(*self._how, story))
        return here

    def close(self) -> None:
        if self._hands is not None:
            self._hands.shutdown(wait=False, cancel_futures=True)


_prepared: list[tuple[Rules, str]] = []  # in a process that labels


def _prepare(rules: Rules, tokenizer: str) -> None:
    set_up_worker()
    _prepared.append((rules, tokenizer))


def _label(story: Story) -> Labelled:
    return label(*_prepared[0], story)


class _Walk:
    """An episode while it is being labelled."""

    def __init__(self, rules: Rules, tongue: Tongue, story: Story) -> None:
        self._rules, self._tongue, self._story = rules, tongue, story
        self._env: CompanyEnv = make(story.task_id)
        self._teacher = Teacher(self._env)
        self._told = [opening(self._env.look())]
        self._spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._twigs: list[Twig] = []
        self._counts: Counter[str] = Counter()
        self._labels: list[tuple[str, str, str]] = []
        self._due: Call | None = None
        self._looked_up: list[Call] = []  # answered calls that the model made while this call was due
        self._running = 0  # how often the last call was made in a row, with the same reply
        self._last = ("", "")

    def step(self, line: str, window: int, span: tuple[int, int]) -> bool:
        """Labels a state and makes the model's call. False: nothing is left to learn here."""
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
        """What the label of a state is, and the line of what is due. Notes what is learnt of it."""
        tokens, (start, end) = self._story.windows[window][0], span
        working = tuple(lines) if self._rules.working else ()
        seen = self._in_sight(due, working, tokens[:start]) if window else due
        if seen is None:
            return BLIND, write_line(due)
        if seen is not due:
            working = ()
        wanted, _ = encoded(self._tongue.encode, write_line(seen), working)
        if tokens[start:end] == wanted:
            self._spans[window].append(span)
            return SAME, write_line(seen)
        if len(wanted) < self._rules.reserve:
            self._twigs.append(Twig(window, start, wanted, loop))
        return OTHER_WORDS if call == seen else DIFFERS, write_line(seen)

    def _in_sight(self, due: Call, working: Sequence[str], before: list[int]) -> Call | None:
        """Return the call that is due, or the call that shows what it needs and the script has lost; None if neither helps.

        Without this a model would learn to invent values (see `demonstrations.py`). Each call is repeated once for one due
        call. Otherwise two replies that do not fit into the window together would be read in turns for ever.
        """
        seen, lacking = self._tongue.decode(before), False
        for value in (*values_of(due), *figures_of(working)):
            if stands_in(value, seen) or not any(stands_in(value, text) for text in self._told):
                continue
            lacking = True
            reading = next(self._readings(value), None)
            if reading is not None and reading not in self._looked_up:
                return reading
        return None if lacking else due

    def _readings(self, value: str) -> Iterator[Call]:
        """The calls that showed a value and can be made again without changing anything, the last one first."""
        for turn, text in zip(reversed(self._env.turns), reversed(self._told), strict=False):
            tool = self._env.toolbox.find(turn.call) if turn.call.app else None
            if tool is not None and not tool.writes and tool.method != "wait" and stands_in(value, text):
                yield turn.call

    def labelled(self) -> Labelled:
        spans = [self._spans[number] for number in range(len(self._story.windows))]
        return Labelled(spans, self._chosen(), dict(self._counts), self._labels)

    def _chosen(self) -> list[Twig]:
        """Branches out of loops, then the first two, then any: those after the first way astray matter less."""
        often: Counter[tuple[int, ...]] = Counter()
        few: list[Twig] = []
        for twig in self._twigs:
            often[tuple(twig.tokens)] += 1
            if often[tuple(twig.tokens)] <= _ALIKE:
                few.append(twig)
        streams = Streams(f"labels/{self._rules.seed}/{self._story.task_id}")

        def order(number: int) -> tuple[bool, float]:
            return not few[number].loop and number > 1, streams.at("branch", number).random()

        return [few[number] for number in sorted(sorted(range(len(few)), key=order)[: self._rules.branches])]
