"""Commands about this installation: tools, speed, what is installed, and shell completion."""

import os
from argparse import Namespace

from companyos.cli.options import JSON, Commands, count, option, print_json
from companyos.company import TOOLBOX
from companyos.core.errors import Misuse
from companyos.env import make


def _tools(args: Namespace) -> int:
    """List the tools of all episodes, or of one task, as a table or as OpenAI functions.

    Example: companyos tools --json
    """
    from companyos.cli.terminal import screen, tool_table

    toolbox = TOOLBOX if args.task is None else make(args.task).toolbox
    if args.json:
        print_json(toolbox.schemas)
    else:
        screen().print(tool_table(toolbox))
    return 0


def _bench(args: Namespace) -> int:
    """Measure how fast the environment runs here.

    Example: companyos bench --rounds 3
    """
    from companyos.bench import speed
    from companyos.bench.peers import race

    (race if args.peers else speed).main(args.rounds, as_json=args.json)
    return 0


def _doctor(args: Namespace) -> int:
    """Say what is installed, what is missing, and what that would enable.

    Example: companyos doctor
    """
    from importlib.metadata import PackageNotFoundError

    from companyos.cli import doctor
    from companyos.cli.terminal import screen
    from companyos.serve.ops.settings import BadSetting, Settings

    try:
        findings = doctor.examine(Settings.read(os.environ))
    except BadSetting as mistake:
        raise Misuse(str(mistake)) from None
    except PackageNotFoundError:
        raise Misuse("companyos is on the path, but not installed: run pip install -e . in its checkout") from None
    if args.json:
        print_json(findings)
    else:
        doctor.show(findings, screen())
    return 0


def _completion(args: Namespace) -> int:
    """Print the completion script of a shell. In bash: eval "$(companyos completion bash)".

    Example: companyos completion zsh > _companyos
    """
    from companyos.cli.completion import script

    print(script(args.shell, args.commands), end="")
    return 0


COMMANDS: Commands = {
    _tools: (
        option("task", metavar="TASK", nargs="?", help="a task id: the tools that its episode offers (default: all tools)"),
        option("--json", action="store_true", help="print them as OpenAI functions"),
    ),
    _bench: (
        option("--rounds", type=count, default=7, help="number of rounds, of which the median counts"),
        option("--peers", action="store_true", help="race against other environments that are installed"),
        JSON,
    ),
    _doctor: (JSON,),
    _completion: (option("shell", choices=("bash", "zsh", "fish"), help="the shell"),),
}
