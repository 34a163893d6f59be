"""How commands name agents: the kinds beyond those of `companyos.evaluate`, and the options of language models."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from companyos.cli.options import count, option
from companyos.core.errors import Misuse, install_hint

if TYPE_CHECKING:
    from companyos.agents import Agent
    from companyos.core.calls import Call
    from companyos.env.observations import Observation
    from companyos.evaluate.runs.roster import AgentFactory

_ENDPOINT = "openai:"
_LOCAL = "local:"
_LOCAL_OPTIONS = ("temperature", "repeats")
_ENDPOINT_OPTIONS = (
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

_MODEL = Path("results/fifth/model")


def add_trained_models() -> None:
    """Make `local:DIR`, a model on this machine, an agent that can be measured."""
    from companyos.evaluate.runs.roster import add_agent_kind

    add_agent_kind("local", "DIR", _local)


def trained_model_here() -> str:
    """Return the name of the trained model of this checkout, or an empty text if this machine cannot run it."""
    if not _MODEL.is_dir() or find_spec("torch") is None:
        return ""
    return "" if _local(str(_MODEL), {}).lacks((), 1) else f"local:{_MODEL}"


def _local(folder: str, options: Mapping[str, str]) -> "AgentFactory":
    from companyos.train.runs.local import open_local  # imported only when it is asked for: it takes time

    return open_local(folder, options)


def agent_for(args: Namespace, task_id: str) -> "Agent":
    """Return the agent that `--agent` names, for one episode of this task. `--agent-seed` is its random seed."""
    from companyos.agents import AGENTS, make
    from companyos.evaluate.runs.roster import agent_named

    add_trained_models()
    options = model_options(args)
    if args.agent in AGENTS:
        return make(args.agent, args.agent_seed)
    factory = agent_named(args.agent, options).open()
    missing = factory.lacks([task_id], args.agent_seed + 1)
    if missing:
        raise Misuse(missing)
    return _Unrewarded(factory.agent(task_id, args.agent_seed))


class _Unrewarded:
    """An agent that sees no rewards, as in `eval`."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent

    def act(self, obs: "Observation") -> "Call":
        from companyos.evaluate.runs.run import unrewarded

        return self._agent.act(unrewarded(obs))


def model_options(args: Namespace) -> tuple[tuple[str, str], ...]:
    """Return the options for a language model. Other agents take none of them."""
    given = {name: value for name in (*_ENDPOINT_OPTIONS, "repeats") if (value := getattr(args, name, None)) is not None}
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
        raise Misuse(f"a language model needs {missing.name}: {install_hint('llm')}") from None
    given.pop("concurrency", None)
    if given.pop("text", False):
        given["form"] = "text"
    if "price" in given:
        given["price_in"], given["price_out"] = given.pop("price")
    return tuple((name, str(value)) for name, value in given.items())


# -- options -----------------------------------------------------------------------------------------------------------


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


MODEL_OPTIONS = (
    option(
        "--base-url", metavar="URL", help="for openai:MODEL: the endpoint, such as http://127.0.0.1:8080/v1 (default: none)"
    ),
    option(
        "--api-key-env",
        metavar="NAME",
        help="for openai:MODEL: the environment variable that holds its key (default: no key)",
    ),
    option("--text", action="store_true", default=None, help="for openai:MODEL: ask for lines of text, not for tool calls"),
    option(
        "--temperature",
        type=_amount,
        metavar="X",
        help="for openai:MODEL and local:DIR: of sampling (default: the endpoint's own; 0 for local:DIR)",
    ),
    option(
        "--repeats",
        type=count,
        metavar="N",
        help="for local:DIR: sample again a call that has had the same reply N times (default: never)",
    ),
    option("--max-tokens", type=count, metavar="N", help="for openai:MODEL: per answer (default: 2048)"),
    option(
        "--context",
        type=count,
        metavar="N",
        help="for openai:MODEL: the context window, answer included (default: 32768)",
    ),
    option("--timeout", type=_amount, metavar="SECONDS", help="for openai:MODEL: per request (default: 120)"),
)
RUN_OPTIONS = (  # of a run of many episodes
    option(
        "--price",
        type=_price,
        metavar="IN,OUT",
        help="for openai:MODEL: price of a million tokens read and written (default: 0,0)",
    ),
    option("--concurrency", type=count, metavar="N", help="for openai:MODEL: concurrent episodes (default: --workers)"),
)
