"""Training, from the command line. What cannot be done is said in one line, before anything is loaded."""

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from companyos.cli.options import Commands, count, option
from companyos.cli.train_arguments import (
    CHECK_OPTIONS,
    FAMILIES_HELP,
    LIMIT_OPTION,
    MODEL_OPTIONS,
    OUT,
    RUN_OPTIONS,
    STARTER,
    TRL_OPTIONS,
    amount,
    checked,
    checkup_plan,
    conclude,
    families_of,
    held_out,
    positive,
    rungs,
    share,
    shares,
    watching,
    what_is_trained,
)
from companyos.core.errors import Misuse
from companyos.train.loops.trl_plan import carry_out, plan_of
from companyos.train.runs.journal import Journal, check_run

__all__ = ["COMMANDS"]


def _sft(args: Namespace) -> int:
    """Show a language model how experts work. Whatever ends it, the same command goes on where it stood."""
    from companyos.train.data.demonstrations import Plan

    families, device = families_of(args), checked(args)
    plan = Plan(families, args.doses, args.slips, args.seed, args.limit, working=args.working)
    from companyos.train.loops.sft import Recipe, train
    from companyos.train.model.models import load

    recipe = Recipe(
        demonstrations=args.demonstrations,
        times=args.times,
        at_once=args.at_once,
        rate=args.rate,
        schedule=args.schedule,
        batch=args.batch,
        check_every=args.check_every,
    )
    how = what_is_trained(args)
    whole = {"loop": "sft", "model": args.model, **how, "plan": plan, "recipe": recipe, **checkup_plan(args)}
    journal = Journal(args.out, whole, args.track)
    learner = load(args.model, device, **how)._replace(limit=args.limit, working=args.working)
    student = train(
        learner, plan, recipe, journal, args.workers, args.minutes, held_out(args, families), watching("learning", "loss")
    )
    journal.close()
    return conclude(args, student.done, recipe.updates)


def _grpo(args: Namespace) -> int:
    """Let a language model learn from its own attempts. Whatever ends it, the same command goes on where it stood."""
    families, device = families_of(args), checked(args)
    if args.loop == "trl":
        done = carry_out(plan_of(args, families), args.track, args.minutes)
        return conclude(args, done, args.updates)
    from companyos.train.loops.grpo import Lean, Recipe, run
    from companyos.train.model.models import load

    recipe = Recipe(
        families=families,
        seed=args.seed,
        tasks=args.tasks or 64,
        group=args.group,
        doses=args.doses,
        rate=args.rate,
        steps=args.steps,
        batch=args.batch,
        rows=args.rows,
        patience=args.patience,
        check_every=args.check_every,
    )
    how = what_is_trained(args)
    whole = {"loop": "lean", "model": args.model, **how, "limit": args.limit, "recipe": recipe, **checkup_plan(args)}
    journal = Journal(args.out, whole, args.track)
    lean = Lean(load(args.model, device, **how)._replace(limit=args.limit), recipe, held_out(args, families))
    run(lean, journal, args.updates, args.minutes, watching("learning", "reward"))
    journal.close()
    return conclude(args, lean.standing.update, args.updates)


def _dagger(args: Namespace) -> int:
    """Let an expert say at every state of a model's own episodes what it would do. The same command goes on."""
    families, device = families_of(args), checked(args)
    from companyos.train.loops.dagger import Dagger, Recipe, run
    from companyos.train.model.models import load
    from companyos.train.runs.checkup import checkup_of

    recipe = Recipe(
        families=families,
        seed=args.seed,
        rounds=args.rounds,
        episodes=args.episodes,
        doses=args.doses,
        rows=args.rows,
        loop=args.loop,
        branches=args.branches,
        weight=args.weight,
        beside=args.beside,
        at_once=args.at_once,
        rate=args.rate,
        batch=args.batch,
        check_every=args.check_every,
    )
    how = what_is_trained(args)
    pairs = [args.check_pairs, args.check_chaos]
    journal = Journal(
        args.out, {"loop": "dagger", "model": args.model, **how, "recipe": recipe, "checkup": pairs}, args.track
    )
    checkup = checkup_of(families, args.check_chaos, 0, args.check_pairs) if args.check_pairs else None
    dagger = Dagger(load(args.model, device, **how), recipe, checkup)
    run(dagger, journal, args.workers, args.minutes, watching("learning", "success"))
    journal.close()
    return conclude(args, dagger.standing.round, recipe.rounds)


def _checkup(args: Namespace) -> int:
    """Have a model play a suite greedily and by chance, and decide where twins part. The same command goes on."""
    from companyos.evaluate.suites.suite import suite

    device, tasks = checked(args), suite(args.suite)
    from companyos.train.runs.exam import checked_up

    for line in checked_up(args, tasks, families_of(args), device):
        print(line, flush=True)
    return 0


def _tiny(args: Namespace) -> int:
    """Let a small learner find out how to work: no GPU, no download. Whatever ends it, the same command goes on."""
    families = families_of(args)
    try:
        from companyos.train.tiny.learner import EXAM, POLICY, ArrayJournal, Learner, examine, train
        from companyos.train.tiny.rollout import Recipe
    except ModuleNotFoundError as missing:
        raise Misuse(f'the small learner needs {missing.name}: pip install "companyos[tiny]"') from None
    recipe = Recipe(families, args.chaos, args.seed, not args.no_curriculum, args.workers)
    plain = "" if recipe.curriculum else "-no-curriculum"
    folder = args.out or Path(f"tiny-{args.families.replace(',', '-')}-{args.seed}{plain}")
    seconds = 60 * args.minutes
    journal = ArrayJournal(folder, {"loop": "tiny", "recipe": recipe, "minutes": args.minutes, "updates": args.updates})
    learner = Learner(recipe)
    with _curve(lambda: journal.elapsed / seconds) as show:
        train(learner, journal, (seconds, args.updates or math.inf), show)
    exam = examine(learner, journal.elapsed / 60)
    (folder / EXAM).write_bytes(msgspec.json.encode(exam))
    print("\n".join(exam.lines()))
    learner.close()
    journal.close()
    print(f"{learner.updates} updates, {learner.steps:,} steps. What was learnt lies in {folder / POLICY};")
    print(f"`companyos eval --agent tiny:{folder / POLICY}` plays it.")
    return 0


def _plot(args: Namespace) -> int:
    """Draw how training went: the three stages, reward, loss, and success on held-out tasks."""
    for folder in args.runs:
        check_run(folder)
    try:
        from companyos.train.runs.plot import draw
    except ModuleNotFoundError as missing:
        raise Misuse(f'plots need {missing.name}: pip install "companyos[report]"') from None
    for path in draw(args.runs, args.out or args.runs[0]):
        print(f"Written to {path}.")
    return 0


@contextmanager
def _curve(over: Callable[[], float]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Draws successes while they come, where a person looks; `over` is the share of the run that has passed."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from companyos.train.tiny.curve import drawn

    console = Console(stderr=True)
    attempts: list[tuple[float, float]] = []
    held_out: list[tuple[float, float]] = []

    def show(record: dict[str, Any]) -> None:
        if "reward" in record:
            attempts.append((over(), record["reward"]))
        if "checkup" in record:
            held_out.append((over(), record["checkup"]["success"]))
        caption = f"{record['steps']:,} steps; . attempts, up to {record['left']:.0%} of the way from the end; # held-out"
        live.update(Text(drawn(attempts, held_out, caption)), refresh=True)

    if not console.is_terminal:
        yield lambda record: None
        return
    with Live(console=console, auto_refresh=False) as live:
        yield show


COMMANDS: Commands = {
    _sft: (
        *MODEL_OPTIONS,
        LIMIT_OPTION,
        option("--demonstrations", type=count, default=4000, metavar="N", help="how many different ones"),
        option("--times", type=count, default=1, metavar="N", help="that each is shown"),
        option("--doses", type=shares, default=((0.0, 0.9), (0.5, 0.1)), metavar="X:SHARE,…", help="such as 0:0.9,0.5:0.1"),
        option("--slips", type=share, default=0.25, metavar="SHARE", help="of them in which something is put right"),
        option("--working", action="store_true", help="the expert says what it compares before a call; the model learns to"),
        option("--at-once", type=count, default=32, metavar="N", help="demonstrations of an update"),
        option("--rate", type=positive, default=5e-4, help="of learning"),
        option("--schedule", default="cosine", choices=("cosine", "constant"), help="of the rate, after its warm-up"),
        option("--batch", type=count, default=65536, metavar="N", help="tokens that go through a GPU at once"),
        option("--workers", type=amount, default=2, help="processes that make demonstrations; 0: the one that trains"),
        option("--check-every", type=count, default=25, metavar="N", help="updates between checkups"),
        *CHECK_OPTIONS,
        *RUN_OPTIONS,
    ),
    _grpo: (
        *MODEL_OPTIONS,
        LIMIT_OPTION,
        option("--updates", type=count, default=200, metavar="N", help="in all"),
        option("--tasks", type=count, metavar="N", help="of an update; half of them are twins (lean: 64, trl: 8)"),
        option("--group", type=count, default=16, metavar="N", help="attempts at each"),
        option("--doses", type=rungs, default=(0.25, 0.5), metavar="X,Y", help="each until three of five attempts succeed"),
        option("--rate", type=positive, default=1e-4, help="of learning"),
        option("--steps", type=count, default=1, metavar="N", help="of an update, each on its share of the tasks"),
        option("--batch", type=count, default=32768, metavar="N", help="tokens that go through a GPU at once"),
        option("--rows", type=count, default=1024, metavar="N", help="episodes at work at once"),
        option(
            "--patience", type=amount, default=0, metavar="N", help="give up who says one line so often running; 0: never"
        ),
        option("--check-every", type=count, default=10, metavar="N", help="updates between checkups"),
        *CHECK_OPTIONS,
        option("--loop", default="lean", choices=("lean", "trl"), help="ours, or TRL's trainer with native tool calls"),
        *TRL_OPTIONS,
        *RUN_OPTIONS,
    ),
    _dagger: (
        *MODEL_OPTIONS,
        option("--rounds", type=count, default=10, metavar="N", help="in all"),
        option("--episodes", type=count, default=512, metavar="N", help="of a round, half of them played greedily"),
        option("--doses", type=shares, default=((0.0, 0.2), (0.5, 0.8)), metavar="X:SHARE,…", help="such as 0:0.2,0.5:0.8"),
        option("--rows", type=count, default=512, metavar="N", help="episodes at work at once"),
        option("--loop", type=amount, default=4, metavar="N", help="cut off at so many equal calls with equal replies"),
        option("--branches", type=count, default=12, metavar="N", help="labels other than the model's call, of an episode"),
        option("--weight", type=positive, default=1.0, metavar="X", help="of a token of such a label"),
        option("--beside", type=positive, default=1.0, metavar="X", help="fresh demonstrations for each episode"),
        option("--at-once", type=count, default=10, metavar="N", help="episodes of an update"),
        option("--rate", type=positive, default=5e-5, help="learning rate at its highest; it decays to 0 over the run"),
        option("--batch", type=count, default=49152, metavar="N", help="tokens that go through a GPU at once"),
        option("--workers", type=amount, default=2, help="processes that label, and as many that make demonstrations"),
        option("--check-every", type=count, default=1, metavar="N", help="rounds between measures of decision accuracy"),
        *CHECK_OPTIONS[1:],
        *RUN_OPTIONS,
    ),
    _checkup: (
        *MODEL_OPTIONS[:2],
        option("--suite", default="smoke", metavar="NAME", help="a suite's name, or a file of task ids"),
        option("--families", default="all", help="play only tasks of these: names with commas between, seed, or all"),
        option("--samples", type=amount, default=0, metavar="N", help="attempts by chance, beside the greedy one"),
        option("--repeats", type=amount, default=0, metavar="N", help="draw anew a call that had the same reply so often"),
        option("--decisions", type=amount, default=0, metavar="N", help="pairs of validation twins to decide on"),
        option("--chaos", type=share, default=0.5, metavar="X", help="the dose of trouble in these"),
        option("--silent", action="store_true", help="forbid working to a model that was trained with it"),
        option("--rows", type=count, default=512, metavar="N", help="episodes at work at once"),
        option("--minutes", type=positive, default=math.inf, metavar="N", help="at most; what is cut off counts as lost"),
        OUT,
    ),
    _tiny: (
        option("--families", "--family", default=STARTER, help=FAMILIES_HELP),
        option("--chaos", type=share, default=0.25, metavar="X", help="the dose of trouble"),
        option("--minutes", type=positive, default=5.0, metavar="N", help="of learning, over all sittings"),
        option("--updates", type=amount, default=0, metavar="N", help="at most; then the same seed learns the same"),
        option("--seed", type=amount, default=0, help="of what is drawn"),
        option("--no-curriculum", action="store_true", help="every episode begins at the beginning"),
        option("--workers", type=count, default=2, help="processes that play"),
        option("--out", type=Path, metavar="DIR", help="the run's folder (default: named by families and seed)"),
    ),
    _plot: (
        option("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run; several are drawn over minutes"),
        option("--out", type=Path, metavar="DIR", help="where the pictures go (default: the first run's folder)"),
    ),
}
