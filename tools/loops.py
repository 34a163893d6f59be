"""Compare the cost of an update in TRL's loop and in the lean loop, on the same tasks.

    python -m tools.loops MODEL [--trained DIR] [--limit N] [--tasks N] [--group N] [--updates N] [--family NAME]

TRL's loop needs a model that makes native tool calls; an untrained model would end every episode at once. So the model
generates as many tokens as the expert's next call has, and then these tokens are replaced by the expert's call. Everything
else is TRL's, including the update. The rewards must equal those of the expert outside TRL. The lean loop needs no
replacement: DIR is a trained model, which plays the same tasks itself.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import trl
from trl import GRPOTrainer

from companyos.env import make, run_expert
from companyos.train.loops import trl_loop
from companyos.train.loops.grpo import GrpoRecipe, GrpoRun
from companyos.train.loops.trl_loop import rows
from companyos.train.loops.trl_plan import TrlPlan, carry_out
from companyos.train.model.models import LORA_RANK, device_named, load
from companyos.train.runs.journal import records

_TEMPLATE = "qwen2_5"  # a chat template from which TRL can parse tool calls
_ENDS = "<|im_end|>"


def with_tools(name: str, folder: Path) -> Path:
    """Save a model with a chat template for tool calls."""
    learner = load(name)
    templates = Path(trl.__file__).parent / "chat_templates"
    learner.tokenizer.chat_template = (templates / f"{_TEMPLATE}.jinja").read_text("utf-8")
    learner.tokenizer.eos_token = _ENDS
    learner.model.save_pretrained(folder)
    learner.tokenizer.save_pretrained(folder)
    return folder


def with_expert_calls(trainer: type[GRPOTrainer]) -> type[GRPOTrainer]:
    """Return a trainer that replaces generated tokens by the expert's calls, after generating as many."""

    class Prompted(trainer):  # type: ignore[misc]
        scripts: dict[int, list[list[int]]] = {}  # by rollout, the calls that are left
        generated = 0  # tokens

        def _generate_single_turn(self, prompt_ids: list[list[int]], *args: Any, **named: Any) -> tuple[Any, None]:
            if not any(self.scripts.values()):
                calls = {episode.task_id: words(self.processing_class, episode.task_id) for episode in self.environments}
                self.scripts = {n: list(calls[one.task_id]) for n, one in enumerate(self.environments)}
            lines = [left.pop(0) for left in self.scripts.values() if left]
            most = max(map(len, lines))
            self.generation_config.min_new_tokens = self.generation_config.max_new_tokens = most
            super()._generate_single_turn(prompt_ids, *args, **named)
            Prompted.generated += sum(map(len, lines))
            return lines, None

    return Prompted


def words(tokenizer: Any, task_id: str) -> list[list[int]]:
    """Return the expert's calls of a task as tokens."""
    calls = [turn.call for turn in worked(task_id).turns]
    texts = [json.dumps({"name": f"{call.app}_{call.method}", "arguments": call.params}) for call in calls]
    lines = [*(f"<tool_call>\n{text}\n</tool_call>{_ENDS}" for text in texts), f"That is all.{_ENDS}"]
    return [tokenizer.encode(line) for line in lines]


def worked(task_id: str) -> Any:
    env = make(task_id, reward="score")
    run_expert(env)
    return env


def by_trl(plan: TrlPlan) -> list[str]:
    """Run TRL's loop, check its rewards, and return a line for each update."""
    prompted = with_expert_calls(GRPOTrainer)
    with patch.object(trl_loop, "GRPOTrainer", prompted):
        carry_out(plan)
    asked = [row["task_id"] for row in rows(plan)]
    found = list(records(plan.out))
    lines = []
    for number, record in enumerate(found):
        tasks = asked[number * plan.tasks : (number + 1) * plan.tasks]
        expected = fmean(worked(task_id).turns[-1].reward for task_id in tasks)
        assert abs(record["score"] - expected) < 1e-6, (record["score"], expected)
        turns, tokens = record["turns"], prompted.generated / len(found)
        lines.append(_line("trl", number, record["seconds"], plan.batch, turns, tokens, record["score"]))
    return lines


def by_lean(model: str, plan: TrlPlan, limit: int) -> list[str]:
    recipe = GrpoRecipe(
        families=plan.families, tasks=plan.tasks, group=plan.group, doses=(plan.dose,), rows=plan.batch, patience=12
    )
    lean = GrpoRun(load(model, device_named(plan.device), "lora")._replace(limit=limit), recipe)
    lines = []
    for number in range(plan.updates):
        record = lean.update()
        tokens = record["tokens_per_second"] * record["rollout_seconds"]
        lines.append(_line("lean", number, record["seconds"], plan.batch, record["turns"], tokens, record["reward"]))
    return lines


def _line(loop: str, number: int, seconds: float, episodes: int, turns: float, tokens: float, reward: float) -> str:
    paces = {"episodes": episodes, "turns": episodes * turns, "generated tokens": tokens}
    pace = ", ".join(f"{count / seconds:.2g} {what}/s" for what, count in paces.items())
    return f"{loop} update {number}: {seconds:.1f} s, {episodes} episodes of {turns:.1f} turns, {pace}, reward {reward:.3f}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--trained", default="")
    parser.add_argument("--limit", type=int, default=2048)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--family", default="vendor_onboarding")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        plan = TrlPlan(
            model=str(with_tools(args.model, Path(place) / "model")),
            out=Path(place) / "run",
            updates=args.updates,
            tasks=args.tasks,
            group=args.group,
            at_once=min(8, args.tasks * args.group),
            families=(args.family,),
            dose=0.0,
            tokens=8000,
        )
        print(f"LoRA of rank {LORA_RANK} on {device_named(plan.device)}; TRL {trl.__version__}", flush=True)
        for line in by_trl(plan):
            print(line, flush=True)
        for line in by_lean(args.trained, plan, args.limit) if args.trained else ():
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
