"""Commands that write data: demonstrations and lists of task ids."""

from argparse import ArgumentTypeError, Namespace
from pathlib import Path

import msgspec

from companyos.cli.options import (
    DOSES_HELP,
    FAMILIES,
    JSON,
    SIZE,
    SPLIT,
    Commands,
    count,
    dose_list,
    family_names,
    option,
    output,
    print_json,
    reward_profile,
    seed_range,
    task_ids,
)
from companyos.data import demos
from companyos.env.rewards import PROFILES


def _demos(args: Namespace) -> int:
    """Write episodes as a dataset, one per line: solved, solved after a mistake was corrected, and failed.

    Example: companyos demos --n 1000 --format chat --out demos.jsonl
    """
    from companyos.cli.terminal import with_bar

    episodes = demos.episodes(
        args.n, family_names(args), args.chaos, args.split, args.mix, args.seed, args.reward, args.held_out
    )
    to_row = demos.FORMATS[args.format]
    with output(args.out) as file:
        # On a terminal, the rows themselves show progress.
        for episode in episodes if file.isatty() else with_bar(episodes, args.n, "working"):
            file.write(msgspec.json.encode(to_row(episode)).decode() + "\n")
    return 0


def _tasks(args: Namespace) -> int:
    """List task ids, one per line.

    Example: companyos tasks --families vendor_onboarding --seeds 0:3 --chaos 0.5
    """
    if args.json:
        print_json({"tasks": list(task_ids(args))})
        return 0
    for task_id in task_ids(args):
        print(task_id)
    return 0


def _mix(text: str) -> dict[str, float]:
    """Parse shares of kinds of episodes, such as `expert=6,recovered=3,failed=1`."""
    shares = [part.partition("=") for part in text.split(",")]
    try:
        return {kind: float(share) for kind, _, share in shares}
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a mix; write expert=6,recovered=3,failed=1") from None


COMMANDS: Commands = {
    _demos: (
        option("--n", type=count, default=100, help="number of episodes"),
        option("--format", default="jsonl", choices=list(demos.FORMATS), help="transcripts, or messages and tools"),
        FAMILIES,
        option("--chaos", type=dose_list, default=[0.5], metavar="X,Y", help=DOSES_HELP),
        SPLIT,
        option("--held-out", action="store_true", help="confirm that a split other than train is intended"),
        option("--mix", type=_mix, default=demos.MIX, metavar="KIND=N,KIND=N", help=f"shares of {', '.join(demos.KINDS)}"),
        option("--seed", type=int, default=0, help="random seed; another seed gives other episodes"),
        option("--reward", type=reward_profile, default="dense", choices=list(PROFILES), help="the reward profile"),
        option("--out", type=Path, metavar="FILE", help="where to write them (default: stdout)"),
    ),
    _tasks: (
        FAMILIES,
        option("--seeds", type=seed_range, default=range(10), metavar="A:B", help="from A up to, not including, B"),
        option("--chaos", type=dose_list, default=[0.0], metavar="X,Y", help=DOSES_HELP),
        SPLIT,
        SIZE,
        JSON,
    ),
}
