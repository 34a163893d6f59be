"""Task ids: the permanent names of tasks. A task is one seeded piece of work for an agent."""

import re

import msgspec

from companyos.core.errors import BadTask

BENCHMARK_VERSION = 4  # raised whenever a golden digest changes; the changelog says why
# The version in the keys of random draws. Version 4 is under construction: until it draws policies of its own for each
# seed, a seed gives the same facts and troubles as in version 3, so that results of both versions can be compared.
DRAWN_AS_VERSION = 3
SPLITS = ("train", "validation", "test")
SIZES = ("office", "small", "large")  # of the company; the first one is the default and is not written in a task id
MAX_LENGTH = 120
MAX_SEED = 10**12 - 1

# For example `vendor_onboarding-v4-train-7-50`, or `…-7-f100s50-small-w3-cfo_away.1` with all parts.
_TASK_ID = re.compile(
    r"(?P<family>[a-z]+(?:_[a-z]+)*)-v(?P<version>0|[1-9]\d*)-(?P<split>[a-z]+)-(?P<seed>0|[1-9]\d*)"
    r"-(?P<doses>\d+|(?:[a-z]\d+)+)(?:-(?P<size>small|large))?(?:-w(?P<weather>[1-9]\d*))?(?P<do>(?:-[a-z]+(?:_[a-z]+)*\.[a-z0-9_]+)*)",
    re.ASCII,
)


class TaskId(msgspec.Struct, frozen=True):
    """`vendor_onboarding-v4-train-7-50-cfo_away.1`: family, version, split, seed, doses in percent, overridden causes.

    In `…-50-w3` the weather is 3: the facts are those of the seed, but the troubles are drawn from another stream.
    In `…-50-small` the same case takes place in a small company.
    Each task has exactly one id: `str(TaskId.parse(text)) == text` for every text that parses.
    """

    family: str
    split: str
    seed: int
    doses: str  # one number for all dials, or a letter and a number for each dial that is not 0
    do: tuple[tuple[str, str], ...] = ()  # the overridden causes: names and values, sorted by name
    version: int = BENCHMARK_VERSION
    weather: int = 0  # which draw of the troubles; 0 is the default
    size: str = SIZES[0]  # of the company: how many records there are besides those of the case

    def __str__(self) -> str:
        text = f"{self.family}-v{self.version}-{self.split}-{self.seed}-{self.doses}"
        text += f"-{self.size}" if self.size != SIZES[0] else ""
        text += f"-w{self.weather}" if self.weather else ""
        return text + "".join(f"-{cause}.{value}" for cause, value in self.do)

    @property
    def key(self) -> str:
        """The key of the task's random draws. It contains no doses and no overrides, so these change no other draw."""
        return f"{self.family}/{DRAWN_AS_VERSION}/{self.split}/{self.seed}"

    @property
    def weather_key(self) -> str:
        """The key of the random draws for the task's troubles."""
        return f"{self.key}/weather/{self.weather}" if self.weather else self.key

    @staticmethod
    def parse(text: str) -> "TaskId":
        """Parse a task id. Raises `BadTask`, which says what a valid id looks like."""
        match = _TASK_ID.fullmatch(text) if len(text) <= MAX_LENGTH else None
        if match is None:
            raise BadTask(f"{text!r} is not a task id; one looks like vendor_onboarding-v{BENCHMARK_VERSION}-train-7-50")
        do = tuple((cause, value) for cause, value in (part.split(".", 1) for part in match["do"].split("-")[1:]))
        task = TaskId(
            family=match["family"],
            split=match["split"],
            seed=int(match["seed"]),
            doses=match["doses"],
            do=do,
            version=int(match["version"]),
            weather=int(match["weather"] or 0),
            size=match["size"] or SIZES[0],
        )
        if task.version != BENCHMARK_VERSION:
            raise BadTask(f"{text!r} is of benchmark version {task.version}; this is version {BENCHMARK_VERSION}")
        if task.seed > MAX_SEED:
            raise BadTask(f"{text!r}: a seed is a whole number from 0 to {MAX_SEED}")
        if task.split not in SPLITS:
            raise BadTask(f"{text!r}: unknown split {task.split!r}; valid: {', '.join(SPLITS)}")
        if list(do) != sorted(set(do)) or len(dict(do)) != len(do):
            raise BadTask(f"{text!r}: each overridden cause must appear once, in alphabetical order")
        return task
