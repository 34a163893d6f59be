"""Plans for TRL: what is to be trained and how, and why it cannot be, said before anything heavy is loaded."""

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
from companyos.core.errors import BadChoice, Misuse
from companyos.families import SHORT_FAMILIES, family
from companyos.integrations.client import Company, ServerError
from companyos.train.model.models import SMOLLM2, check_model
from companyos.train.runs.journal import Journal

BACKENDS = ("trl", "unsloth")
_NEEDED = ("torch", "transformers", "trl", "peft", "datasets")
_MAY_CHANGE = ("out", "updates", "device", "url", "token_env")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A run of GRPO by TRL's own trainer."""

    model: str  # as `--model` takes it
    out: Path
    backend: str = "trl"
    updates: int = 200
    tasks: int = 8  # of an update
    group: int = 16  # rollouts of each
    at_once: int = 8  # rollouts that are learnt from at a time
    families: tuple[str, ...] = SHORT_FAMILIES
    dose: float = 0.25
    seed: int = 0
    rate: float = 1e-4
    full: bool = False  # all weights are trained, not an adapter
    tokens: int = 4096  # of an episode: what the model writes and what it is answered
    device: str = "auto"
    url: str = ""  # of a server; without one, episodes are played in this process
    token_env: str = ""  # the variable that holds the server's token

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it this run and no other: it may be made longer, and played elsewhere."""
        kept = {name: value for name, value in msgspec.structs.asdict(self).items() if name not in _MAY_CHANGE}
        return {"loop": "trl", **kept, "families": list(self.families)}

    @property
    def batch(self) -> int:
        """How many episodes are under way at a time."""
        return self.tasks * self.group

    @property
    def chaos(self) -> dict[str, float]:
        """A dose for every dial but one: TRL shows the same tools in all episodes, so none has clutter among them."""
        return {dial: self.dose for dial in DIALS if dial != "tool_clutter"}

    @property
    def most_calls(self) -> int:
        """As many as the longest budget has."""
        doses = doses_of(self.chaos)
        return max(family(name).budget(doses) for name in self.families)

    @property
    def token(self) -> str:
        return os.environ.get(self.token_env, "") if self.token_env else ""


def plan_of(args: Namespace, families: tuple[str, ...]) -> Plan:
    """The plan that a command line says. There is no curriculum: of several doses it is the first."""
    named = {name: said for name in Plan.__struct_fields__ if (said := getattr(args, name, None)) is not None}
    return Plan(**named | {"families": families, "dose": args.doses[0]})


def carry_out(plan: Plan, tracker: str = "", minutes: float = math.inf) -> int:
    """Trains, or goes on with it, for this long at most; says after how many updates the run stands."""
    check(plan)
    journal = Journal(plan.out, plan.identity, tracker)
    from companyos.train.loops.trl_loop import train  # loads all of it

    try:
        return train(plan, journal, minutes)
    finally:
        journal.close()


def check(plan: Plan) -> None:
    """Says why a plan cannot be carried out, in one line: what takes longest to find out comes last."""
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


def check_libraries(found: Callable[[str], object] = find_spec) -> None:
    missing = [name for name in _NEEDED if found(name) is None]
    if missing:
        raise Misuse(f'--loop trl needs {missing[0]}: pip install "companyos[train]"')


def check_server(plan: Plan) -> None:
    if plan.token_env and not plan.token:
        raise Misuse(f"the variable {plan.token_env} is to hold the server's token, and is not set")
    try:
        with Company(plan.url, plan.token, retry_seconds=0) as company:
            capacity = company.capacity()
    except (ValueError, OSError, HTTPException, ServerError) as error:
        raise Misuse(f"no server of ours at {plan.url}: {error}") from None
    if plan.batch > capacity:
        raise Misuse(
            f"an update has {plan.tasks} × {plan.group} = {plan.batch} episodes at a time, and the server takes {capacity}: "
            f"lower --tasks, or start it with COMPANYOS_CAPACITY={plan.batch}"
        )


def check_unsloth(found: Callable[[str], object] = find_spec) -> None:
    import torch

    if not torch.cuda.is_available():
        raise Misuse("--backend unsloth needs a GPU, and there is none: take --backend trl, which trains on CPU as well")
    if found("unsloth") is None:
        raise Misuse(
            "--backend unsloth needs it: pip install -e . -r requirements-unsloth.txt, in an environment of its own"
        )
    import_module("unsloth")  # it changes the others, so it comes before them


def check_template(model: str) -> None:
    """Whether TRL can read calls in what a model with this chat template says. Only the tokenizer is loaded for that."""
    from transformers import AutoTokenizer
    from trl.chat_template_utils import add_response_schema, supports_tool_calling

    if model == SMOLLM2:
        raise _unread(model, "it cannot write tool calls")
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise Misuse(f"no tokenizer of {model}: {_first_line(error)}") from None
    known = getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None)
    try:
        if tokenizer.chat_template is None or not supports_tool_calling(tokenizer):
            raise ValueError("it cannot write tool calls")
        if not known:
            add_response_schema(tokenizer)
    except ValueError as error:
        raise _unread(model, _first_line(error)) from None


def _unread(model: str, why: str) -> Misuse:
    return Misuse(
        f"TRL cannot parse the chat template of {model} ({why}): take a model whose template it knows, such as Qwen2.5, "
        "Qwen3 or Llama 3, set tokenizer.response_template, or train with --loop lean, which needs none"
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
