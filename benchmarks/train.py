"""Benchmark of rollouts in the lean training loop: their speed, and the share of time for the environment and its texts.

python -m benchmarks.train --model smollm2 --episodes 16 --longest-call 12

The update of the weights is not included; the environment has no part in it. On a CPU, limit the length of calls with
`--longest-call`: a model that has not learned to end its lines generates up to the limit. Short calls make the share of the
environment larger, so the result is an upper bound.
"""

import argparse

from companyos.env import task_named
from companyos.families import STARTER_FAMILIES
from companyos.train.data.script import RESERVE
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent, rollout
from companyos.train.decoding.speakers import speaker_of
from companyos.train.model.models import device_named, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--families", default=",".join(STARTER_FAMILIES), help="names, separated by commas")
    parser.add_argument("--dose", type=float, default=0.25)
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--rows", type=int, default=16, help="simultaneous episodes")
    parser.add_argument("--longest-call", type=int, default=RESERVE, help="in tokens")
    parser.add_argument("--rounds", type=int, default=1, help="on a GPU, the first one also captures CUDA graphs")
    args = parser.parse_args()
    learner = load(args.model, device_named(args.device))
    tokenizer, families = learner.script_tokenizer(), args.families.split(",")
    speaker = speaker_of(learner.model, learner.decode, args.rows, learner.limit, args.longest_call)
    for number in range(args.rounds):
        speaker.load(learner.model)
        seeds = range(number * args.episodes, (number + 1) * args.episodes)
        tasks = [str(task_named(families[seed % len(families)], seed, args.dose)) for seed in seeds]
        spent = TimeSpent()
        played = rollout(
            speaker, (ModelEpisode(id_, False, tokenizer, learner.limit, args.longest_call) for id_ in tasks), spent
        )
        show(played, spent, spent.wall)


def show(played: list[ModelEpisode], spent: TimeSpent, wall: float) -> None:
    turns = sum(one.env.step_count for one in played)
    print(f"{len(played)} episodes, {turns:,} turns, {spent.tokens:,} tokens generated: {wall:.1f} s")
    print(f"  {spent.tokens / wall:,.0f} tokens/s, {len(played) / wall:.2f} episodes/s")
    shares = ", ".join(f"{name} {seconds / wall:.2%}" for name, seconds in spent.seconds.items())
    print(f"  environment and texts: {sum(spent.seconds.values()) / wall:.2%} of the time ({shares})", flush=True)


if __name__ == "__main__":
    main()
