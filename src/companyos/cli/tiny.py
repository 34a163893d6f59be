"""The command `companyos train tiny`: the small learner."""

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from companyos.cli.options import JSON, Commands, count, option, print_json
from companyos.cli.train_arguments import FAMILIES_HELP, STARTER, amount, families_of, positive, share
from companyos.core.errors import Misuse, install_hint
from companyos.evaluate.suites.suite import suite_of

if TYPE_CHECKING:
    from companyos.train.tiny.learner import Exam

HELD_OUT = "held-out.txt"  # in the folder of the run: the tasks of the exam, as a suite


def _tiny(args: Namespace) -> int:
    """Train a small policy with numpy: no GPU, no download. If interrupted, run the same command again to continue.

    Example: companyos train tiny --family vendor_onboarding --minutes 5 --out runs/tiny
    """
    families = families_of(args)
    try:
        from companyos.train.tiny.learner import EXAM, POLICY, ArrayJournal, TinyLearner, exam_tasks, examine, train
        from companyos.train.tiny.rollout import TinyRecipe
    except ModuleNotFoundError as missing:
        raise Misuse(f"the small learner needs {missing.name}: {install_hint('tiny')}") from None
    recipe = TinyRecipe(families, args.chaos, args.seed, not args.no_curriculum, args.workers)
    suffix = "" if recipe.curriculum else "-no-curriculum"
    folder = args.out or Path(f"tiny-{args.families.replace(',', '-')}-{args.seed}{suffix}")
    seconds = 60 * args.minutes
    journal = ArrayJournal(folder, {"loop": "tiny", "recipe": recipe, "minutes": args.minutes, "updates": args.updates})
    learner = TinyLearner(recipe)
    with _learning_curve(lambda: journal.elapsed / seconds) as show:
        train(learner, journal, (seconds, args.updates or math.inf), show)
    exam = examine(learner, journal.elapsed / 60)
    (folder / EXAM).write_bytes(msgspec.json.encode(exam))
    (folder / HELD_OUT).write_text(suite_of(Path(HELD_OUT).stem, exam_tasks(recipe)).to_text())
    learner.close()
    journal.close()
    if args.json:
        print_json({"policy_file": str(folder / POLICY), "suite": str(folder / HELD_OUT), **msgspec.structs.asdict(exam)})
    else:
        _print_exam(exam, f"{', '.join(families)} at chaos {args.chaos:g}", folder)
    return 0


def _print_exam(exam: "Exam", tasks: str, folder: Path) -> None:
    """Print the result of the exam, on which tasks it was, and how to evaluate the policy on the same tasks."""
    from companyos.train.tiny.learner import POLICY

    print(f"{exam.updates} updates, {exam.steps:,} steps. The policy is in {folder / POLICY}.")
    print(f"Success on new seeds of what it was trained on, {tasks}:")
    print("\n".join(exam.lines()))
    evaluation = f"--agent tiny:{folder / POLICY} --suite {folder / HELD_OUT} --out {folder / 'eval'}"
    print(f"Next, the same tasks with all metrics: companyos eval {evaluation}")
    print("The suites smoke and core are of twelve families at chaos 0.5: a policy of fewer families fails most of them.")


@contextmanager
def _learning_curve(share_passed: Callable[[], float]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show the learning curve in a terminal during the run. `share_passed` returns the share of the run that has passed."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from companyos.train.tiny.curve import drawn

    console = Console(stderr=True)
    attempts: list[tuple[float, float]] = []
    held_out: list[tuple[float, float]] = []

    def show(record: dict[str, Any]) -> None:
        if "reward" in record:
            attempts.append((share_passed(), record["reward"]))
        if "checkup" in record:
            held_out.append((share_passed(), record["checkup"]["success"]))
        begins = f"beginning up to {record['left']:.0%} of the way before the end"
        caption = f"{record['steps']:,} steps; . training, {begins}; # held-out"
        live.update(Text(drawn(attempts, held_out, caption)), refresh=True)

    if not console.is_terminal:
        yield lambda record: None
        return
    with Live(console=console, auto_refresh=False) as live:
        yield show


COMMANDS: Commands = {
    _tiny: (
        option("--families", "--family", default=STARTER, help=FAMILIES_HELP),
        option("--chaos", type=share, default=0.25, metavar="X", help="the dose of chaos"),
        option("--minutes", type=positive, default=5.0, metavar="N", help="of training, over all sessions"),
        option(
            "--updates",
            type=amount,
            default=0,
            metavar="N",
            help="most updates; with a limit, the same seed gives the same policy",
        ),
        option("--seed", type=amount, default=0, help="random seed"),
        option("--no-curriculum", action="store_true", help="start every episode at the beginning"),
        option("--workers", type=count, default=2, help="processes that play episodes"),
        option("--out", type=Path, metavar="DIR", help="folder of the run (default: named after families and seed)"),
        JSON,
    ),
}
