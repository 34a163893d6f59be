"""Command line: play, watch, prove, replay, measure, datasets, the server, and lists of what there is."""

import argparse
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO, TypeVar

import msgspec

from companyos import __version__
from companyos.agents import AGENTS
from companyos.assurance.prove_many import check_all
from companyos.assurance.replay import replay
from companyos.assurance.twins import twins
from companyos.chaos import DIALS, PRESETS
from companyos.cli.evaluate import COMMANDS as MEASURING
from companyos.cli.options import Argument, count, option
from companyos.cli.train import COMMANDS as TRAINING
from companyos.company import TOOLBOX
from companyos.core.episode import Transcript
from companyos.core.errors import BadChoice, BadDose, BadPlugin, BadTask, Misuse, ReplayDiffers
from companyos.core.task import SPLITS
from companyos.data import demos
from companyos.env import CompanyEnv, make, task_named
from companyos.env.rewards import PROFILES
from companyos.families import ROUND, family

if TYPE_CHECKING:
    from companyos.evaluate.judge.outcome import Outcome

T = TypeVar("T")

NEXT = """
What to try next:
  {companyos} play {task}
      work it yourself
  {companyos} watch {task} --agent jittered
      the expert with other habits
  {companyos} twins {task}
      the same morning with one truth changed
  {companyos} prove --seeds 0:20
      every task can be done from what one is told
  {companyos} bench
      how fast it runs here"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message} (see {self.prog} --help)")


def main(argv: list[str] | None = None) -> int:
    """Carries out a command. A caller's mistake is one line and exit code 2; a bug of ours crashes."""
    try:
        args = parser().parse_args(argv)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except (Misuse, BadTask, BadDose, BadChoice, BadPlugin) as mistake:
        print(f"companyos: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Nobody reads on; what is still buffered must not fail a second time when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> Parser:
    """The whole command line, from the table at the end of this file."""
    whole = Parser(prog="companyos", description="A company in a box, for agents to work in.", allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"companyos {__version__}")
    commands = _add_commands(whole, COMMANDS)
    train = commands.add_parser("train", help=_TRAIN, description=_TRAIN, allow_abbrev=False)
    _add_commands(train, TRAINING)
    return whole


def _add_commands(whole: argparse.ArgumentParser, table: "Commands") -> "argparse._SubParsersAction[Parser]":
    commands = whole.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for run, arguments in table.items():
        name = run.__name__.removeprefix("_").replace("_", "-")
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__, allow_abbrev=False)
        command.set_defaults(run=run)
        for flags, settings in arguments:
            command.add_argument(*flags, **settings)
    return commands


# -- episodes ----------------------------------------------------------------------------------------------------------


def _play(args: Namespace) -> int:
    """Work a task yourself. You see what an agent sees; Tab completes."""
    from companyos.cli.game import Game
    from companyos.cli.terminal import screen

    env = _episode(args)
    if args.save is not None and args.save.exists():
        env = _resumed(env, args)
    game = Game(env, screen(), args.save)
    try:
        game.keep()  # found out before any work went in
    except OSError as error:
        raise Misuse(f"cannot write {args.save}: {error.strerror}") from None
    game.play()
    return 0


def _episode(args: Namespace) -> CompanyEnv:
    given = {name: value for name in ("seed", "chaos", "split") if (value := getattr(args, name)) is not None}
    if "-" in args.task and given:
        raise Misuse(f"a task id says its own {' and '.join(given)}; with --{next(iter(given))}, give a family")
    return make(args.task, reward=args.reward or "seed", **given)


def _resumed(env: CompanyEnv, args: Namespace) -> CompanyEnv:
    saved = _transcript(args.save)
    if saved.header.task_id != env.task_id:
        raise Misuse(f"{args.save} holds another task, {saved.header.task_id}; save to another file")
    if saved.footer.done:
        raise Misuse(f"{args.save} holds a finished episode; save to another file")
    if args.reward not in (None, saved.header.reward):
        raise Misuse(f"{args.save} was begun with --reward {saved.header.reward}; go on with that")
    try:
        env = replay(saved)
    except ReplayDiffers as difference:
        raise Misuse(f"{args.save} cannot be resumed: {difference}") from None
    print(f"Resumed from {args.save} after step {env.step_count}.")
    return env


def _transcript(path: Path) -> Transcript:
    try:
        return Transcript.from_jsonl(path.read_bytes())
    except OSError as error:
        raise Misuse(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise Misuse(f"{path}: {error}") from None


def _watch(args: Namespace) -> int:
    """See an agent work a task."""
    from companyos.cli.terminal import screen, watch

    if not 0 <= args.delay <= 60:
        raise Misuse(f"--delay takes from 0 to 60 seconds; got {args.delay}")
    env = _episode(args)
    watch(env, args.agent, args.agent_seed, screen(), args.delay)
    if args.save is not None:
        args.save.write_text(env.transcript().to_jsonl())
    return 0


def _replay(args: Namespace) -> int:
    """Play transcripts again and check that every line follows from the task and the calls."""
    code = 0
    for path in args.files:
        try:
            env = replay(_transcript(path))
        except ReplayDiffers as difference:
            print(f"{path}: differs, {difference}")
            code = max(code, 1)
        except (Misuse, BadTask, BadDose, BadChoice) as mistake:
            print(f"companyos: {mistake}", file=sys.stderr)
            code = 2
        else:
            ended = {None: "unfinished", True: "success", False: "failure"}[env.success]
            print(f"{path}: as recorded, {env.step_count} steps, {ended}, {env.task_id}")
    return code


def _demo(args: Namespace) -> int:
    """Watch an expert and a random agent, and hear what to try next."""
    from companyos.cli.terminal import screen, watch

    console = screen()
    task = task_named("vendor_onboarding", 34, 0.5)
    delay = 0.15 if console.is_terminal else 0.0
    watch(CompanyEnv(task), "random", 11, console, delay / 3, replies=False)
    print()
    watch(CompanyEnv(task), "expert", 0, console, delay)
    command = "companyos" if shutil.which("companyos") else sys.argv[0]
    print(NEXT.format(task=task, companyos=command))
    return 0


# -- proofs ------------------------------------------------------------------------------------------------------------


def _prove(args: Namespace) -> int:
    """Prove that every task can be done from what one is told, and that twins can be told apart in time."""
    from companyos.cli.terminal import screen, show_proofs, with_bar

    task_ids, began = list(_task_ids(args)), time.monotonic()
    # All doses of a seed go to one process: they share what is staged.
    proofs = check_all(task_ids, args.workers, not args.no_twins, together=len(args.chaos))
    checked = list(with_bar(proofs, len(task_ids), "proving"))
    show_proofs(checked, not args.no_twins, screen())
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"{minutes} min {seconds} s on {args.workers} process{'es' * (args.workers > 1)}", file=sys.stderr)
    return 1 if any(one.fault for one in checked) else 0


def _floor(args: Namespace) -> int:
    """Measure what can be had without doing the work, and write it down."""
    from companyos.assurance.floor import jobs, measure, report
    from companyos.cli.terminal import with_bar

    names = _families(args)
    tallies = list(with_bar(measure(names, args.episodes, args.workers), len(jobs(names, args.episodes)), "playing"))
    page = report(tallies, names, args.episodes)
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(page)
    except OSError as error:
        raise Misuse(f"cannot write {args.out}: {error.strerror}") from None
    print(f"{page}\nWritten to {args.out}.")
    return 0


def _families(args: Namespace) -> list[str]:
    names = list(ROUND) if args.families == "all" else args.families.split(",")
    for name in names:
        family(name)
    return names


def _task_ids(args: Namespace) -> Iterator[str]:
    names = _families(args)
    for name in names:
        for seed in args.seeds:
            for dose in args.chaos:
                yield str(task_named(name, seed, dose, args.split))


def _regrade(args: Namespace) -> int:
    """Judge all transcripts (*.jsonl) under a folder again and show whose verdict has changed."""
    from companyos.assurance.regrade import CHANGED, OTHER_WORLD, regrade_all
    from companyos.cli.terminal import screen, show_regraded, with_bar

    paths = sorted(args.folder.rglob("*.jsonl"))
    if not paths:
        raise Misuse(f"{args.folder}: {'no *.jsonl in it' if args.folder.is_dir() else 'no such folder'}")
    files = list(with_bar(regrade_all(paths), len(paths), "judging"))
    show_regraded(files, screen())
    return 1 if any(file.outcome in (CHANGED, OTHER_WORLD) for file in files) else 0


# -- evaluation --------------------------------------------------------------------------------------------------------


def _compare(args: Namespace) -> int:
    """Compare two runs (folders of transcripts) task by task: by how much the second differs from the first."""
    from companyos.cli.terminal import screen
    from companyos.evaluate.reports.tables import comparison_table
    from companyos.evaluate.stats.compare import compare

    found = compare(_outcomes(args.first), _outcomes(args.second))
    if found is None:
        raise Misuse(f"{args.first} and {args.second} share the tasks of fewer than two seeds; there is nothing to compare")
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        screen().print(comparison_table(found))
    return 0


def _blame(args: Namespace) -> int:
    """Find the call at which each episode was lost, and what its agent had not looked at."""
    from companyos.cli.terminal import screen, with_bar
    from companyos.evaluate.judge.blame import blame, sheet
    from companyos.evaluate.reports.tables import blame_table, sheet_table

    paths = _transcripts(args.place)
    found = [_judged(path, blame) for path in with_bar(paths, len(paths), "looking")]
    if args.json:
        print(msgspec.json.format(msgspec.json.encode({"sheet": sheet(found), "episodes": found})).decode())
    else:
        screen().print(blame_table(found) if len(found) == 1 else sheet_table(sheet(found)))
    return 0


def _outcomes(folder: Path) -> "list[Outcome]":
    from companyos.cli.terminal import with_bar
    from companyos.evaluate.judge.outcome import judge

    paths = _transcripts(folder)
    return [_judged(path, judge) for path in with_bar(paths, len(paths), "judging")]


def _transcripts(place: Path) -> list[Path]:
    """A file, or the episodes of a run, or all transcripts under a folder."""
    from companyos.evaluate.runs.episode_file import transcripts

    found = transcripts(place) if place.is_dir() else [place]
    if not found:
        raise Misuse(f"{place}: no *.jsonl in it")
    return found


def _judged(path: Path, judge: Callable[[Transcript], T]) -> T:
    try:
        return judge(_transcript(path))
    except (ReplayDiffers, BadTask, BadDose) as difference:
        raise Misuse(f"{path}: {difference}") from None


# -- datasets ----------------------------------------------------------------------------------------------------------


def _demos(args: Namespace) -> int:
    """Write episodes as a dataset, one a line: work done right, put right after slips, and failed."""
    from companyos.cli.terminal import with_bar

    made = demos.episodes(args.n, _families(args), args.chaos, args.split, args.mix, args.seed, args.reward, args.held_out)
    row = demos.FORMATS[args.format]
    with _output(args.out) as file:
        # Rows that scroll over a screen say themselves how far it is.
        for demo in made if file.isatty() else with_bar(made, args.n, "working"):
            file.write(msgspec.json.encode(row(demo)).decode() + "\n")
    return 0


@contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    try:
        file = path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise Misuse(f"cannot write {path}: {error.strerror}") from None
    with file:
        yield file


# -- the server --------------------------------------------------------------------------------------------------------


def _serve(args: Namespace) -> int:
    """Serve episodes over HTTP. What has no flag here is set by COMPANYOS_* variables; tokens are, always."""
    try:
        from companyos.serve.run import serve
    except ModuleNotFoundError as missing:
        raise Misuse(f'serving needs {missing.name}: pip install "companyos[serve]"') from None
    from companyos.serve.ops.settings import BadSetting

    given = {
        name: getattr(args, name) for name in ("host", "port", "ledger", "fsync", "workers", "log_format", "results", "exam")
    }
    try:
        serve({name: value for name, value in given.items() if value is not None}, "companyos.web.app:create")
    except BadSetting as mistake:
        raise Misuse(str(mistake)) from None
    return 0


def _mcp(args: Namespace) -> int:
    """Serve the company's tools to one MCP host, over stdin and stdout."""
    try:
        from companyos.serve.mcp.stdio import serve
    except ModuleNotFoundError as missing:
        raise Misuse(f'MCP needs {missing.name}: pip install "companyos[serve]"') from None
    from companyos.serve.ops.settings import BadSetting

    try:
        flags = {name: getattr(args, name) for name in ("ledger", "mcp_episodes")}
        chosen = {name: getattr(args, name) for name in ("task", "seed", "chaos", "split", "reward")}
        serve(args.session, {name: value for name, value in flags.items() if value is not None}, chosen)
    except BadSetting as mistake:
        raise Misuse(str(mistake)) from None
    return 0


# -- lists -------------------------------------------------------------------------------------------------------------


def _tasks(args: Namespace) -> int:
    """List task ids, one a line."""
    for task_id in _task_ids(args):
        print(task_id)
    return 0


def _tools(args: Namespace) -> int:
    """List the tools, of every episode or of one, as a table or as OpenAI functions."""
    from companyos.cli.terminal import screen, tool_table

    toolbox = TOOLBOX if args.task is None else make(args.task).toolbox
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(toolbox.schemas)).decode())
    else:
        screen().print(tool_table(toolbox))
    return 0


def _twins(args: Namespace) -> int:
    """List the tasks that differ from one in a single cause, and what that changes."""
    from companyos.cli.terminal import screen, twin_table

    screen().print(twin_table(twins(make(args.task).task_id)))
    return 0


def _bench(args: Namespace) -> int:
    """Measure how fast it runs here."""
    from companyos.bench import speed as bench
    from companyos.bench.peers import race

    (race if args.peers else bench).main(args.rounds)
    return 0


# -- this installation -------------------------------------------------------------------------------------------------


def _doctor(args: Namespace) -> int:
    """Say what is installed here, what is missing, and what that would enable."""
    from importlib.metadata import PackageNotFoundError

    from companyos.cli import doctor
    from companyos.cli.terminal import screen
    from companyos.serve.ops.settings import BadSetting, Settings

    try:
        found = doctor.examine(Settings.read(os.environ))
    except BadSetting as mistake:
        raise Misuse(str(mistake)) from None
    except PackageNotFoundError:
        raise Misuse("companyos is on the path, but not installed: pip install -e . where its pyproject.toml is") from None
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        doctor.show(found, screen())
    return 0


def _completion(args: Namespace) -> int:
    """Print what a shell has to read in order to complete commands. In bash: eval "$(companyos completion bash)"."""
    from companyos.cli.completion import script

    print(script(args.shell, parser()), end="")
    return 0


# -- the command line --------------------------------------------------------------------------------------------------


def _seeds(text: str) -> range:
    first, colon, last = text.partition(":")
    if not (first.isdecimal() and (last.isdecimal() or not colon)):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of seeds; one looks like 0:100, or 7")
    seeds = range(int(first), int(last) if colon else int(first) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} is an empty range of seeds; the last one is left out, as in 0:100")
    return seeds


def _doses(text: str) -> list[float | str]:
    return [dose for part in text.split(",") for dose in (_EACH if part == "each" else (_dose(part),))]


_EACH = tuple(f"only_{dial}" for dial in DIALS)


def _dose(text: str) -> float | str:
    try:
        return text if text in PRESETS else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no dose from 0 to 1, nor one of {', '.join(PRESETS)}") from None


def _mix(text: str) -> dict[str, float]:
    shares = [part.partition("=") for part in text.split(",")]
    try:
        return {kind: float(share) for kind, _, share in shares}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no mix; one looks like expert=6,recovered=3,failed=1") from None


_TRAIN = "Train on it: by demonstrations, by reward; and see how that went."
_TASK = option("task", metavar="TASK", help="a task id, or a family (then its first seed)")
_FAMILIES = option(
    "--families", "--family", default="all", help="names with commas between; all: those that take turns, not a long one"
)
_DOSES = "doses or presets, with commas between; each: every dial alone, at 1"
_SPLIT = option("--split", default="train", choices=SPLITS)
_JSON = option("--json", action="store_true", help="as JSON")
_EPISODE = (
    _TASK,
    option("--seed", type=int, help="with a family: which of its tasks"),
    option("--chaos", type=_dose, help="with a family: the dose of trouble, 0 to 1, or a preset like monday, only_stale"),
    option("--split", choices=SPLITS, help="with a family"),
    option("--reward", choices=list(PROFILES), help="how the return is counted (default: seed)"),
)
Commands = dict[Callable[[Namespace], int], tuple[Argument, ...]]
COMMANDS: Commands = {
    _play: (
        *_EPISODE,
        option("--save", type=Path, metavar="FILE", help="keep the transcript here; an unfinished one is resumed"),
    ),
    _watch: (
        *_EPISODE,
        option("--agent", default="expert", help=f"one of {', '.join(AGENTS)}"),
        option("--agent-seed", type=int, default=0, help="the agent's own seed"),
        option("--delay", type=float, default=0.0, help="seconds between steps"),
        option("--save", type=Path, metavar="FILE", help="keep the transcript here"),
    ),
    _prove: (
        _FAMILIES,
        option("--seeds", type=_seeds, default=range(100), metavar="A:B", help="from A up to, not including, B"),
        option("--chaos", type=_doses, default=[0.0, 0.25, 0.5, 0.75, 1.0], metavar="X,Y", help=_DOSES),
        _SPLIT,
        option("--workers", type=count, default=2),
        option("--no-twins", action="store_true", help="leave the twins out"),
    ),
    _floor: (
        _FAMILIES,
        option("--episodes", type=count, default=500, help="a family and policy"),
        option("--workers", type=count, default=2),
        option("--out", type=Path, default=Path("docs/floor.md"), metavar="FILE"),
    ),
    _replay: (option("files", nargs="+", type=Path, metavar="FILE"),),
    _regrade: (option("folder", type=Path, metavar="DIR"),),
    _compare: (option("first", type=Path, metavar="A"), option("second", type=Path, metavar="B"), _JSON),
    _blame: (option("place", type=Path, metavar="TRANSCRIPT_OR_DIR"), _JSON),
    _demos: (
        option("--n", type=count, default=100, help="how many episodes"),
        option("--format", default="jsonl", choices=list(demos.FORMATS), help="transcripts, or messages and tools"),
        _FAMILIES,
        option("--chaos", type=_doses, default=[0.5], metavar="X,Y", help=_DOSES),
        _SPLIT,
        option("--held-out", action="store_true", help="for splits other than train: yes, it is meant"),
        option("--mix", type=_mix, default=demos.MIX, metavar="KIND=N,KIND=N", help=f"shares of {', '.join(demos.KINDS)}"),
        option("--seed", type=int, default=0, help="another one gives other episodes"),
        option("--reward", default="seed", choices=list(PROFILES), help="how the return is counted"),
        option("--out", type=Path, metavar="FILE", help="where to write them; else they are printed"),
    ),
    _tasks: (
        _FAMILIES,
        option("--seeds", type=_seeds, default=range(10), metavar="A:B"),
        option("--chaos", type=_doses, default=[0.0], metavar="X,Y", help=_DOSES),
        _SPLIT,
    ),
    _serve: (
        option("--host", help="whom to listen to (default: 127.0.0.1, this machine only)"),
        option("--port", help="(default: 8000)"),
        option(
            "--ledger",
            metavar="PLACE",
            help="keeps the sessions: a file (default: companyos.ledger), postgresql://... or none (memory only)",
        ),
        option("--fsync", action="store_const", const="true", help="survive a power cut, too"),
        option("--workers", metavar="N", help="processes that share the ledger (default: 1)"),
        option("--log-format", choices=("text", "json")),
        option("--results", metavar="DIR", help="a folder of runs that the gallery shows: evaluations and training logs"),
        option(
            "--exam",
            action="store_const",
            const="true",
            help="serve agents only: no task ids, rewards or verdicts, and one attempt per task and token",
        ),
    ),
    _mcp: (
        option("task", metavar="TASK", nargs="?", help="what to begin: a task id, or a family (default: vendor_onboarding)"),
        *_EPISODE[1:],
        option(
            "--episodes",
            dest="mcp_episodes",
            action="store_const",
            const="true",
            help="let the model begin episodes itself, with the tool episode_begin",
        ),
        option("--ledger", metavar="FILE", help="keeps the episodes (default: none, in memory only)"),
        option("--session", metavar="NAME", help="with a ledger: goes on where the last one of this name ended"),
    ),
    _tools: (
        option("task", metavar="TASK", nargs="?", help="a task id: the tools that its episode offers"),
        option("--json", action="store_true", help="as OpenAI functions"),
    ),
    _twins: (_TASK,),
    **MEASURING,
    _bench: (
        option("--rounds", type=count, default=7),
        option("--peers", action="store_true", help="against environments of others, those that are installed"),
    ),
    _demo: (),
    _doctor: (_JSON,),
    _completion: (option("shell", choices=("bash", "zsh", "fish")),),
}
