"""Write `docs/learnt.md` and its picture: the results of the third training, from the outcomes in `results/third`.

    python -m tools.learnt

To verify an outcome, let the model play its task again: docs/training.md says how.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from companyos.chaos import DIALS
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.reports.tables import as_points, percent
from companyos.evaluate.stats.compare import Comparison, compare
from companyos.evaluate.stats.doses import ALL, Curve, curves
from companyos.evaluate.stats.intervals import Estimate, difference
from companyos.evaluate.stats.metrics import Results, summarise
from companyos.evaluate.suites.suite import Suite
from tools.held_out import UNSEEN, held_out
from tools.markdown import table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "learnt.md"
PICTURE = ROOT / "docs" / "images" / "learnt-doses.png"
THIRD = ROOT / "results" / "third"

Run = Sequence[Outcome]
STAGES = {"control": "control", "base": "untrained", "warm": "warm-up", "grpo": "after GRPO"}
# The rows of the first table, and the names of these metrics in `docs/metrics.md`.
NUMBERS = {
    "success": "success",
    "score": "score",
    "return": "return",
    "both twins right": "pair_pass",
    "another ending for the other twin": "differs_ending",
    "episodes with damage": "damage",
    "invalid calls": "invalid_calls",
    "routing": "routing",
    "recovery": "recovery",
    "success after a fault": "success_after_fault",
}

TEXT = """\
# Results of the third training

Written by `python -m tools.learnt` from the outcomes in `results/third`. [`training.md`](training.md) describes the
training. The 520 tasks are of the test split at dose 0.5. They were frozen before the first update and played once, with
greedy decoding, under the grader of benchmark version 3. Intervals are 95 %, clustered by seed. Differences are between runs
on the same tasks. The untrained model played only the first {base} tasks, none of them a pair.

{overall}

## By family

No model was trained on the last two families.

{families}

## By right ending

A model that always chooses the same ending would win in only one row of this table.

{endings}

## By trouble

Tasks with a trouble of this dial. Nine in ten demonstrations of the warm-up had no trouble at all.

{dials}

## By dose

The same {seeds} tasks of the five families at each dose.

![Success by dose of trouble](images/learnt-doses.png)

{doses}
"""


def main() -> int:
    PAGE.write_text(page())
    draw(PICTURE)
    return 0


# -- data --------------------------------------------------------------------------------------------------------------


def outcomes(stage: str, name: str = "held_out") -> Run:
    """Return the outcomes of one stage of the third training.

    They were judged by version 3's grader. Version 4 draws the same cases from the same seeds, so each outcome is given
    the name that its task has now.
    """
    lines = (THIRD / stage / f"{name}.jsonl").read_bytes().replace(b"-v3-", b"-v4-").splitlines()
    return [msgspec.json.decode(line, type=Outcome) for line in lines]


def results(whole: Suite, run: Run) -> Results:
    return msgspec.convert(summarise(whole, run), Results)


def compared(ours: Run, theirs: Run) -> Comparison:
    found = compare(ours, theirs)
    assert found is not None, "they have many seeds in common"
    return found


def curve(stage: str) -> Curve:
    """Return the curve over the tasks that were played at all doses. At dose 0.5 they are part of `held_out`."""
    return curves([*outcomes(stage), *outcomes(stage, "doses")])[ALL]


# -- tables ------------------------------------------------------------------------------------------------------------


def page() -> str:
    whole, runs = held_out(), {stage: outcomes(stage) for stage in STAGES}
    found = {stage: results(whole, run) for stage, run in runs.items()}
    learnt, beside = compared(runs["warm"], runs["grpo"]), compared(runs["grpo"], runs["control"])
    curves_of = {stage: curve(stage) for stage in ("warm", "grpo")}
    return TEXT.format(
        base=len(runs["base"]),
        overall=_overall(found, learnt, beside, _pair_differences(whole, runs)),
        families=_families(found, learnt, beside),
        endings=_endings(runs),
        dials=_dials(runs),
        seeds=next(iter(curves_of["warm"].doses.values())).n,
        doses=_doses(curves_of),
    )


def _overall(found: Mapping[str, Results], learnt: Comparison, beside: Comparison, pairs: tuple[Estimate, Estimate]) -> str:
    rows = []
    differences = {
        "success": (as_points(learnt.success_difference), as_points(beside.success_difference)),
        "score": (as_points(learnt.score_difference), as_points(beside.score_difference)),
        "return": (_plain(learnt.return_difference, "+"), _plain(beside.return_difference, "+")),
        "both twins right": (as_points(pairs[0]), as_points(pairs[1])),
    }
    for title, name in NUMBERS.items():
        numbers = [run.overall.numbers.get(name) for run in found.values()]
        shown = ["–" if one is None else _plain(one) if name == "return" else percent(one) for one in numbers]
        rows.append((title, *shown, *differences.get(title, ("", ""))))
    return table(("", *STAGES.values(), "GRPO − warm-up", "control − GRPO"), rows)


def _plain(number: Estimate, sign: str = "") -> str:
    return f"{number.value:{sign}.1f} ({number.low:{sign}.1f} to {number.high:{sign}.1f})"


def _pair_differences(whole: Suite, runs: Mapping[str, Run]) -> tuple[Estimate, Estimate]:
    rows = {}
    for stage in ("warm", "grpo", "control"):
        by_task = {one.task_id: one for one in runs[stage]}
        both = [(by_task[pair.task], by_task[pair.twin]) for pair in whole.pairs]
        rows[stage] = [(one.cluster, one.success and other.success, 1.0) for one, other in both]
    learnt, beside = difference(rows["grpo"], rows["warm"]), difference(rows["control"], rows["grpo"])
    assert learnt is not None
    assert beside is not None
    return learnt, beside


def _families(found: Mapping[str, Results], learnt: Comparison, beside: Comparison) -> str:
    trained = [name for name in found["warm"].families if name not in UNSEEN]
    rows = []
    for name in (*trained, *UNSEEN):
        blocks = [run.families.get(name) for run in found.values()]
        shown = ["–" if block is None else percent(block.numbers["success"]) for block in blocks]
        title = f"*{name}*" if name in UNSEEN else name
        tasks = found["warm"].families[name].tasks
        rows.append((f"{title} ({tasks})", *shown, as_points(learnt.families[name]), as_points(beside.families[name])))
    return table(("", *STAGES.values(), "GRPO − warm-up", "control − GRPO"), rows)


def _endings(runs: Mapping[str, Run]) -> str:
    """Return, by right resolution, the tasks, the wins, and how often the model chose this resolution."""
    stages = ("control", "warm", "grpo")
    kinds = sorted({_kind(one.right) for one in runs["warm"]})
    rows = []
    for kind in kinds:
        tasks = sum(_kind(one.right) == kind for one in runs["warm"])
        cells = []
        for stage in stages:
            won = sum(one.success for one in runs[stage] if _kind(one.right) == kind)
            said = sum(_kind(one.said) == kind for one in runs[stage])
            cells.append(f"{won} won, {said} said")
        rows.append((kind, str(tasks), *cells))
    never = [str(sum(not one.said for one in runs[stage])) for stage in stages]
    rows.append(("never closed", "0", *never))
    return table(("right", "tasks", *(STAGES[stage] for stage in stages)), rows)


def _kind(ending: str) -> str:
    return ending.split("/")[0]


def _dials(runs: Mapping[str, Run]) -> str:
    rows = []
    for dial in DIALS:
        warm, grpo, control = ([one for one in runs[stage] if dial in one.struck] for stage in ("warm", "grpo", "control"))
        learnt, beside = compared(warm, grpo), compared(grpo, control)
        shown = percent(beside.second_success), percent(learnt.first_success), percent(learnt.second_success)
        rows.append(
            (dial, str(learnt.tasks), *shown, as_points(learnt.success_difference), as_points(beside.success_difference))
        )
    head = ("", "tasks", "control", "warm-up", "after GRPO", "GRPO − warm-up", "control − GRPO")
    return table(head, rows)


def _doses(found: Mapping[str, Curve]) -> str:
    rows = [(dose, *(percent(one.doses[dose]) for one in found.values())) for dose in found["warm"].doses]
    rows.append(("mean over doses", *(percent(one.area) for one in found.values())))
    rows.append(("halved at", *(one.ec50.text for one in found.values())))
    return table(("dose", *(STAGES[stage] for stage in found)), rows)


# -- the picture -------------------------------------------------------------------------------------------------------


def draw(path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    from companyos.train.runs.plot import PIXELS_PER_INCH, STYLE

    with rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes = figure.subplots()
        for stage in ("warm", "grpo"):
            shown = curve(stage).doses
            doses, values = [float(dose) for dose in shown], [one.value for one in shown.values()]
            axes.plot(doses, values, marker="o", label=STAGES[stage])
            axes.fill_between(
                doses, [one.low or 0.0 for one in shown.values()], [one.high or 0.0 for one in shown.values()], alpha=0.15
            )
        axes.set(xlabel="dose of trouble", ylabel="success", ylim=(0, 1))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend(frameon=False)
        figure.savefig(path, dpi=PIXELS_PER_INCH, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main())
