"""Commands that evaluate agents: run a suite, report, compare, blame, and check a submission."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from companyos.cli.options import JSON, WORKERS, Commands, count, option, read_transcript
from companyos.core.episode import Transcript
from companyos.core.errors import BadDose, BadTask, Misuse, ReplayDiffers

if TYPE_CHECKING:
    from companyos.evaluate.judge.outcome import Outcome

T = TypeVar("T")

_ENDPOINT = "openai:"
_LOCAL = "local:"
_LOCAL_OPTIONS = ("temperature", "repeats")
_MODEL_OPTIONS = (
    "base_url",
    "api_key_env",
    "text",
    "temperature",
    "max_tokens",
    "context",
    "timeout",
    "price",
    "concurrency",
)


def _eval(args: Namespace) -> int:
    """Run an agent on a suite. If the run is interrupted, the same command resumes it."""
    from companyos.cli.agents import add_trained_models
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.runs.episode_file import spent_on
    from companyos.evaluate.runs.run import BadRun, FinishedEpisode, evaluate, on_processes

    add_trained_models()
    options = _model_options(args)
    workers = on_processes(args.concurrency or args.workers)
    if args.ray is not None:
        try:
            from companyos.evaluate.runs.cluster import on_ray
        except ModuleNotFoundError as missing:
            raise Misuse(f'a cluster needs {missing.name}: pip install "companyos[ray]"') from None
        workers = on_ray(args.ray)
    played = won = 0

    def success_so_far(episode: FinishedEpisode) -> str:
        nonlocal played, won
        played, won = played + 1, won + episode.outcome.success
        return f"success {won / played:.1%}"

    def watch(episodes: Iterator[FinishedEpisode], total: int) -> Iterable[FinishedEpisode]:
        return with_bar(episodes, total, "working", success_so_far)

    try:
        results = evaluate(args.agent, args.suite, args.trials, args.out, workers, options, watch)
    except BadRun as mistake:
        raise Misuse(str(mistake)) from None
    except OSError as error:
        raise Misuse(f"cannot write to {args.out}: {error.strerror}") from None
    print(f"{args.agent} on {results['suite']}: {played} episodes, {won} of them a success ({won / played:.1%})")
    spent = spent_on(args.out)
    if spent.tokens or spent.failures:
        print(f"{spent.tokens_in:,} tokens read, {spent.tokens_out:,} written, cost {spent.cost:.4f}", end="; ")
        print(f"{spent.failures:,} requests failed")
    print(f"Written to {args.out}; `companyos submit-check {args.out}` recomputes it.")
    return 0


def _model_options(args: Namespace) -> tuple[tuple[str, str], ...]:
    """Return the options for a language model. Other agents take none of them."""
    given = {name: value for name in (*_MODEL_OPTIONS, "repeats") if (value := getattr(args, name)) is not None}
    if args.agent.startswith(_LOCAL) and given.keys() <= set(_LOCAL_OPTIONS):
        return tuple((name, str(value)) for name, value in given.items())
    if "repeats" in given and args.agent.startswith(_ENDPOINT):
        raise Misuse(f"--repeats is for {_LOCAL}DIR: an endpoint samples its answers itself")
    if not args.agent.startswith(_ENDPOINT):
        if given:
            flag = "--" + next(iter(given)).replace("_", "-")
            raise Misuse(f"{args.agent} is not a language model behind an endpoint: {flag} is for {_ENDPOINT}MODEL")
        return ()
    if "base_url" not in given:
        raise Misuse("a language model needs --base-url, the address of its endpoint, such as http://127.0.0.1:8080/v1")
    try:
        import companyos.agents.llm.language_model  # noqa: F401
    except ModuleNotFoundError as missing:
        raise Misuse(f'a language model needs {missing.name}: pip install "companyos[llm]"') from None
    given.pop("concurrency", None)
    if given.pop("text", False):
        given["form"] = "text"
    if "price" in given:
        given["price_in"], given["price_out"] = given.pop("price")
    return tuple((name, str(value)) for name, value in given.items())


def _price(text: str) -> tuple[float, float]:
    """Parse the prices of a million tokens read and written, such as `0.15,0.60`."""
    try:
        price_in, price_out = map(_amount, text.split(","))
    except (ValueError, ArgumentTypeError):
        raise ArgumentTypeError(f"{text!r} is not a price; write 0.15,0.60") from None
    return price_in, price_out


def _amount(text: str) -> float:
    """Parse a number from 0 up."""
    number = float(text)
    if not 0 <= number < 1e9:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return number


def _submit_check(args: Namespace) -> int:
    """Check a submitted run: repeat every call and recompute every number."""
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.runs.run import BadRun
    from companyos.evaluate.runs.submission import WHAT_SUBMIT_CHECK_PROVES, check

    try:
        checked = check(args.folder, args.workers, lambda episodes, total: with_bar(episodes, total, "checking"))
    except BadRun as mistake:
        raise Misuse(str(mistake)) from None
    for finding in checked.findings:
        print(finding)
    verdict = f"{len(checked.findings)} findings" if checked.findings else "every number follows from the calls"
    print(f"{checked.plan.agent} on {checked.plan.suite}: {checked.episodes} episodes, {verdict}")
    if checked.repeated:
        print(f"{checked.repeated} trials are the same as another trial of their task: the agent is deterministic.")
    print(WHAT_SUBMIT_CHECK_PROVES)
    return 1 if checked.findings else 0


def _report(args: Namespace) -> int:
    """Write one self-contained HTML page about runs, and their numbers as a Markdown table."""
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.reports.report import report_on
    from companyos.evaluate.runs.run import BadRun

    try:
        from companyos.evaluate.reports import figures
        from companyos.evaluate.reports.page import write
    except ModuleNotFoundError as missing:
        raise Misuse(f'a report needs {missing.name}: pip install "companyos[report]"') from None
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
    print(f"Written to {page}, the numbers to {table}.")
    return 0


def _compare(args: Namespace) -> int:
    """Compare two runs (folders of transcripts) task by task."""
    from companyos.cli.terminal import screen
    from companyos.evaluate.reports.tables import comparison_table
    from companyos.evaluate.stats.compare import compare

    comparison = compare(_outcomes(args.first), _outcomes(args.second))
    if comparison is None:
        raise Misuse(f"{args.first} and {args.second} share the tasks of fewer than two seeds; there is nothing to compare")
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(comparison)).decode())
    else:
        screen().print(comparison_table(comparison))
    return 0


def _blame(args: Namespace) -> int:
    """Find the call that lost each episode, and what its agent had not read."""
    from companyos.cli.terminal import screen, with_bar
    from companyos.evaluate.judge.blame import blame, summarise_blames
    from companyos.evaluate.reports.tables import blame_summary_table, blame_table

    paths = _transcript_paths(args.place)
    blames = [_judged(path, blame) for path in with_bar(paths, len(paths), "looking")]
    if args.json:
        print(msgspec.json.format(msgspec.json.encode({"sheet": summarise_blames(blames), "episodes": blames})).decode())
    else:
        screen().print(blame_table(blames) if len(blames) == 1 else blame_summary_table(summarise_blames(blames)))
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
    """List the suites, print one, draw one from a public random string, or hash an agent's files."""
    from companyos.evaluate.suites.selection import beacon_suite
    from companyos.evaluate.suites.suite import BEACON, SUITES, frozen_names, suite

    if args.name is None:
        for name in frozen_names():
            frozen = suite(name)
            size = f"{len(frozen.tasks):>4} tasks  {len(frozen.pairs):>4} pairs"
            print(f"{name:<11} v{frozen.version}  {size}  {frozen.hash}  {SUITES[name]}")
    elif args.name == "commit":
        print(_hash_of(args.files))
    elif args.name == BEACON:
        if args.commit is None or args.beacon is None:
            raise Misuse(
                "a beacon suite needs --commit, the hash of the agent, and --beacon, a random string published later"
            )
        print(beacon_suite(args.commit, args.beacon).to_text(), end="")
    else:
        print(suite(args.name).to_text(), end="")
    return 0


def _hash_of(files: list[Path]) -> str:
    from companyos.evaluate.runs.submission import hash_of

    if not files:
        raise Misuse("commit needs the files and folders of the agent")
    try:
        return hash_of(files)
    except OSError as error:
        raise Misuse(f"cannot read {error.filename}: {error.strerror}") from None


COMMANDS: Commands = {
    _eval: (
        option("--agent", required=True, metavar="NAME", help="the agent; a wrong name lists the known ones"),
        option("--suite", default="core", metavar="NAME", help="a suite's name, or a file of task ids"),
        option("--trials", type=count, default=1, help="episodes per task"),
        WORKERS,
        option("--base-url", metavar="URL", help="for openai:MODEL: the endpoint, such as http://127.0.0.1:8080/v1"),
        option("--api-key-env", metavar="NAME", help="for openai:MODEL: the environment variable that holds its key"),
        option(
            "--text", action="store_true", default=None, help="for openai:MODEL: ask for lines of text, not for tool calls"
        ),
        option("--temperature", type=_amount, metavar="X", help="for openai:MODEL and local:DIR (default there: 0)"),
        option(
            "--repeats",
            type=count,
            metavar="N",
            help="for local:DIR: sample again a call that has had the same reply N times",
        ),
        option("--max-tokens", type=count, metavar="N", help="for openai:MODEL: per answer (default: 2048)"),
        option(
            "--context",
            type=count,
            metavar="N",
            help="for openai:MODEL: the context window, answer included (default: 32768)",
        ),
        option("--timeout", type=_amount, metavar="SECONDS", help="for openai:MODEL: per request (default: 120)"),
        option(
            "--price", type=_price, metavar="IN,OUT", help="for openai:MODEL: price of a million tokens read and written"
        ),
        option("--concurrency", type=count, metavar="N", help="for openai:MODEL: concurrent episodes (and requests)"),
        option("--ray", metavar="ADDRESS", help="run on a Ray cluster instead: its address, or auto"),
        option(
            "--out",
            type=Path,
            required=True,
            metavar="DIR",
            help="folder for transcripts and results; an unfinished run is resumed",
        ),
    ),
    _submit_check: (
        option("folder", type=Path, metavar="DIR", help="the folder that eval wrote"),
        WORKERS,
    ),
    _report: (
        option("folders", nargs="+", type=Path, metavar="DIR", help="folders that eval wrote; several are compared"),
        option("--out", type=Path, metavar="FILE", help="the page (default: report.html in DIR)"),
        WORKERS,
    ),
    _compare: (option("first", type=Path, metavar="A"), option("second", type=Path, metavar="B"), JSON),
    _blame: (option("place", type=Path, metavar="TRANSCRIPT_OR_DIR"), JSON),
    _suite: (
        option("name", nargs="?", metavar="NAME", help="a suite, beacon, or commit with files"),
        option("files", nargs="*", type=Path, metavar="FILE", help="with commit: the files of the agent"),
        option("--commit", metavar="HASH", help="with beacon: the hash of the agent, published first"),
        option("--beacon", metavar="STRING", help="with beacon: a public random string that was unknown at that time"),
    ),
}
