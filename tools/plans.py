"""Write the episodes that OpenEnv's validation plays to validation/: `python -m tools.plans`.

`runtime.json` is a whole episode of the expert. `canaries.json` has one episode of each blind adversary, over all families
in turn; they do no work and must earn almost no reward.
"""

import json
from itertools import cycle
from pathlib import Path
from typing import Any

from companyos.agents import play
from companyos.agents.adversaries import ADVERSARIES
from companyos.core.calls import Call
from companyos.env import make, run_expert, task_named
from companyos.families import FAMILIES

FOLDER = Path(__file__).parents[1] / "validation"
SEED, CHAOS = 7, 0.5
CANARY_SEED = 3  # another seed than those from which scripts are copied


def runtime() -> dict[str, Any]:
    family = next(iter(FAMILIES))
    env = make(family, seed=SEED, chaos=CHAOS)
    run_expert(env)
    options = {"task": family, "chaos": CHAOS, "reward": "score"}
    return {
        "plan_schema_version": "1",
        "reset": {"episode_id": "validation", "seed": SEED, "options": options},
        "actions": [_action(turn.call) for turn in env.turns],
    }


def canaries() -> list[dict[str, Any]]:
    blind = [adversary for adversary in ADVERSARIES.values() if adversary.group == "blind"]
    return [
        {
            "policy": adversary.name,
            "task": (task_id := str(task_named(family, CANARY_SEED, CHAOS))),
            "actions": [_action(turn.call) for turn in play(make(task_id), adversary.make(0)).turns],
        }
        for adversary, family in zip(blind, cycle(FAMILIES))
    ]


def written(plan: Any) -> str:
    """Return a plan as readable JSON with one action a line."""
    text = json.dumps(plan, ensure_ascii=False)
    return text.replace('{"app"', '\n  {"app"').replace('{"policy"', '\n{"policy"') + "\n"


def _action(call: Call) -> dict[str, Any]:
    return {"app": call.app, "method": call.method, "params": call.params}


def main() -> None:
    (FOLDER / "runtime.json").write_text(written(runtime()))
    (FOLDER / "canaries.json").write_text(written(canaries()))


if __name__ == "__main__":
    main()
