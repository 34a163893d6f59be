"""Commands that start servers: HTTP and MCP."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from companyos.cli.options import EPISODE, Commands, option
from companyos.core.errors import Misuse, install_hint

if TYPE_CHECKING:
    from fastapi import FastAPI

    from companyos.serve.ops.settings import Settings


def _serve(args: Namespace) -> int:
    """Serve episodes over HTTP. COMPANYOS_* variables set what has no flag here, and always the tokens.

    Example: companyos serve --port 8001 --results runs
    """
    try:
        from companyos.serve.run import serve
    except ModuleNotFoundError as missing:
        raise Misuse(f"serving needs {missing.name}: {install_hint('serve')}") from None
    from companyos.serve.ops.settings import BadSetting

    flags = ("host", "port", "ledger", "fsync", "workers", "log_format", "results", "exam", "study", "study_out")
    try:
        given = _given(args, flags) | _watched_agents(args.agent or [])
        serve(given, "companyos.cli.serve:create_app", _check_study)
    except BadSetting as mistake:
        raise Misuse(str(mistake)) from None
    return 0


def _check_study(settings: "Settings") -> None:
    """Open the run folder of a study, so that a wrong suite or folder is one line and not a traceback of the server."""
    if settings.study:
        from companyos.evaluate.runs.run import BadRun
        from companyos.evaluate.runs.study import StudyRun
        from companyos.evaluate.suites.suite import suite

        try:
            StudyRun(Path(settings.study_out), suite(settings.study))
        except (BadRun, OSError) as mistake:
            raise Misuse(str(mistake)) from None


def _watched_agents(names: list[str]) -> dict[str, str]:
    """Return the setting for the agents that visitors may watch: the given ones, or the trained model of this checkout."""
    from companyos.cli.agents import add_trained_models, trained_model_here
    from companyos.evaluate.runs.roster import agent_named

    add_trained_models()
    for name in names:
        agent_named(name).open()  # fail before the server starts
    offered = names or [name for name in (trained_model_here(),) if name]
    return {"agents": ",".join(offered)} if offered else {}


def create_app() -> "FastAPI":
    """Return the app with its pages, whose visitors can also watch trained models. Each worker process calls this."""
    from companyos.cli.agents import add_trained_models
    from companyos.web.app import create

    add_trained_models()
    return create()


def _mcp(args: Namespace) -> int:
    """Serve the company's tools to one MCP host, over stdin and stdout.

    Example: companyos mcp vendor_onboarding --seed 7 --chaos 0.5
    """
    try:
        from companyos.serve.mcp.stdio import serve
    except ModuleNotFoundError as missing:
        raise Misuse(f"MCP needs {missing.name}: {install_hint('serve')}") from None
    from companyos.serve.ops.settings import BadSetting

    try:
        reset_fields = {name: getattr(args, name) for name in ("task", "seed", "chaos", "split", "size", "reward")}
        serve(args.session, _given(args, ("ledger", "mcp_episodes")), reset_fields)
    except BadSetting as mistake:
        raise Misuse(str(mistake)) from None
    return 0


def _given(args: Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options that the user gave."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


COMMANDS: Commands = {
    _serve: (
        option("--host", help="address to listen on (default: 127.0.0.1, this machine only)"),
        option("--port", help="port to listen on (default: 8000)"),
        option(
            "--ledger",
            metavar="PLACE",
            help="where sessions are stored: a file (default: companyos.ledger), postgresql://... or none (memory only)",
        ),
        option("--fsync", action="store_const", const="true", help="survive a power cut, too"),
        option("--workers", metavar="N", help="processes that share the ledger (default: 1)"),
        option("--log-format", choices=("text", "json"), help="text, or one JSON object per line (default: text)"),
        option(
            "--agent",
            action="append",
            metavar="NAME",
            help="another agent that visitors may watch, such as tiny:FILE; can be repeated (default: none)",
        ),
        option(
            "--results",
            metavar="DIR",
            help="a folder of runs that the gallery shows: evaluations and training logs (default: none)",
        ),
        option(
            "--exam",
            action="store_const",
            const="true",
            help="serve agents only: no task ids, rewards or verdicts, and one attempt per task and token",
        ),
        option(
            "--study",
            metavar="SUITE",
            nargs="?",
            const="smoke",
            help="hand out the tasks of a suite or a file of task ids to people; without SUITE: smoke (default: no study)",
        ),
        option("--study-out", metavar="DIR", help="folder of the run with the people's episodes (default: runs/people)"),
    ),
    _mcp: (
        option("task", metavar="TASK", nargs="?", help="a task id, or a family (default: vendor_onboarding)"),
        *EPISODE[1:],
        option(
            "--episodes",
            dest="mcp_episodes",
            action="store_const",
            const="true",
            help="let the model start episodes itself, with the tool episode_begin",
        ),
        option("--ledger", metavar="FILE", help="where episodes are stored (default: none, in memory only)"),
        option("--session", metavar="NAME", help="with a ledger: continue the episode of this name (default: a new one)"),
    ),
}
