"""Commands about single episodes: play one, watch an agent play one, and a short demonstration."""

import shutil
import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from companyos.agents import make as make_agent
from companyos.assurance.replay import replay
from companyos.cli.agents import MODEL_OPTIONS, agent_for
from companyos.cli.options import EPISODE, JSON, Commands, option, print_json, read_transcript
from companyos.core.errors import Misuse, ReplayDiffers
from companyos.env import CompanyEnv, make, task_named
from companyos.env.rewards import current_profile_name

NEXT_STEPS = """
What to try next:
  {companyos} play {task}
      work the task yourself
  {companyos} watch {task} --agent jittered
      watch an expert that varies the order and choice of its calls
  {companyos} twins {task}
      list the same task with one fact changed
  {companyos} prove --seeds 0:20
      prove that every task can be solved
  {companyos} bench
      measure how fast the environment runs here"""


def _play(args: Namespace) -> int:
    """Work a task yourself. You see what an agent sees. Tab completes.

    Example: companyos play vendor_onboarding --seed 7 --chaos 0.5 --save mine.jsonl
    """
    from companyos.cli.game import Game
    from companyos.cli.terminal import screen

    env = _episode(args)
    if args.save is not None and args.save.exists():
        env = _resumed(env, args)
    game = Game(env, screen(), args.save)
    try:
        game.keep()  # a file that cannot be written is reported before any work is done
    except OSError as error:
        raise Misuse(f"cannot write {args.save}: {error.strerror}") from None
    game.play()
    return 0


def _episode(args: Namespace) -> CompanyEnv:
    """Return the episode that the arguments name, at its start."""
    given = {name: value for name in ("seed", "chaos", "split", "size") if (value := getattr(args, name)) is not None}
    if "-" in args.task and given:
        options = " and ".join(f"--{name}" for name in given)
        raise Misuse(
            f"a task id already contains seed, chaos, split and size; to use {options}, give a family instead of a task id"
        )
    return make(args.task, reward=args.reward or "dense", **given)


def _resumed(env: CompanyEnv, args: Namespace) -> CompanyEnv:
    """Return the unfinished episode of the file in `--save`."""
    saved = read_transcript(args.save)
    if saved.header.task_id != env.task_id:
        raise Misuse(f"{args.save} holds another task, {saved.header.task_id}; save to another file")
    if saved.footer.done:
        raise Misuse(f"{args.save} holds a finished episode; save to another file")
    if args.reward not in (None, current_profile_name(saved.header.reward)):
        raise Misuse(f"{args.save} was started with --reward {saved.header.reward}; use the same one")
    try:
        env = replay(saved)
    except ReplayDiffers as difference:
        raise Misuse(f"{args.save} cannot be resumed: {difference}") from None
    print(f"Resumed from {args.save} after step {env.step_count}.")
    return env


def _watch(args: Namespace) -> int:
    """Watch an agent work a task.

    Example: companyos watch vendor_onboarding --seed 7 --chaos 0.5 --agent naive --delay 0.5
    """
    from companyos.cli.terminal import quiet_screen, screen, watch

    if not 0 <= args.delay <= 60:
        raise Misuse(f"--delay takes 0 to 60 seconds; got {args.delay}")
    env = _episode(args)
    agent = agent_for(args, env.task_id)
    finished = watch(env, args.agent, agent, quiet_screen() if args.json else screen(), args.delay)
    if args.save is not None:
        args.save.write_text(env.transcript().to_jsonl())
    if args.json:
        print_json(
            {
                "task_id": env.task_id,
                "agent": args.agent,
                "steps": env.step_count,
                **msgspec.structs.asdict(env.transcript().footer),
            }
        )
    return 0 if finished else 1


def _demo(args: Namespace) -> int:
    """Watch a random agent and the expert work the same task, and see what to try next.

    Example: companyos demo
    """
    from companyos.cli.terminal import screen, watch

    console = screen()
    task = task_named("vendor_onboarding", 34, 0.5)
    delay = 0.15 if console.is_terminal else 0.0
    watch(CompanyEnv(task), "random", make_agent("random", 11), console, delay / 3, replies=False)
    print()
    watch(CompanyEnv(task), "expert", make_agent("expert"), console, delay)
    command = "companyos" if shutil.which("companyos") else sys.argv[0]
    print(NEXT_STEPS.format(task=task, companyos=command))
    return 0


COMMANDS: Commands = {
    _play: (
        *EPISODE,
        option(
            "--save",
            type=Path,
            metavar="FILE",
            help="keep the transcript here; an unfinished one is resumed (default: not kept)",
        ),
    ),
    _watch: (
        *EPISODE,
        option(
            "--agent",
            default="expert",
            metavar="NAME",
            help="a built-in agent, MODULE:NAME or FILE.py:NAME for your own; a wrong name lists them all",
        ),
        option("--agent-seed", type=int, default=0, help="the agent's own random seed"),
        *MODEL_OPTIONS,
        option("--delay", type=float, default=0.0, help="seconds between steps"),
        option("--save", type=Path, metavar="FILE", help="keep the transcript here (default: not kept)"),
        JSON,
    ),
    _demo: (),
}
