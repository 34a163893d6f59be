"""Measure: suites, runs and submissions, from the command line."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from companyos.cli.options import Argument, count, option
from companyos.core.errors import Misuse


def _eval(args: Namespace) -> int:
    """Have an agent work a suite. Whatever ends it, the same command goes on where it stood."""
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.runs.episode_file import spent_on
    from companyos.evaluate.runs.run import BadRun, Done, evaluate, on_processes

    options = _model_options(args)
    workers = on_processes(args.concurrency or args.workers)
    if args.ray is not None:
        try:
            from companyos.evaluate.runs.cluster import on_ray
        except ModuleNotFoundError as missing:
            raise Misuse(f'a cluster needs {missing.name}: pip install "companyos[ray]"') from None
        workers = on_ray(args.ray)
    played = won = 0

    def so_far(one: Done) -> str:
        nonlocal played, won
        played, won = played + 1, won + one.outcome.success
        return f"success {won / played:.1%}"

    def watch(episodes: Iterator[Done], total: int) -> Iterable[Done]:
        return with_bar(episodes, total, "working", so_far)

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
        print(f"{spent.failures:,} requests came to nothing")
    print(f"Written to {args.out}; `companyos submit-check {args.out}` recomputes it.")
    return 0


_MODEL = "openai:"
_LOCAL = "local:"
_OF_LOCAL = ("temperature", "repeats")
_OF_MODELS = ("base_url", "api_key_env", "text", "temperature", "max_tokens", "context", "timeout", "price", "concurrency")


def _model_options(args: Namespace) -> tuple[tuple[str, str], ...]:
    """What a language model's opener is told. Whoever is none has no use for it."""
    given = {name: value for name in (*_OF_MODELS, "repeats") if (value := getattr(args, name)) is not None}
    if args.agent.startswith(_LOCAL) and given.keys() <= set(_OF_LOCAL):
        return tuple((name, str(value)) for name, value in given.items())
    if "repeats" in given and args.agent.startswith(_MODEL):
        raise Misuse(f"--repeats is for {_LOCAL}DIR: an endpoint draws its answers itself")
    if not args.agent.startswith(_MODEL):
        if given:
            flag = "--" + next(iter(given)).replace("_", "-")
            raise Misuse(f"{args.agent} is no language model behind an endpoint: {flag} is for {_MODEL}MODEL")
        return ()
    if "base_url" not in given:
        raise Misuse("a language model takes --base-url, where its endpoint is, such as http://127.0.0.1:8080/v1")
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
    try:
        of_in, of_out = map(_amount, text.split(","))
    except (ValueError, ArgumentTypeError):
        raise ArgumentTypeError(f"{text!r} is no price; one looks like 0.15,0.60") from None
    return of_in, of_out


def _amount(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e9:
        raise ArgumentTypeError(f"{text!r} is no number from 0 up")
    return number


def _submit_check(args: Namespace) -> int:
    """Check a run that somebody hands in: every call is made again, every number computed anew."""
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.runs.run import BadRun
    from companyos.evaluate.runs.submission import WHAT_IT_PROVES, check

    try:
        checked = check(args.folder, args.workers, lambda seen, total: with_bar(seen, total, "checking"))
    except BadRun as mistake:
        raise Misuse(str(mistake)) from None
    for finding in checked.findings:
        print(finding)
    verdict = f"{len(checked.findings)} findings" if checked.findings else "every number follows from the calls"
    print(f"{checked.plan.agent} on {checked.plan.suite}: {checked.episodes} episodes, {verdict}")
    if checked.repeated:
        print(
            f"{checked.repeated} trials repeat another one of their task, to the byte: as a program's do that draws no lots."
        )
    print(WHAT_IT_PROVES)
    return 1 if checked.findings else 0


def _report(args: Namespace) -> int:
    """Write runs as one HTML page that needs nothing but itself, and their numbers as a table in Markdown."""
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.reports.page import write
    from companyos.evaluate.reports.report import report_on
    from companyos.evaluate.runs.run import BadRun

    try:
        from companyos.evaluate.reports import figures
    except ModuleNotFoundError as missing:
        raise Misuse(f'a report needs {missing.name}: pip install "companyos[report]"') from None
    if args.out is None and len(args.folders) > 1:
        raise Misuse("a report on several runs takes --out FILE, where it is to go")
    page = args.out or args.folders[0] / "report.html"
    try:
        report = report_on(args.folders, args.workers, lambda looked, total: with_bar(looked, total, "looking"))
        table = write(report, figures, page)
    except BadRun as mistake:
        raise Misuse(str(mistake)) from None
    except OSError as error:
        raise Misuse(f"cannot write {page}: {error.strerror}") from None
    print(f"Written to {page}, the numbers to {table}.")
    return 0


def _suite(args: Namespace) -> int:
    """List the suites, print one, draw one by a beacon, or hash what is to be measured by one."""
    from companyos.evaluate.suites.selection import beacon_suite
    from companyos.evaluate.suites.suite import BEACON, SUITES, frozen_names, suite

    if args.name is None:
        for name in frozen_names():
            one = suite(name)
            size = f"{len(one.tasks):>4} tasks  {len(one.pairs):>4} pairs"
            print(f"{name:<11} v{one.version}  {size}  {one.hash}  {SUITES[name]}")
    elif args.name == "commit":
        print(_hash_of(args.files))
    elif args.name == BEACON:
        if args.commit is None or args.beacon is None:
            raise Misuse(
                "a beacon's suite takes --commit, the hash of what is measured, and --beacon, a random string of later"
            )
        print(beacon_suite(args.commit, args.beacon).to_text(), end="")
    else:
        print(suite(args.name).to_text(), end="")
    return 0


def _hash_of(files: list[Path]) -> str:
    from companyos.evaluate.runs.submission import hash_of

    if not files:
        raise Misuse("a commit takes the files and folders of what is to be measured")
    try:
        return hash_of(files)
    except OSError as error:
        raise Misuse(f"cannot read {error.filename}: {error.strerror}") from None


COMMANDS: dict[Callable[[Namespace], int], tuple[Argument, ...]] = {
    _eval: (
        option("--agent", required=True, metavar="NAME", help="who works; a wrong name lists those there are"),
        option("--suite", default="core", metavar="NAME", help="what they work: a suite's name, or a file of task ids"),
        option("--trials", type=count, default=1, help="how often each task is worked"),
        option("--workers", type=count, default=2, help="processes"),
        option("--base-url", metavar="URL", help="of openai:MODEL: where the endpoint is, such as http://127.0.0.1:8080/v1"),
        option("--api-key-env", metavar="NAME", help="of openai:MODEL: the variable that holds its key"),
        option(
            "--text", action="store_true", default=None, help="of openai:MODEL: ask for lines of text, not for tool calls"
        ),
        option("--temperature", type=_amount, metavar="X", help="of openai:MODEL and of local:DIR (where 0 is usual)"),
        option("--repeats", type=count, metavar="N", help="of local:DIR: draw anew a call that had the same reply so often"),
        option("--max-tokens", type=count, metavar="N", help="of openai:MODEL: of one answer (default: 2048)"),
        option(
            "--context", type=count, metavar="N", help="of openai:MODEL: tokens in all, answer included (default: 32768)"
        ),
        option("--timeout", type=_amount, metavar="SECONDS", help="of openai:MODEL: for one request (default: 120)"),
        option("--price", type=_price, metavar="IN,OUT", help="of openai:MODEL: of a million tokens read and written"),
        option("--concurrency", type=count, metavar="N", help="of openai:MODEL: episodes, so requests, at a time"),
        option("--ray", metavar="ADDRESS", help="work on a Ray cluster instead: its address, or auto"),
        option(
            "--out", type=Path, required=True, metavar="DIR", help="where transcripts and results go; a run begun is resumed"
        ),
    ),
    _submit_check: (
        option("folder", type=Path, metavar="DIR", help="the folder that eval wrote"),
        option("--workers", type=count, default=2, help="processes"),
    ),
    _report: (
        option(
            "folders", nargs="+", type=Path, metavar="DIR", help="the folder that eval wrote; several are set side by side"
        ),
        option("--out", type=Path, metavar="FILE", help="where the page goes (default: report.html in DIR)"),
        option("--workers", type=count, default=2, help="processes"),
    ),
    _suite: (
        option("name", nargs="?", metavar="NAME", help="a suite; or beacon; or commit, with files"),
        option("files", nargs="*", type=Path, metavar="FILE", help="with commit: all that makes the agent what it is"),
        option("--commit", metavar="HASH", help="with beacon: the hash of what is measured, made public first"),
        option("--beacon", metavar="STRING", help="with beacon: a public random string that nobody could know then"),
    ),
}
