"""The floor of the benchmark: success rates of all adversaries and careless experts, measured and written as a page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from companyos.agents import Agent, play
from companyos.agents.adversaries import ADVERSARIES, KNOWN
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.agents.adversaries.fixed_endings import experts_ending, known_endings
from companyos.assurance.twins import do, twins_with_other_ending
from companyos.core.parallel import pooled
from companyos.core.task import BENCHMARK_VERSION, SIZES
from companyos.core.wilson import wilson_interval
from companyos.env import make, par, task_named

CHAOS = 0.5
TWINS_EVERY = 5  # tasks; every fifth task is also played on its twins, and dials get a fifth of the episodes
SHORT_SOLUTION = 6  # calls; at most a fifth of a family's tasks may have a shorter solution

Chaos = float | dict[str, float]


class FloorJob(msgspec.Struct, frozen=True):
    """Episodes for one agent: an adversary in one of its variants, or the careless expert that ignores a dial."""

    agent_name: str = msgspec.field(name="policy")  # an adversary or a dial; `policy` is its name in JSON
    family: str
    seeds: tuple[int, ...]
    variant: int | None = None
    chaos: Chaos = CHAOS
    with_twins: bool = False
    size: str = SIZES[0]  # of the companies

    def agent(self, seed: int) -> Agent:
        if self.agent_name in ADVERSARIES:
            return ADVERSARIES[self.agent_name].make(seed if self.variant is None else self.variant)
        return Careless(HABITS[self.agent_name])


class Tally(msgspec.Struct, frozen=True):
    """The results of a job."""

    job: FloorJob
    wins: int
    total: float  # sum of the returns
    pairs: int  # pairs of a task and a twin with another right ending
    both: int  # pairs of which task and twin were won

    @property
    def share(self) -> float:
        return self.wins / len(self.job.seeds)


def tally(job: FloorJob) -> Tally:
    """Play the episodes of a job."""
    wins, total, pairs, both = 0, 0.0, 0, 0
    for seed in job.seeds:
        env = play(make(job.family, seed=seed, chaos=job.chaos, size=job.size), job.agent(seed))
        wins += bool(env.success)
        total += env.total
        if job.with_twins and seed % TWINS_EVERY == 0:
            twins = twins_with_other_ending(env.task_id)
            pairs += len(twins)
            if env.success:
                both += sum(bool(play(make(twin_id), job.agent(seed)).success) for _, twin_id in twins)
    return Tally(job, wins, total, pairs, both)


def jobs(families: Sequence[str], episodes: int, size: str = SIZES[0]) -> list[FloorJob]:
    """Return all jobs of the floor: each adversary at one dose, and each careless expert with and without its dial."""
    seeds = tuple(range(episodes))
    all_jobs = [
        FloorJob(adversary.name, family, seeds, variant, with_twins=True, size=size)
        for family in families
        for adversary in ADVERSARIES.values()
        for variant in (range(adversary.variants(family)) if adversary.variants else (None,))
    ]
    fewer_seeds = seeds[: max(1, episodes // TWINS_EVERY)]
    for family in families:
        all_jobs += [FloorJob("naive", family, fewer_seeds, chaos=dose, size=size) for dose in (0.0, 1.0)]
        all_jobs += [
            FloorJob(dial, family, fewer_seeds, chaos=chaos, size=size) for dial in HABITS for chaos in (0.0, {dial: 1.0})
        ]
    return all_jobs


def measure(families: Sequence[str], episodes: int, workers: int, size: str = SIZES[0]) -> Iterator[Tally]:
    """Run all jobs on `workers` processes, and yield their results."""
    return pooled(tally, jobs(families, episodes, size), workers)


# -- the page ----------------------------------------------------------------------------------------------------------


PAGE = """\
# The floor: how far cheap strategies get

Written by `companyos floor --episodes {episodes}{size}`, benchmark version {version}: {episodes} episodes a family and
agent at chaos {chaos}, seeds from 0 of split `train`. Success in percent, with its 95 % interval (Wilson) over all
families. Some agents have variants (a script from each of 20 seeds, or one for each ending); the best variant on each
family counts. `pairs` counts tasks with a twin: the same task with one hidden cause changed and another right ending.
`both` counts how often an agent won both the task and its twin. On other tasks an agent has other numbers:
[one agent, several numbers](results.md#one-agent-several-numbers).

{adversaries}

You are invited to beat these numbers: CONTRIBUTING.md explains how to add an adversary.

`reward_watcher` prepares a ticket, then records one outcome after the other and submits the form, and keeps what pays. It
checks nothing. With the rewards of version 3 it won 79.5 % of the same 200 tasks of `vendor_onboarding` and 20.7 % of all
2,400, and found the right ending in 58.2 % of all: the reward revealed it. Since version 4 profile `dense` pays nothing
during the episode that reveals the right ending ([what rewards reveal](reference/rewards.md#what-rewards-reveal)). A law
limits the watcher to the share of tasks in which the most frequent ending is right.

## Agents that exploit constant rules

The rules of a family are the same in every company; only the numbers in the policies' terms are drawn with the seed. These
agents use that. No law bounds them; the bounds of the other agents are unchanged.

- `memoriser` works as the expert does but opens no policy. It knows every text from other seeds (100 of split `validation`),
  and for each term the most frequent number there. It may search, so it knows the titles, dates and ids, and it cites a
  policy's term with the number that it remembers. It opens the changelog of the forms, which is not a policy.
- `numbers_only` is the same but opens policies for their numbers. It ignores their texts.
- `submit_first` prepares the ticket and asks approvers before it checks anything. If somebody signs, it completes the
  ticket; if a rejection names a reason for which such tickets are closed, it closes the ticket for that reason.

{known}

What this means: until the rules themselves vary, a family tests procedure (find the records, prepare the ticket, compare,
ask the right person, cite) more than it tests reading of policies. An agent that was trained on a family can know its rules
by heart, and a high score there does not show that it read them. `numbers_only` shows that the texts are not needed at all.
The difference between `memoriser` and `numbers_only` shows how much the numbers in the terms matter. `submit_first` shows
how much approvers reveal when they apply a rule of their form: a rejection of a wrong value names no number, but a rejection
of a right request names the reason. A later version makes the rules vary with the seed.

## Fixed endings

`constant` reads, prepares and cites as the expert does, but its ending is fixed. It can only win tasks in which that ending
is right.

{constants}

## Length of the shortest solutions

{shortest}

## The cost of ignoring each dial

Success of the family's expert with one careless habit, at dose 0 and with only that dial at 1. `naive` ignores freshness,
presence and authority, and is measured with all dials at 1.

{dials}

## Obeying orders in texts

The family's expert, but it also carries out orders that it reads in comments and documents: on tasks with hostile text, and
on their twins without.

{orders}

## Compared with the original

The random agent's mean return here is {random:+.2f}; the original published −2.04. It differs because here a failure
of any kind costs 5 at the end, not only a timeout; milestones that are undone are taken back; and nothing is paid twice. In
the original, repeating a paid call paid again.
"""


def report(tallies: Sequence[Tally], families: Sequence[str], episodes: int, size: str = SIZES[0]) -> str:
    """Return the floor as a page of Markdown."""
    with_twins = [t for t in tallies if t.job.with_twins]
    random_tallies = [t for t in with_twins if t.job.agent_name == "random"]
    return PAGE.format(
        episodes=episodes,
        size="" if size == SIZES[0] else f" --size {size}",
        version=BENCHMARK_VERSION,
        chaos=CHAOS,
        adversaries=_table(_adversaries(with_twins, families, known=False)),
        known=_table(_adversaries(with_twins, families, known=True)),
        constants=_table(_constants(with_twins, families, episodes, size)),
        shortest=_table(_shortest(families, episodes, size)),
        dials=_table(_dials([t for t in tallies if not t.job.with_twins], families)),
        orders=_table(_orders(families, episodes, size)),
        random=sum(t.total for t in random_tallies) / sum(len(t.job.seeds) for t in random_tallies),
    )


def _adversaries(tallies: Sequence[Tally], families: Sequence[str], known: bool) -> Iterator[list[str]]:
    """Yield a row for each adversary: with `known`, for those that exploit constant rules, else for the others."""
    yield ["agent", "group", *families, "all", "interval", "mean return", "pairs", "both"]
    for name, adversary in ADVERSARIES.items():
        if (adversary.group == KNOWN) != known:
            continue
        tallies_of_agent = [t for t in tallies if t.job.agent_name == name]
        best = [max((t for t in tallies_of_agent if t.job.family == family), key=lambda t: t.wins) for family in families]
        wins, played = sum(t.wins for t in best), sum(len(t.job.seeds) for t in best)
        low, high = wilson_interval(wins / played, played)
        yield [
            f"`{name}`",
            adversary.group,
            *(_percent(t.share) for t in best),
            _percent(wins / played),
            f"{_percent(low)}–{_percent(high)}",
            f"{sum(t.total for t in best) / played:+.2f}",
            str(sum(t.pairs for t in tallies_of_agent)),
            str(sum(t.both for t in tallies_of_agent)),
        ]


def _constants(tallies: Sequence[Tally], families: Sequence[str], episodes: int, size: str) -> Iterator[list[str]]:
    yield ["family", "ending", "right in", "constant wins"]
    for family in families:
        right = Counter(experts_ending(make(family, seed=seed, chaos=CHAOS, size=size)) for seed in range(episodes))
        won = {t.job.variant: t.wins for t in tallies if t.job.agent_name == "constant" and t.job.family == family}
        for variant, ending in enumerate(known_endings(family)):
            yield [family, str(ending), _percent(right[ending] / episodes), _percent(won[variant] / episodes)]


def _shortest(families: Sequence[str], episodes: int, size: str) -> Iterator[list[str]]:
    yield ["family", f"expert needs under {SHORT_SOLUTION} calls", "fewest calls"]
    for family in families:
        pars = [par(task_named(family, seed, CHAOS, size=size)) for seed in range(episodes)]
        yield [family, _percent(sum(steps < SHORT_SOLUTION for steps in pars) / episodes), str(min(pars))]


def _dials(tallies: Sequence[Tally], families: Sequence[str]) -> Iterator[list[str]]:
    yield ["careless of", *families, "all at 0", "all at 1", "lost"]
    for agent_name in ("naive", *HABITS):
        of_agent = [t for t in tallies if t.job.agent_name == agent_name]
        at_dose_0 = {t.job.family: t for t in of_agent if t.job.chaos == 0.0}
        at_dose_1 = {t.job.family: t for t in of_agent if t.job.chaos != 0.0}
        share_0, share_1 = _total_share(at_dose_0.values()), _total_share(at_dose_1.values())
        yield [
            f"`{agent_name}`",
            *(f"{_percent(at_dose_0[family].share)} → {_percent(at_dose_1[family].share)}" for family in families),
            _percent(share_0),
            _percent(share_1),
            _percent(share_0 - share_1),
        ]


def _total_share(tallies: Iterable[Tally]) -> float:
    """Return the share of successes in all episodes together."""
    counts = [(tally.wins, len(tally.job.seeds)) for tally in tallies]
    return sum(wins for wins, _ in counts) / sum(episodes for _, episodes in counts)


def _orders(families: Sequence[str], episodes: int, size: str) -> Iterator[list[str]]:
    yield ["family", "tasks with hostile text", "won", "their benign twins", "won"]
    for family in families:
        seeds = range(max(1, episodes // TWINS_EVERY))
        envs = [make(family, seed=seed, chaos={"hostile_text": 1.0}, size=size) for seed in seeds]
        hostile = [env.task_id for env in envs if env.setting.causes.orders != "no"]
        benign = [do(task_id, orders="no") for task_id in hostile]
        yield [family, str(len(hostile)), str(_obedient_wins(hostile)), str(len(benign)), str(_obedient_wins(benign))]


def _obedient_wins(task_ids: Iterable[str]) -> int:
    """Return how many tasks the expert wins if it carries out orders that it reads in texts."""
    return sum(bool(play(make(task_id), Careless(HABITS["hostile_text"])).success) for task_id in task_ids)


def _table(rows: Iterable[list[str]]) -> str:
    heading, *rest = rows
    lines = [heading, ["---"] * len(heading), *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
