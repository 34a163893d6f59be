"""Commands that check the benchmark: prove, twins, floor, replay and regrade."""

import sys
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from companyos.assurance.prove_many import check_all
from companyos.assurance.replay import replay
from companyos.assurance.twins import twins
from companyos.cli.options import (
    DOSES_HELP,
    FAMILIES,
    JSON,
    SIZE,
    SPLIT,
    TASK,
    WORKERS,
    Commands,
    count,
    dose_list,
    family_names,
    option,
    print_json,
    read_transcript,
    seed_range,
    task_ids,
)
from companyos.core.errors import BadChoice, BadDose, BadTask, Misuse, ReplayDiffers
from companyos.env import make


def _prove(args: Namespace) -> int:
    """Prove that the agent is told enough to solve every task, and to tell twins apart before an irreversible call.

    Example: companyos prove --families vendor_onboarding --seeds 0:20
    """
    from companyos.cli.terminal import screen, show_proofs, with_bar

    tasks, began = list(task_ids(args)), time.monotonic()
    # All doses of a seed go to one process, because they share the staged company.
    proofs = check_all(tasks, args.workers, not args.no_twins, chunk=len(args.chaos))
    checked = list(with_bar(proofs, len(tasks), "proving"))
    if args.json:
        failed = [result for result in checked if result.failure]
        twins_told_apart = sum(result.twins for result in checked)
        print_json(
            {"tasks": len(checked), "proved": len(checked) - len(failed), "twins": twins_told_apart, "failed": failed}
        )
    else:
        show_proofs(checked, not args.no_twins, screen())
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"{minutes} min {seconds} s on {args.workers} process{'es' * (args.workers > 1)}", file=sys.stderr)
    return 1 if any(result.failure for result in checked) else 0


def _twins(args: Namespace) -> int:
    """List the tasks that differ from this one in a single cause, and what that changes.

    Example: companyos twins vendor_onboarding-v4-train-7-50
    """
    from companyos.cli.terminal import screen, twin_table

    task_id = make(args.task).task_id
    if args.json:
        print_json({"task_id": task_id, "twins": twins(task_id)})
    else:
        screen().print(twin_table(twins(task_id)))
    return 0


def _floor(args: Namespace) -> int:
    """Measure how far cheap strategies get, and write the result as a page.

    Example: companyos floor --families vendor_onboarding --episodes 50 --out floor.md
    """
    from companyos.assurance.floor import jobs, measure, report
    from companyos.cli.terminal import with_bar

    names = family_names(args)
    total = len(jobs(names, args.episodes, args.size))
    tallies = list(with_bar(measure(names, args.episodes, args.workers, args.size), total, "playing"))
    page = report(tallies, names, args.episodes, args.size)
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(page)
    except OSError as error:
        raise Misuse(f"cannot write {args.out}: {error.strerror}") from None
    if args.json:
        print_json({"page": str(args.out), "tallies": tallies})
    else:
        print(f"{page}\nWritten to {args.out}.")
    return 0


def _replay(args: Namespace) -> int:
    """Replay transcripts and check that every line follows from the task id and the calls.

    Example: companyos replay mine.jsonl
    """
    code = 0
    files: list[dict[str, Any]] = []
    result: dict[str, Any]
    for path in args.files:
        try:
            env = replay(read_transcript(path))
        except ReplayDiffers as difference:
            result, text = {"differs": str(difference)}, f"differs, {difference}"
            code = max(code, 1)
        except (Misuse, BadTask, BadDose, BadChoice) as mistake:  # no transcript, or its header is not valid here
            print(f"companyos: {mistake}", file=sys.stderr)
            code = 2
            continue
        else:
            result = {"task_id": env.task_id, "steps": env.step_count, "success": env.success, "return": env.total}
            ended = {None: "unfinished", True: "success", False: "failure"}[env.success]
            text = f"as recorded, {env.step_count} steps, {ended}, {env.task_id}"
        if args.json:
            files.append({"file": str(path), **result})
        else:
            print(f"{path}: {text}")
    if args.json:
        print_json({"files": files})
    return code


def _regrade(args: Namespace) -> int:
    """Judge all transcripts (*.jsonl) under a folder again, and show which verdicts changed.

    Example: companyos regrade runs/naive
    """
    from companyos.assurance.regrade import CHANGED, REPLAY_FAILED, regrade_all
    from companyos.cli.terminal import screen, show_regraded, with_bar

    paths = sorted(args.folder.rglob("*.jsonl"))
    if not paths:
        raise Misuse(f"{args.folder}: {'no *.jsonl in it' if args.folder.is_dir() else 'no such folder'}")
    files = list(with_bar(regrade_all(paths), len(paths), "judging"))
    if args.json:
        print_json({"counts": Counter(file.outcome for file in files), "files": files})
    else:
        show_regraded(files, screen())
    return 1 if any(file.outcome in (CHANGED, REPLAY_FAILED) for file in files) else 0


COMMANDS: Commands = {
    _prove: (
        FAMILIES,
        option("--seeds", type=seed_range, default=range(100), metavar="A:B", help="from A up to, not including, B"),
        option("--chaos", type=dose_list, default=[0.0, 0.25, 0.5, 0.75, 1.0], metavar="X,Y", help=DOSES_HELP),
        SPLIT,
        SIZE,
        WORKERS,
        option("--no-twins", action="store_true", help="do not check twins"),
        JSON,
    ),
    _twins: (TASK, JSON),
    _floor: (
        FAMILIES,
        option("--episodes", type=count, default=500, help="episodes for each agent and family"),
        SIZE,
        WORKERS,
        option("--out", type=Path, default=Path("docs/floor.md"), metavar="FILE", help="the page"),
        JSON,
    ),
    _replay: (option("files", nargs="+", type=Path, metavar="FILE", help="transcripts"), JSON),
    _regrade: (option("folder", type=Path, metavar="DIR", help="a folder of transcripts"), JSON),
}
