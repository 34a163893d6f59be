"""The learning curve as text, for the terminal."""

from collections.abc import Sequence

WIDTH, HEIGHT = 64, 12
Point = tuple[float, float]  # share of the run that is over, success rate


def drawn(attempts: Sequence[Point], held_out: Sequence[Point], caption: str) -> str:
    """Return a chart of the success rate over the run: `.` for training episodes, `#` for held-out tasks."""
    sheet = [[" "] * WIDTH for _ in range(HEIGHT)]
    for sign, points in ((".", attempts), ("#", held_out)):
        for over, success in points:
            row, column = round((1 - success) * (HEIGHT - 1)), min(WIDTH - 1, int(over * WIDTH))
            sheet[row][column] = sign
    marks = {0: "100 %", HEIGHT // 2: " 50 %", HEIGHT - 1: "  0 %"}
    lines = [f"{marks.get(row, ''):>5} |{''.join(line)}" for row, line in enumerate(sheet)]
    return "\n".join([*lines, " " * 6 + "+" + "-" * WIDTH, " " * 7 + caption])
