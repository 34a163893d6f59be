"""The `companyos train` commands. Wrong arguments give a one-line error before any model is loaded."""

import math
import sys
from argparse import Namespace
from pathlib import Path

from companyos.cli import tiny
from companyos.cli.options import JSON, Commands, count, option, print_json
from companyos.cli.train_arguments import (
    CHECK_OPTIONS,
    LIMIT_OPTION,
    MODEL_OPTIONS,
    OUT,
    RUN_OPTIONS,
    TRL_OPTIONS,
    amount,
    checked,
    checkup_plan,
    conclude,
    families_of,
    held_out,
    positive,
    rungs,
    share,
    shares,
    watching,
    what_is_trained,
)
from companyos.core.errors import Misuse, install_hint
from companyos.train.loops.trl_plan import carry_out, plan_of
from companyos.train.runs.journal import Journal, check_run

__all__ = ["COMMANDS", "RESUMABLE"]


def _sft(args: Namespace) -> int:
    """Train a language model on expert demonstrations. If interrupted, run the same command again to continue.

    Example: companyos train sft --demonstrations 4000 --out runs/sft
    """
    from companyos.train.data.demonstrations import DemoPlan

    families, device = families_of(args), checked(args)
    plan = DemoPlan(families, args.doses, args.slips, args.seed, args.limit, working=args.working)
    from companyos.train.loops.sft import SftRecipe, train
    from companyos.train.model.models import load

    recipe = SftRecipe(
        demonstrations=args.demonstrations,
        times=args.times,
        at_once=args.at_once,
        rate=args.rate,
        schedule=args.schedule,
        batch=args.batch,
        check_every=args.check_every,
    )
    trained_part = what_is_trained(args)
    settings = {"loop": "sft", "model": args.model, **trained_part, "plan": plan, "recipe": recipe, **checkup_plan(args)}
    journal = Journal(args.out, settings, args.track)
    learner = load(args.model, device, **trained_part)._replace(limit=args.limit, working=args.working)
    student = train(
        learner, plan, recipe, journal, args.workers, args.minutes, held_out(args, families), watching("learning", "loss")
    )
    journal.close()
    return conclude(args, student.done, recipe.updates)


def _grpo(args: Namespace) -> int:
    """Train a language model on its own attempts with GRPO. If interrupted, run the same command again to continue.

    Example: companyos train grpo --model runs/sft/model --out runs/grpo
    """
    families, device = families_of(args), checked(args)
    if args.loop == "trl":
        done = carry_out(plan_of(args, families), args.track, args.minutes)
        return conclude(args, done, args.updates)
    if (args.credit, args.reward) == ("exact", "score"):
        raise Misuse("--credit exact needs --reward sparse: it blames failures, and a score also pays for failures")
    from companyos.train.loops.grpo import GrpoRecipe, GrpoRun, run
    from companyos.train.model.models import load

    recipe = GrpoRecipe(
        families=families,
        seed=args.seed,
        tasks=args.tasks or 64,
        group=args.group,
        doses=args.doses,
        rate=args.rate,
        steps=args.steps,
        batch=args.batch,
        rows=args.rows,
        patience=args.patience,
        check_every=args.check_every,
        reward=args.reward,
        credit=args.credit,
        workers=args.workers,
    )
    trained_part = what_is_trained(args)
    settings = {
        "loop": "lean",
        "model": args.model,
        **trained_part,
        "limit": args.limit,
        "recipe": recipe,
        **checkup_plan(args),
    }
    journal = Journal(args.out, settings, args.track)
    grpo_run = GrpoRun(load(args.model, device, **trained_part)._replace(limit=args.limit), recipe, held_out(args, families))
    run(grpo_run, journal, args.updates, args.minutes, watching("learning", "reward"))
    journal.close()
    return conclude(args, grpo_run.progress.update, args.updates)


def _dagger(args: Namespace) -> int:
    """Train a model on expert labels for the states of its own episodes. Run it again to continue.

    Example: companyos train dagger --model runs/sft/model --out runs/dagger
    """
    families, device = families_of(args), checked(args)
    from companyos.train.loops.dagger import DaggerRecipe, DaggerRun, run
    from companyos.train.model.models import load
    from companyos.train.runs.checkup import checkup_of

    recipe = DaggerRecipe(
        families=families,
        seed=args.seed,
        rounds=args.rounds,
        episodes=args.episodes,
        doses=args.doses,
        rows=args.rows,
        loop=args.loop,
        branches=args.branches,
        weight=args.weight,
        beside=args.beside,
        at_once=args.at_once,
        rate=args.rate,
        batch=args.batch,
        check_every=args.check_every,
    )
    trained_part = what_is_trained(args)
    pairs = [args.check_pairs, args.check_chaos]
    journal = Journal(
        args.out, {"loop": "dagger", "model": args.model, **trained_part, "recipe": recipe, "checkup": pairs}, args.track
    )
    checkup = checkup_of(families, args.check_chaos, 0, args.check_pairs) if args.check_pairs else None
    dagger_run = DaggerRun(load(args.model, device, **trained_part), recipe, checkup)
    run(dagger_run, journal, args.workers, args.minutes, watching("learning", "success"))
    journal.close()
    return conclude(args, dagger_run.progress.round, recipe.rounds)


def _checkup(args: Namespace) -> int:
    """Evaluate a model on a suite, greedily and sampled. If interrupted, run the same command again to continue.

    Example: companyos train checkup --model runs/sft/model --out runs/checkup
    """
    from companyos.evaluate.suites.suite import suite

    device, tasks = checked(args), suite(args.suite)
    from companyos.train.runs.exam import SUMMARY, run_checkup

    for line in run_checkup(args, tasks, families_of(args), device):
        print(line, flush=True, file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print((args.out / SUMMARY).read_text(), end="")
    return 0


def _plot(args: Namespace) -> int:
    """Plot training runs: the three skills, reward, loss, and success on held-out tasks.

    Example: companyos train plot runs/sft
    """
    for folder in args.runs:
        check_run(folder)
    try:
        from companyos.train.runs.plot import draw
    except ModuleNotFoundError as missing:
        raise Misuse(f"plots need {missing.name}: {install_hint('report')}") from None
    pictures = draw(args.runs, args.out or args.runs[0])
    if args.json:
        print_json({"pictures": [str(path) for path in pictures]})
        return 0
    for path in pictures:
        print(f"Written to {path}.")
    return 0


RESUMABLE = (_sft, _grpo, _dagger, _checkup, *tiny.COMMANDS)  # the same command goes on with an interrupted run
COMMANDS: Commands = {
    _sft: (
        *MODEL_OPTIONS,
        LIMIT_OPTION,
        option("--demonstrations", type=count, default=4000, metavar="N", help="number of different demonstrations"),
        option("--times", type=count, default=1, metavar="N", help="how often each is shown"),
        option(
            "--doses",
            type=shares,
            default=((0.0, 0.9), (0.5, 0.1)),
            metavar="X:SHARE,…",
            help="doses and their shares, like 0:0.9,0.5:0.1",
        ),
        option(
            "--slips",
            type=share,
            default=0.25,
            metavar="SHARE",
            help="share of demonstrations in which the expert corrects mistakes",
        ),
        option(
            "--working",
            action="store_true",
            help="also learn the expert's working lines, which compare values before a call",
        ),
        option("--at-once", type=count, default=32, metavar="N", help="demonstrations per update"),
        option("--rate", type=positive, default=5e-4, help="learning rate"),
        option(
            "--schedule", default="cosine", choices=("cosine", "constant"), help="of the learning rate, after its warm-up"
        ),
        option("--batch", type=count, default=65536, metavar="N", help="tokens in one forward pass on a GPU"),
        option(
            "--workers",
            type=amount,
            default=2,
            help="processes that make demonstrations; 0: none besides the training process",
        ),
        option("--check-every", type=count, default=25, metavar="N", help="updates between checkups"),
        *CHECK_OPTIONS,
        *RUN_OPTIONS,
    ),
    _grpo: (
        *MODEL_OPTIONS,
        LIMIT_OPTION,
        option("--updates", type=count, default=200, metavar="N", help="number of updates in total"),
        option(
            "--tasks",
            type=count,
            metavar="N",
            help="tasks per update; half of them are twins (default: 64; with --loop trl: 8)",
        ),
        option("--group", type=count, default=16, metavar="N", help="attempts at each task"),
        option(
            "--doses",
            type=rungs,
            default=(0.25, 0.5),
            metavar="X,Y",
            help="the next dose is used when 60 percent of attempts succeed",
        ),
        option("--rate", type=positive, default=1e-4, help="learning rate"),
        option(
            "--steps", type=count, default=1, metavar="N", help="optimizer steps per update, each on its share of the tasks"
        ),
        option("--batch", type=count, default=32768, metavar="N", help="tokens in one forward pass on a GPU"),
        option("--rows", type=count, default=1024, metavar="N", help="episodes that are played at the same time"),
        option(
            "--reward", choices=("score", "sparse"), default="score", help="what an attempt is paid; sparse: success alone"
        ),
        option(
            "--credit",
            choices=("plain", "exact"),
            default="plain",
            help="plain: the calls of an attempt share its advantage; exact: a failure blames only the call that lost it",
        ),
        option(
            "--workers", type=count, default=1, metavar="N", help="of --credit exact: processes that look for these calls"
        ),
        option(
            "--patience",
            type=amount,
            default=0,
            metavar="N",
            help="give up an attempt that writes the same line this often; 0: never",
        ),
        option("--check-every", type=count, default=10, metavar="N", help="updates between checkups"),
        *CHECK_OPTIONS,
        option(
            "--loop",
            default="lean",
            choices=("lean", "trl"),
            help="this project's loop, or TRL's trainer with native tool calls",
        ),
        *TRL_OPTIONS,
        *RUN_OPTIONS,
    ),
    _dagger: (
        *MODEL_OPTIONS,
        option("--rounds", type=count, default=10, metavar="N", help="number of rounds in total"),
        option("--episodes", type=count, default=512, metavar="N", help="episodes per round, half of them greedy"),
        option(
            "--doses",
            type=shares,
            default=((0.0, 0.2), (0.5, 0.8)),
            metavar="X:SHARE,…",
            help="doses and their shares, like 0:0.2,0.5:0.8",
        ),
        option("--rows", type=count, default=512, metavar="N", help="episodes that are played at the same time"),
        option(
            "--loop",
            type=amount,
            default=4,
            metavar="N",
            help="cut an episode off at this many equal calls with equal replies",
        ),
        option(
            "--branches", type=count, default=12, metavar="N", help="labels per episode that differ from the model's turn"
        ),
        option("--weight", type=positive, default=1.0, metavar="X", help="weight of such a label in the loss"),
        option("--beside", type=positive, default=1.0, metavar="X", help="new demonstrations per episode"),
        option("--at-once", type=count, default=10, metavar="N", help="episodes per update"),
        option("--rate", type=positive, default=5e-5, help="learning rate at its highest; it decays to 0 over the run"),
        option("--batch", type=count, default=49152, metavar="N", help="tokens in one forward pass on a GPU"),
        option("--workers", type=amount, default=2, help="processes that label, and the same number for demonstrations"),
        option("--check-every", type=count, default=1, metavar="N", help="rounds between measurements of decision accuracy"),
        *CHECK_OPTIONS[1:],
        *RUN_OPTIONS,
    ),
    _checkup: (
        *MODEL_OPTIONS[:2],
        option("--suite", default="smoke", metavar="NAME", help="name of a suite, or a file with task ids"),
        option("--families", default="all", help="play only these families: names with commas between, starter, or all"),
        option(
            "--samples", type=amount, default=0, metavar="N", help="sampled attempts at each task, besides the greedy one"
        ),
        option(
            "--repeats",
            type=amount,
            default=0,
            metavar="N",
            help="sample a call again if it already had the same reply N times",
        ),
        option("--decisions", type=amount, default=0, metavar="N", help="pairs of validation twins for decision accuracy"),
        option("--chaos", type=share, default=0.5, metavar="X", help="the dose in these pairs"),
        option("--silent", action="store_true", help="forbid working lines to a model that was trained with them"),
        option("--rows", type=count, default=512, metavar="N", help="episodes that are played at the same time"),
        option(
            "--minutes",
            type=positive,
            default=math.inf,
            metavar="N",
            help="time limit; episodes that are cut off count as failures",
        ),
        OUT,
        JSON,
    ),
    **tiny.COMMANDS,
    _plot: (
        option("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run; several runs are plotted over minutes"),
        option("--out", type=Path, metavar="DIR", help="folder for the pictures (default: the first run's folder)"),
        JSON,
    ),
}
