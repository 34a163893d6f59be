"""Settings of training with TRL, and checks that run before any large library is loaded."""

import math
import os
from argparse import Namespace
from collections.abc import Callable
from http.client import HTTPException
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from companyos.chaos import DIALS, doses_of
from companyos.core.errors import BadChoice, Misuse, install_hint
from companyos.families import SHORT_FAMILIES, family
from companyos.integrations.client import Company, ServerError
from companyos.train.model.models import SMOLLM2, check_model
from companyos.train.runs.journal import Journal

BACKENDS = ("trl", "unsloth")
_NEEDED_MODULES = ("torch", "transformers", "trl", "peft", "datasets")
_CHANGEABLE_SETTINGS = ("out", "updates", "device", "url", "token_env")  # when a run is resumed


class TrlPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a GRPO run with TRL's own trainer."""

    model: str  # as `--model` takes it
    out: Path
    backend: str = "trl"
    updates: int = 200
    tasks: int = 8  # per update
    group: int = 16  # rollouts of each task
    at_once: int = 8  # rollouts in one backward pass
    families: tuple[str, ...] = SHORT_FAMILIES
    dose: float = 0.25
    seed: int = 0
    rate: float = 1e-4
    full: bool = False  # train all weights instead of an adapter
    tokens: int = 4096  # most tokens of an episode, replies included
    device: str = "auto"
    url: str = ""  # URL of a server; without one, episodes are played in this process
    token_env: str = ""  # environment variable with the server's token

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that must not change when a run is resumed. Its length, folder, device and server may change."""
        fixed = {name: value for name, value in msgspec.structs.asdict(self).items() if name not in _CHANGEABLE_SETTINGS}
        return {"loop": "trl", **fixed, "families": list(self.families)}

    @property
    def batch(self) -> int:
        """How many episodes are played at the same time."""
        return self.tasks * self.group

    @property
    def chaos(self) -> dict[str, float]:
        """The dose of every dial except `tool_clutter`: TRL shows the same tools in all episodes."""
        return {dial: self.dose for dial in DIALS if dial != "tool_clutter"}

    @property
    def max_calls(self) -> int:
        """The largest step budget of the families."""
        doses = doses_of(self.chaos)
        return max(family(name).budget(doses) for name in self.families)

    @property
    def token(self) -> str:
        return os.environ.get(self.token_env, "") if self.token_env else ""


def plan_of(args: Namespace, families: tuple[str, ...]) -> TrlPlan:
    """Return the plan for command-line arguments. There is no curriculum: the first dose is used."""
    given = {name: getattr(args, name) for name in TrlPlan.__struct_fields__ if getattr(args, name, None) is not None}
    return TrlPlan(**given | {"families": families, "dose": args.doses[0]})


def carry_out(plan: TrlPlan, tracker: str = "", minutes: float = math.inf) -> int:
    """Train, or continue a run, for at most `minutes`. Return the number of updates so far."""
    check(plan)
    journal = Journal(plan.out, plan.identity, tracker)
    from companyos.train.loops.trl_loop import train  # loads TRL and torch

    try:
        return train(plan, journal, minutes)
    finally:
        journal.close()


def check(plan: TrlPlan) -> None:
    """Raise `Misuse` with one line if a plan cannot be carried out. The slowest checks come last."""
    if plan.backend not in BACKENDS:
        raise BadChoice("backend", plan.backend, BACKENDS)
    if plan.group < 2:
        raise Misuse("--group takes 2 rollouts or more: each is compared with the others")
    if plan.batch % plan.at_once:
        raise Misuse(f"--at-once {plan.at_once} does not divide the {plan.batch} rollouts of an update")
    doses_of(plan.chaos)
    for name in plan.families:
        family(name)
    check_libraries()
    check_model(plan.model)
    if plan.url:
        check_server(plan)
    if plan.backend == "unsloth":
        check_unsloth()
    check_template(plan.model)


def check_libraries(find: Callable[[str], object] = find_spec) -> None:
    """Raise `Misuse` if a module is not installed. Tests pass another `find`."""
    missing = [name for name in _NEEDED_MODULES if find(name) is None]
    if missing:
        raise Misuse(f"--loop trl needs {missing[0]}: {install_hint('train')}")


def check_server(plan: TrlPlan) -> None:
    """Raise `Misuse` if the server does not answer or has not enough room for an update."""
    if plan.token_env and not plan.token:
        raise Misuse(f"the variable {plan.token_env} must have the server's token, and is not set")
    try:
        with Company(plan.url, plan.token, retry_seconds=0) as company:
            capacity = company.capacity()
    except (ValueError, OSError, HTTPException, ServerError) as error:
        raise Misuse(f"no CompanyOS server at {plan.url}: {error}") from None
    if plan.batch > capacity:
        raise Misuse(
            f"an update has {plan.tasks} × {plan.group} = {plan.batch} episodes at a time, and the server takes {capacity}: "
            f"lower --tasks, or start it with COMPANYOS_CAPACITY={plan.batch}"
        )


def check_unsloth(find: Callable[[str], object] = find_spec) -> None:
    """Raise `Misuse` if there is no GPU or unsloth is not installed; otherwise import it."""
    import torch

    if not torch.cuda.is_available():
        raise Misuse("--backend unsloth needs a GPU, and there is none: take --backend trl, which trains on CPU as well")
    if find("unsloth") is None:
        raise Misuse(
            "--backend unsloth needs it: pip install -e . -r requirements-unsloth.txt, in an environment of its own"
        )
    import_module("unsloth")  # it patches the other libraries, so it must be imported before them


def check_template(model: str) -> None:
    """Raise `Misuse` if TRL cannot parse tool calls in this model's chat template. Only the tokenizer is loaded."""
    from transformers import AutoTokenizer
    from trl.chat_template_utils import add_response_schema, supports_tool_calling

    if model == SMOLLM2:
        raise _unsupported_template(model, "it cannot write tool calls")
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise Misuse(f"no tokenizer of {model}: {_first_line(error)}") from None
    has_parser = getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None)
    try:
        if tokenizer.chat_template is None or not supports_tool_calling(tokenizer):
            raise ValueError("it cannot write tool calls")
        if not has_parser:
            add_response_schema(tokenizer)
    except ValueError as error:
        raise _unsupported_template(model, _first_line(error)) from None


def _unsupported_template(model: str, why: str) -> Misuse:
    return Misuse(
        f"TRL cannot parse the chat template of {model} ({why}): take a model whose template it knows, such as Qwen2.5, "
        "Qwen3 or Llama 3, set tokenizer.response_template, or train with --loop lean, which needs none"
    )


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
