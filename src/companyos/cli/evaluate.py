"""Commands that evaluate agents: run a suite, report, compare, blame, and check a submission."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from companyos.cli.agents import MODEL_OPTIONS, RUN_OPTIONS, add_trained_models, model_options
from companyos.cli.options import JSON, WORKERS, Commands, count, option, print_json, read_transcript
from companyos.core.episode import Transcript
from companyos.core.errors import BadDose, BadTask, Misuse, ReplayDiffers, install_hint

if TYPE_CHECKING:
    from companyos.evaluate.judge.outcome import Outcome

T = TypeVar("T")


def _eval(args: Namespace) -> int:
    """Run an agent on a suite. If the run is interrupted, the same command resumes it.

    Example: companyos eval --agent naive --suite smoke --out runs/naive
    """
    from companyos.cli.eval_result import eval_result, lines
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.runs.run import BadRun, FinishedEpisode, evaluate, on_processes

    add_trained_models()
    options = model_options(args)
    workers = on_processes(args.concurrency or args.workers)
    if args.ray is not None:
        try:
            from companyos.evaluate.runs.cluster import on_ray
        except ModuleNotFoundError as missing:
            raise Misuse(f"a cluster needs {missing.name}: {install_hint('ray')}") from None
        workers = on_ray(args.ray)
    outcomes: list[Outcome] = []
    kept = 0

    def success_so_far(episode: FinishedEpisode) -> str:
        nonlocal kept
        outcomes.append(episode.outcome)
        kept += episode.kept
        return f"success {sum(outcome.success for outcome in outcomes) / len(outcomes):.1%}"

    def watch(episodes: Iterator[FinishedEpisode], total: int) -> Iterable[FinishedEpisode]:
        return with_bar(episodes, total, "working", success_so_far)

    try:
        results = evaluate(args.agent, args.suite, args.trials, args.out, workers, options, watch)
    except BadRun as mistake:
        raise Misuse(str(mistake)) from None
    except OSError as error:
        raise Misuse(f"cannot write to {args.out}: {error.strerror}") from None
    result = eval_result(args.out, results, outcomes, kept)
    if args.json:
        print_json(result)
    else:
        print("\n".join(lines(result)))
    return 0


def _submit_check(args: Namespace) -> int:
    """Check a submitted run: repeat every call and recompute every number.

    Example: companyos submit-check runs/naive
    """
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.runs.run import BadRun
    from companyos.evaluate.runs.submission import WHAT_SUBMIT_CHECK_PROVES, check

    try:
        checked = check(args.folder, args.workers, lambda episodes, total: with_bar(episodes, total, "checking"))
    except BadRun as mistake:
        raise Misuse(str(mistake)) from None
    if args.json:
        print_json({"passed": not checked.findings, **msgspec.structs.asdict(checked)})
        return 1 if checked.findings else 0
    for finding in checked.findings:
        print(finding)
    verdict = f"{len(checked.findings)} findings" if checked.findings else "every number follows from the calls"
    print(f"{checked.plan.agent} on {checked.plan.suite}: {checked.episodes} episodes, {verdict}")
    if checked.repeated:
        print(f"{checked.repeated} trials are the same as another trial of their task: the agent is deterministic.")
    print(WHAT_SUBMIT_CHECK_PROVES)
    return 1 if checked.findings else 0


def _report(args: Namespace) -> int:
    """Write one self-contained HTML page about runs, and their numbers as a Markdown table.

    Example: companyos report runs/naive
    """
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.reports.report import report_on
    from companyos.evaluate.runs.run import BadRun

    try:
        import jinja2  # noqa: F401  # first, so that the error names it and not markupsafe, which it installs

        from companyos.evaluate.reports import figures
        from companyos.evaluate.reports.page import write
    except ModuleNotFoundError as missing:
        raise Misuse(f"a report needs {missing.name}: {install_hint('report')}") from None
    if args.out is None and len(args.folders) > 1:
        raise Misuse("a report on several runs needs --out FILE")
    page = args.out or args.folders[0] / "report.html"
    try:
        report = report_on(args.folders, args.workers, lambda episodes, total: with_bar(episodes, total, "looking"))
        table = write(report, figures, page)
    except BadRun as mistake:
        raise Misuse(str(mistake)) from None
    except OSError as error:
        raise Misuse(f"cannot write {page}: {error.strerror}") from None
    if args.json:
        print_json({"page": str(page), "table": str(table)})
    else:
        print(f"Written to {page}, the numbers to {table}.")
    return 0


def _compare(args: Namespace) -> int:
    """Compare two runs (folders of transcripts) task by task.

    Example: companyos compare runs/naive runs/expert
    """
    from companyos.cli.terminal import screen
    from companyos.evaluate.reports.tables import comparison_table
    from companyos.evaluate.stats.compare import MIN_SEEDS, compare

    comparison = compare(_outcomes(args.first), _outcomes(args.second))
    if comparison is None:
        raise Misuse(
            f"{args.first} and {args.second} share the tasks of fewer than two seeds, which cannot tell which is better; "
            f"{MIN_SEEDS} or more are needed"
        )
    if args.json:
        print_json(comparison)
    else:
        screen().print(comparison_table(comparison))
    return 0


def _blame(args: Namespace) -> int:
    """Tell why an episode was lost; for a folder, list the habits that lost its episodes, the worst first.

    Example: companyos blame runs/naive
    """
    from companyos.agents.custom import summary_of
    from companyos.cli.blame_result import BlamedFile, blame_json, habit_lines, story_lines
    from companyos.cli.terminal import screen, with_bar
    from companyos.evaluate.judge.blame import blame
    from companyos.evaluate.runs.episode_file import error_beside

    paths = _transcript_paths(args.place)
    files: list[BlamedFile] = []
    skipped: list[str] = []
    for path in with_bar(paths, len(paths), "looking"):
        try:
            files.append(BlamedFile(path, _judged(path, partial(blame, raised=summary_of(error_beside(path))))))
        except Misuse as mistake:
            if not args.place.is_dir():
                raise
            skipped.append(str(mistake))
    for warning in skipped:
        print(f"companyos: skipped {warning}", file=sys.stderr)
    if not files:
        raise Misuse(f"{args.place}: no transcript in it")
    if args.json:
        print_json(blame_json(files, skipped))
    else:
        lines = habit_lines(files) if args.place.is_dir() else story_lines(files[0].blame)
        screen().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


def _outcomes(folder: Path) -> "list[Outcome]":
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.judge.outcome import judge

    paths = _transcript_paths(folder)
    return [_judged(path, judge) for path in with_bar(paths, len(paths), "judging")]


def _transcript_paths(place: Path) -> list[Path]:
    """Return the file itself, the episodes of a run, or all transcripts under a folder."""
    from companyos.evaluate.runs.episode_file import transcripts

    paths = transcripts(place) if place.is_dir() else [place]
    if not paths:
        raise Misuse(f"{place}: no *.jsonl in it")
    return paths


def _judged(path: Path, judge: Callable[[Transcript], T]) -> T:
    """Apply a function that judges transcripts to a file. If the file cannot be replayed, the error names it."""
    try:
        return judge(read_transcript(path))
    except (ReplayDiffers, BadTask, BadDose) as difference:
        raise Misuse(f"{path}: {difference}") from None


def _suite(args: Namespace) -> int:
    """List the suites, print one, draw one from a public random string, or hash an agent's files.

    Example: companyos suite smoke
    """
    from companyos.evaluate.suites.selection import beacon_suite
    from companyos.evaluate.suites.suite import BEACON, suite

    if args.name is None:
        _list_suites(args.json)
        return 0
    if args.name == "commit":
        commit = _hash_of(args.files)
        if args.json:
            print_json({"hash": commit})
        else:
            print(commit)
        return 0
    if args.name == BEACON and (args.commit is None or args.beacon is None):
        raise Misuse("a beacon suite needs --commit, the hash of the agent, and --beacon, a random string published later")
    chosen = beacon_suite(args.commit, args.beacon) if args.name == BEACON else suite(args.name)
    if args.json:
        print_json(chosen)
    else:
        print(chosen.to_text(), end="")
    return 0


def _list_suites(as_json: bool) -> None:
    from companyos.evaluate.suites.suite import SUITES, frozen_names, suite

    suites = [suite(name) for name in frozen_names()]
    if as_json:
        print_json({"suites": [{**msgspec.structs.asdict(frozen), "about": SUITES[frozen.name]} for frozen in suites]})
        return
    for frozen in suites:
        size = f"{len(frozen.tasks):>4} tasks  {len(frozen.pairs):>4} pairs"
        print(f"{frozen.name:<11} v{frozen.version}  {size}  {frozen.hash}  {SUITES[frozen.name]}")


def _hash_of(files: list[Path]) -> str:
    from companyos.evaluate.runs.submission import hash_of

    if not files:
        raise Misuse("commit needs the files and folders of the agent")
    try:
        return hash_of(files)
    except OSError as error:
        raise Misuse(f"cannot read {error.filename}: {error.strerror}") from None


RESUMABLE = (_eval,)  # the same command goes on with an interrupted run
COMMANDS: Commands = {
    _eval: (
        option(
            "--agent",
            required=True,
            metavar="NAME",
            help="a built-in agent, MODULE:NAME or FILE.py:NAME for your own; a wrong name lists them all",
        ),
        option("--suite", default="core", metavar="NAME", help="a suite's name, or a file of task ids"),
        option("--trials", type=count, default=1, help="episodes per task"),
        WORKERS,
        *MODEL_OPTIONS,
        *RUN_OPTIONS,
        option("--ray", metavar="ADDRESS", help="run on a Ray cluster: its address, or auto (default: on this machine)"),
        option(
            "--out",
            type=Path,
            required=True,
            metavar="DIR",
            help="folder for transcripts and results; an unfinished run is resumed",
        ),
        JSON,
    ),
    _submit_check: (
        option("folder", type=Path, metavar="DIR", help="the folder that eval wrote"),
        WORKERS,
        JSON,
    ),
    _report: (
        option("folders", nargs="+", type=Path, metavar="DIR", help="folders that eval wrote; several are compared"),
        option("--out", type=Path, metavar="FILE", help="the page (default: report.html in DIR)"),
        WORKERS,
        JSON,
    ),
    _compare: (
        option("first", type=Path, metavar="A", help="the folder of a run"),
        option("second", type=Path, metavar="B", help="the folder of the run that is compared with it"),
        JSON,
    ),
    _blame: (option("place", type=Path, metavar="TRANSCRIPT_OR_DIR", help="a transcript, or a folder of a run"), JSON),
    _suite: (
        option("name", nargs="?", metavar="NAME", help="a suite, beacon, or commit with files (default: list the suites)"),
        option("files", nargs="*", type=Path, metavar="FILE", help="with commit: the files of the agent"),
        option("--commit", metavar="HASH", help="with beacon: the hash of the agent, published first (default: none)"),
        option(
            "--beacon",
            metavar="STRING",
            help="with beacon: a public random string that was unknown at that time (default: none)",
        ),
        JSON,
    ),
}
