"""Draw the pictures of docs/concepts.md from real episodes of the expert: `python -m tools.pictures`.

They are the same on every machine, to the byte. A test fails when one is out of date.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from companyos.assurance.prove import first_difference
from companyos.assurance.twins import do
from companyos.chaos import DIALS
from companyos.company import TOOLBOX
from companyos.core.episode import Turn
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.env.line_syntax import write_line

FOLDER = Path(__file__).parents[1] / "docs" / "images"
EPISODE = str(task_named("vendor_onboarding", seed=1, chaos=0.5))  # uses all three apps
TASK, CAUSE, VALUE = str(task_named("vendor_onboarding", seed=8)), "insurance", "expired"
APPS = dict(zip(TOOLBOX.apps, ("#2563eb", "#0d9488", "#c2410c"), strict=True))
APP_NAMES = dict(zip(TOOLBOX.apps, ("TicketDesk", "DataHub", "ApprovalFlow"), strict=True))
WIDTH = 760

# A picture has its own background, so that it is readable on any page.
STYLE = """
svg {
  --paper: #fbfbfd; --card: #ffffff; --mark: #fff4d6; --line: #cdd2dc;
  --ink: #1f2430; --faint: #667085; --good: #15803d; --bad: #b42318;
}
@media (prefers-color-scheme: dark) {
  svg {
    --paper: #1b1e27; --card: #252a36; --mark: #4a3d16; --line: #3c4352;
    --ink: #e6e8ee; --faint: #9aa3b5; --good: #4ade80; --bad: #f97066;
  }
}
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: var(--ink) }
.code { font: 12px ui-monospace, Menlo, Consolas, monospace }
.bold { font-weight: 600 }
.small { font-size: 11px }
.faint { fill: var(--faint) }
.good { fill: var(--good) }
.bad { fill: var(--bad) }
.mark { fill: var(--mark) }
.paper { fill: var(--paper); stroke: var(--line) }
.card { fill: var(--card); stroke: var(--line) }
.line { stroke: var(--line); fill: none }
.arrow { stroke: var(--faint); fill: none; stroke-width: 1.4; marker-end: url(#tip) }
"""
TIP = """<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z" fill="#8a93a5"/>
</marker>
</defs>"""


def _picture(title: str, height: int, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    paper = f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>'
    about = f"<title>{escape(title)}</title>"
    return "\n".join([head, about, f"<style>{STYLE}</style>", TIP, paper, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, classes: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{classes}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# -- the path of a call ------------------------------------------------------------------------------------------------


def flow() -> str:
    """Draw the path of a call through chaos, apps, world and journal, the observation, and the grader."""
    count = len(list(TOOLBOX))
    parts = [
        *_box(24, 36, 130, 132, "Agent", ["reads a brief,", "makes calls; one", "ends the episode:", "resolve_ticket"]),
        *_box(222, 36, 130, 84, "Chaos", [f"{len(DIALS)} dials, each", "with a dose"]),
        *_box(420, 36, 150, 132, "Apps", [*APP_NAMES.values(), f"{count} tools, one gate"], list(APPS.values())),
        *_box(618, 36, 118, 132, "Transcript", ["calls, replies,", "rewards, digests:", "a file that", "replays"]),
        *_box(24, 232, 130, 84, "Reward", ["milestones and", "penalties"]),
        *_box(222, 232, 130, 84, "Colleagues", ["programs behind", "the same calls"]),
        *_box(420, 232, 150, 84, "World", ["records, clock,", "agenda, digest"]),
        *_box(618, 232, 118, 84, "Journal", ["every write:", "who, when, why"]),
        *_box(24, 376, 328, 84, "Verdict", ["success: every goal holds in the end state,", "and nothing is damaged"]),
        *_box(420, 376, 150, 84, "Grader", ["goals and damage,", "at the end"]),
        *_arrow("M154 78H220", 187, 70, "call"),
        *_arrow("M352 78H418"),
        *_arrow("M418 146H156", 287, 138, "reply, clock, reward: the observation"),
        *_arrow("M570 102H616"),
        *_arrow("M470 168V230", 462, 204, "writes", "end"),
        *_arrow("M520 232V170", 528, 204, "replies"),
        *_arrow("M352 262H418", 385, 254, "calls"),
        *_arrow("M420 290H354", 385, 306, "wakes"),
        *_arrow("M570 274H616"),
        *_arrow("M89 232V170", 97, 204, "each turn"),
        *_arrow("M495 316V374", 503, 350, "end state"),
        *_arrow("M677 316V418H572", 685, 372, "damage"),
        *_arrow("M420 418H354"),
    ]
    return _picture(
        "The path of a call: from the agent through chaos and apps into the world, and what is graded", 484, parts
    )


def _box(
    x: int, y: int, width: int, height: int, title: str, lines: Sequence[str], dots: Sequence[str] = ()
) -> Iterator[str]:
    yield f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
    yield _text(x + width / 2, y + 26, title, "bold", "middle")
    for number, line in enumerate(lines):
        down = y + 48 + 20 * number
        if number < len(dots):
            yield f'<circle cx="{x + 26}" cy="{down - 4}" r="4" fill="{dots[number]}"/>'
            yield _text(x + 38, down, line, "small")
        else:
            yield _text(x + width / 2, down, line, "faint small", "middle")


def _arrow(path: str, x: float = 0, y: float = 0, text: str = "", anchor: str = "") -> Iterator[str]:
    yield f'<path class="arrow" d="{path}"/>'
    yield _text(x, y, text, "faint small", anchor or ("start" if "V" in path else "middle")) if text else ""


# -- the path of a rule ------------------------------------------------------------------------------------------------


def rules() -> str:
    """Draw how a rulebook is drawn, written down, read back and decided by."""
    parts = [
        *_box(24, 36, 140, 84, "Seed", ["draws a variant", "for each slot"]),
        *_box(232, 36, 140, 84, "Rulebook", ["pieces: checks,", "exemptions, limits …"]),
        *_box(440, 36, 140, 84, "Documents", ["policies, memos,", "amendments, answers"]),
        *_box(632, 36, 104, 84, "Agent", ["reads what", "it finds"]),
        *_box(232, 196, 140, 84, "Judge", ["answers questions", "from the causes"]),
        *_box(440, 196, 140, 84, "Expert", ["answers questions", "by making calls"]),
        *_box(
            232,
            356,
            348,
            84,
            "decide(book)",
            ["asks for one fact at a time,", "and returns a ruling with the pieces it used"],
        ),
        *_arrow("M164 78H230", 197, 70, "builds"),
        *_arrow("M372 78H438", 405, 70, "renders"),
        *_arrow("M580 78H630"),
        *_arrow("M302 120V194", 294, 160, "has it", "end"),
        *_arrow("M510 120V194", 518, 160, "parses what it has read"),
        *_arrow("M302 280V354", 294, 320, "facts", "end"),
        *_arrow("M510 280V354", 518, 320, "facts"),
    ]
    return _picture("A rulebook is drawn, rendered into documents, parsed by the expert, and decided by", 464, parts)


# -- one episode -------------------------------------------------------------------------------------------------------

_ROW, _TOP = 23, 96
_LANES = dict(zip(APPS, (120, 144, 168), strict=True))


def timeline() -> str:
    """Draw one episode of an expert, with a row for each step: time, app, call and result."""
    env = _played(EPISODE)
    parts = [
        _text(24, 32, f"An expert works {EPISODE}", "bold"),
        _text(24, 52, _short(env.look().task, 116), "faint small"),
    ]
    for number, (app, x) in enumerate(_LANES.items()):
        parts.append(f'<circle cx="{430 + 110 * number}" cy="28" r="5" fill="{APPS[app]}"/>')
        parts.append(_text(440 + 110 * number, 32, APP_NAMES[app], "small"))
        parts.append(
            f'<line class="line" x1="{x}" y1="{_TOP - 18}" x2="{x}" y2="{_TOP + _ROW * (env.step_count - 1) + 8}"/>'
        )
    points = [(_LANES[turn.call.app], _TOP + _ROW * row - 4) for row, turn in enumerate(env.turns)]
    parts += [
        f'<path class="line" d="M{x1} {y1}L{x2} {y2}" stroke-dasharray="2 3"/>' for (x1, y1), (x2, y2) in pairwise(points)
    ]
    for row, (turn, (x, y)) in enumerate(zip(env.turns, points, strict=True)):
        parts += _step(row, turn, x, y)
    bottom = _TOP + _ROW * env.step_count + 14
    verdict = f"Success: {env.setting.ending.name}, {env.step_count} steps, return {env.total:+.2f}"
    parts.append(_text(24, bottom, verdict, "bold good"))
    return _picture(f"One episode, {EPISODE}: {env.step_count} calls and their results", bottom + 20, parts)


def _step(row: int, turn: Turn, x: int, y: int) -> Iterator[str]:
    clock, colour = turn.now.rpartition(" ")[2], APPS[turn.call.app]
    yield _text(24, y + 4, f"{row + 1:>2}", "code faint")
    yield _text(52, y + 4, clock, "code faint")
    fill = colour if turn.reply.ok else "var(--paper)"
    yield f'<circle cx="{x}" cy="{y}" r="5.5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    yield _text(192, y + 4, _short(write_line(turn.call), 48), "code")
    code, milestones = turn.reply.code, turn.parts.get("milestones", 0.0)
    if not turn.reply.ok:
        yield _text(WIDTH - 24, y + 4, {"no_answer": "no answer"}.get(code, f"refused: {code}"), "small bad", "end")
    elif "end" in turn.parts:
        yield _text(WIDTH - 24, y + 4, f"the end {turn.parts['end']:+g}", "small good bold", "end")
    elif milestones:
        yield _text(WIDTH - 24, y + 4, f"milestone {milestones:+g}", "small good", "end")


# -- a twin ------------------------------------------------------------------------------------------------------------


def twins() -> str:
    """Draw two episodes of the expert side by side: a task and its twin."""
    ours, theirs = _played(TASK), _played(do(TASK, **{CAUSE: VALUE}))
    parted = first_difference(ours.turns, theirs.turns)
    bottom = _TOP + 16 + _ROW * max(ours.step_count, theirs.step_count) + 14
    parts = [
        _text(24, 32, "A task and its twin: one hidden fact differs, brief and first observation are the same", "bold"),
        _text(24, 52, _short(ours.look().task, 116), "faint small"),
        f'<rect class="mark" x="12" y="{_TOP + _ROW * parted}" width="{WIDTH - 24}" height="{_ROW}" rx="4"/>',
        f'<line class="line" x1="{WIDTH // 2}" y1="68" x2="{WIDTH // 2}" y2="{bottom - 20}"/>',
        _text(
            24,
            bottom + 24,
            "Marked: the first reply that differs. An agent that never reads it cannot win both tasks.",
            "faint small",
        ),
    ]
    for left, env, other in ((24, ours, theirs), (WIDTH // 2 + 14, theirs, ours)):
        parts.append(_text(left, 82, f"{CAUSE} = {getattr(env.setting.causes, CAUSE)}", "code bold"))
        for row, turn in enumerate(env.turns):
            told = _told(turn, other.turns[row]) if row == parted else ""
            parts += _side(left, _TOP + 16 + _ROW * row, row, row < parted, turn, told)
        parts.append(_text(left, bottom, f"Success: {env.setting.ending.name}", "bold good"))
    return _picture(f"A task and its twin: with {CAUSE} {VALUE} another ending is right", bottom + 44, parts)


def _told(turn: Turn, other: Turn) -> str:
    """Return the fields of this reply that differ from the other."""
    return ", ".join(f"{field} {value}" for field, value in turn.reply.data.items() if other.reply.data[field] != value)


def _side(left: int, y: int, row: int, alike: bool, turn: Turn, told: str) -> Iterator[str]:
    yield _text(left, y, f"{row + 1:>2}", "code faint")
    yield f'<circle cx="{left + 26}" cy="{y - 4}" r="4.5" fill="{APPS[turn.call.app]}"/>'
    yield _text(left + 38, y, _short(write_line(turn.call), 41), "code faint" if alike else "code")
    if told:
        yield _text(left + 338, y, told, "small bold", "end")


def _played(task_id: str) -> CompanyEnv:
    env = make(task_id)
    run_expert(env)
    assert env.success
    return env


PICTURES = {"flow": flow, "rules": rules, "timeline": timeline, "twins": twins}


def main() -> None:
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
