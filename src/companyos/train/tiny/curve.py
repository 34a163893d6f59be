"""The learning curve as text, for the terminal."""

from collections.abc import Sequence

WIDTH, HEIGHT = 64, 12
Point = tuple[float, float]  # share of the run that is over, success rate


def drawn(attempts: Sequence[Point], held_out: Sequence[Point], caption: str) -> str:
    """Return a chart of the success rate over the run: `.` for training episodes, `#` for held-out tasks."""
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    for symbol, points in ((".", attempts), ("#", held_out)):
        for share_done, success in points:
            row, column = round((1 - success) * (HEIGHT - 1)), min(WIDTH - 1, int(share_done * WIDTH))
            cells[row][column] = symbol
    labels = {0: "100 %", HEIGHT // 2: " 50 %", HEIGHT - 1: "  0 %"}
    lines = [f"{labels.get(row, ''):>5} |{''.join(line)}" for row, line in enumerate(cells)]
    return "\n".join([*lines, " " * 6 + "+" + "-" * WIDTH, " " * 7 + caption])
