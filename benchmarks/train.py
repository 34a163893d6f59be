"""Training: what an update of the lean loop takes, and how much of it is our own work: company, texts, tasks, verdicts.

python -m benchmarks.train --model smollm2 --tasks 4 --group 4 --longest-call 16

Calls are cut short on a processor: a model that has not learned to end its lines would ramble, and the less it says, the
larger our share.
"""

import argparse

from companyos.train.grpo import Lean, Recipe
from companyos.train.journal import Record
from companyos.train.models import device_named, load
from companyos.train.script import RESERVE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--families", default="vendor_onboarding", help="names with commas between")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--dose", type=float, default=0.25)
    parser.add_argument("--longest-call", type=int, default=RESERVE, help="in tokens")
    parser.add_argument("--updates", type=int, default=1)
    args = parser.parse_args()
    recipe = Recipe(
        families=tuple(args.families.split(",")),
        tasks=args.tasks,
        group=args.group,
        rows=args.rows,
        doses=(args.dose,),
        reserve=args.longest_call,
        reward="seed",  # teaches something, however bad the model
    )
    lean = Lean(load(args.model, device_named(args.device), "lora"), recipe)
    for _ in range(args.updates):
        show(lean.update(), args.tasks * args.group)


def show(record: Record, episodes: int) -> None:
    wall, rolled = record["seconds"], record["rollout_seconds"]
    print(
        f"{episodes} episodes of {record['turns']:.0f} turns: {wall:.1f} s, of which the rollout {rolled:.1f} s", flush=True
    )
    print(f"  {record['tokens_per_second']:,.0f} tokens/s said, {record['episodes_per_second']:.2f} episodes/s")
    print(f"  learned from {record.get('learned_tokens', 0):,.0f} tokens in {wall - rolled:.1f} s")
    shares = ", ".join(f"{name} {share:.2%}" for name, share in record["ours"].items())
    print(f"  our own work: {sum(record['ours'].values()):.2%} of it ({shares})")


if __name__ == "__main__":
    main()
