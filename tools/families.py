"""Family pages: what each kind of work is about, measured. `python -m tools.families` writes docs/families/ anew.

All of it follows from the families themselves and from playing them, so a page is the same to the byte on every machine, and
a test says when one is out of date.
"""

from collections import Counter
from pathlib import Path

from companyos.agents import play
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.assurance.prove_many import spread
from companyos.chaos import DIALS, Injector
from companyos.core.parallel import pooled
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import CompanyEnv, make, work
from companyos.families import FAMILIES, Family, Setting
from companyos.families.kit.case import Cause, Fact, Trouble
from companyos.families.kit.citations import Cites
from companyos.families.kit.family import write_value
from companyos.families.kit.goals import ANSWER, SIGNED_REQUEST
from tools.markdown import sentence, table

FOLDER = Path(__file__).parents[1] / "docs" / "families"
ENDINGS, PARS, STRUCK = 200, 40, 25  # seeds that shares, par and tools, and what each dial costs are measured on
DOSES = (0, 25, 50, 75, 100)
EXAMPLE = 7  # the seed whose brief is shown
CHAOS = 0.5  # at which tools are counted

PAGE = """\
# {title}

**{question}**

{about}

> {brief}
>
> — the brief of `{task_id}`

Written by `make pages` for benchmark version {version}; please do not edit. Endings are counted over {endings} seeds,
par and tools over {pars}, dials over {struck}, all from seed 0 of split `train`.

## What is hidden

None of it stands in the brief. A **fact** decides the right ending and varies at every dose.

{facts}

A **trouble** decides the way there. How likely it is depends on the dose of its dial; [what each dial
does](README.md#dials) is the same in all families.

{troubles}

## How it can end

{resolved}

## What the expert does

It takes so many steps; whoever takes more than the budget has failed.

{par}

These are its tools, at chaos {chaos}:

{tools}

## Which dials bite

The expert wins every task. This is what the same expert loses, in percentage points, that has one bad habit, where that dial
alone is turned to 1.

{dials}
"""


def page(name: str) -> str:
    """The page of one family."""
    family = FAMILIES[name]
    [question, about] = _doc(family)
    example = make(name, seed=EXAMPLE, chaos=CHAOS)
    return PAGE.format(
        title=_title(name),
        question=question,
        about=about,
        brief=example.scene.task,
        task_id=example.task_id,
        version=BENCHMARK_VERSION,
        endings=ENDINGS,
        pars=PARS,
        struck=STRUCK,
        facts=_facts(family),
        troubles=_troubles(family),
        resolved=_endings(name),
        par=_par(family),
        chaos=CHAOS,
        tools=_tools(name),
        dials=_dials(family),
    )


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


_PARTICULAR = "Particular about reasoning here: "  # so every family's file goes on


def _doc(family: Family) -> list[str]:
    """The question that a family's file begins with, and what is particular about it."""
    heading, _, about = family.description.partition("\n\n")
    return [sentence(heading.split(": ", 1)[1]), sentence(" ".join(about.split()).removeprefix(_PARTICULAR))]


# -- what is hidden ----------------------------------------------------------------------------------------------------


def _facts(family: Family) -> str:
    rows = [
        [f"`{cause.name}`", cause.meaning, _odds(cause, cause.mark), _where(cause.mark)]
        for cause in family.specs()
        if isinstance(cause.mark, Fact)
    ]
    return table(["fact", "what it means", "values, and how often", "where it shows"], rows)


def _odds(cause: Cause, fact: Fact) -> str:
    names = ["no", "yes"] if cause.alternatives == (False, True) else [str(value) for value in cause.alternatives]
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(names, fact.odds, strict=True))


def _where(fact: Fact) -> str:
    # A metric shows what its source has, so one of the two is enough.
    return ", ".join(f"`{role}.{field}`" for kind, role, field in fact.footprint if kind != "Source")


def _troubles(family: Family) -> str:
    rows = [
        [
            f"`{cause.name}`",
            f"`{cause.mark.dial}`",
            ", ".join(f"`{part.removeprefix('=')}`" for part in cause.mark.target),
            ", ".join(map(write_value, cause.alternatives[1:])) if len(cause.alternatives) > 2 else "",
        ]
        for cause in family.specs()
        if isinstance(cause.mark, Trouble)
    ]
    return table(
        ["trouble", "dial", "what it strikes", "levels"], sorted(rows, key=lambda row: list(DIALS).index(row[1][1:-1]))
    )


# -- how it can end ----------------------------------------------------------------------------------------------------


def _endings(name: str) -> str:
    count: Counter[tuple[str, str]] = Counter()
    cited: Counter[tuple[str, str, str]] = Counter()
    for seed in range(ENDINGS):
        setting = make(name, seed=seed).setting
        ending = (setting.ending.name, setting.ending.decider)
        count[ending] += 1
        for goal in setting.ending.goals:
            if isinstance(goal, Cites):
                cited.update((*ending, fact) for fact in dict.fromkeys(_said(setting, *fact) for fact in goal.facts))
    rows = []
    for ending, times in sorted(count.items(), key=lambda one: (-one[1], one[0])):
        facts = [(fact, n / times) for (*of, fact), n in cited.items() if tuple(of) == ending]
        shown = [f"`{fact}`" + (f" ({share:.0%})" if share < 1 else "") for fact, share in facts]
        resolution, reason = ending[0].split("/")[:2]
        rows.append([f"`{resolution}`", f"`{reason}`", ending[1], f"{times / ENDINGS:.1%}", ", ".join(shown)])
    heading = ["resolution", "reason", "who decides", "right in", "to be cited (where not always: how often)"]
    return table(heading, rows)


def _said(setting: Setting, record: str, field: str) -> str:
    """A decisive fact by the role that its record plays."""
    roles = {key: role for role, key in reversed(setting.case.roles.items())}
    if record.startswith(SIGNED_REQUEST):
        return f"signed request.{field}"
    if record.startswith(ANSWER):
        return f"answer of {roles.get(record.removeprefix(ANSWER), 'somebody')}.{field}"
    return f"{roles.get(record) or type(setting.world.lookup(record)).__name__.lower()}.{field}"


# -- what the expert does ----------------------------------------------------------------------------------------------


def _solved(name: str, seed: int, chaos: float) -> CompanyEnv:
    env = make(name, seed=seed, chaos=chaos, reward="sparse")
    work(env)
    return env


def _par(family: Family) -> str:
    rows = []
    for dose in DOSES:
        pars = spread([_solved(family.name, seed, dose / 100).step_count for seed in range(PARS)])
        rows.append([str(dose / 100), *map(str, (pars.median, pars.p90, pars.most, family.max_steps[dose]))])
    return table(["dose", "median", "90 % within", "most", "budget"], rows)


def _tools(name: str) -> str:
    made = [Counter(turn.call.tool for turn in _solved(name, seed, CHAOS).turns) for seed in range(PARS)]
    total: Counter[str] = sum(made, Counter())
    rows = []
    for tool, calls in sorted(total.items(), key=lambda one: (-one[1], one[0])):
        rows.append([f"`{tool}`", f"{sum(tool in one for one in made) / PARS:.0%}", f"{calls / PARS:.1f}"])
    return table(["tool", "in so many episodes", "calls an episode"], rows)


def _dials(family: Family) -> str:
    lost: Counter[str] = Counter()
    for seed in range(STRUCK):
        for dial, habit in HABITS.items():
            env = play(make(family.name, seed=seed, chaos={dial: 1.0}, reward="sparse"), Careless(habit))
            lost[dial] += not env.success
    order = sorted((dial for dial in lost if lost[dial]), key=lambda dial: (-lost[dial], dial))
    rows = [[f"`{dial}`", sentence(HABITS[dial].__doc__), f"{100 * lost[dial] / STRUCK:.0f}"] for dial in order]
    free = ", ".join(f"`{dial}`" for dial in DIALS if not lost[dial])
    rest = f"\n\nNothing was lost to {free}." if free else ""
    return table(["dial", "who loses by it", "points lost"], rows) + rest


# -- all of them -------------------------------------------------------------------------------------------------------

INDEX = """\
# Families: what there is to do

{count} kinds of work. Each has a page of its own: what is hidden in it, how it can end, what its expert does, which dials
bite. All of these are written by `make pages`, from the families themselves and from playing them; please do not edit.
`CONTRIBUTING.md` says how to add one.

{families}

`par` is the median of the expert's steps at dose 0 and 1, over {pars} seeds; `likeliest ending` how often the one is right
that is right most often, over {endings}.

## Dials

Chaos is a dose from 0 to 1 on each of these; what strikes at 0.3 strikes at 0.6. Each says what one sees, what was
written, and what helps. A letter stands for its dial in task ids.

{dials}
"""


def index() -> str:
    """The page before all others."""
    return INDEX.format(
        count=len(FAMILIES),
        families=table(
            ["family", "the question", "facts", "troubles", "endings", "likeliest ending", "par"],
            map(_line, FAMILIES.values()),
        ),
        pars=PARS,
        endings=ENDINGS,
        dials=table(["dial", "", "what it does"], map(_dial, DIALS.values())),
    )


def _line(family: Family) -> list[str]:
    specs = family.specs()
    endings = Counter(make(family.name, seed=seed).setting.ending.name for seed in range(ENDINGS))
    pars = [spread([_solved(family.name, s, chaos).step_count for s in range(PARS)]).median for chaos in (0.0, 1.0)]
    return [
        f"[{_title(family.name)}]({family.name}.md)",
        _doc(family)[0],
        str(sum(isinstance(cause.mark, Fact) for cause in specs)),
        str(sum(isinstance(cause.mark, Trouble) for cause in specs)),
        str(len(endings)),
        f"{endings.most_common(1)[0][1] / ENDINGS:.0%}",
        f"{pars[0]}–{pars[1]}",
    ]


def _dial(injector: Injector) -> list[str]:
    return [f"`{injector.dial}`", f"`{injector.letter}`", sentence(type(injector).__doc__)]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for name, text in zip(FAMILIES, pooled(page, list(FAMILIES), workers=2), strict=True):
        (FOLDER / f"{name}.md").write_text(text)
    (FOLDER / "README.md").write_text(index())


if __name__ == "__main__":
    main()
