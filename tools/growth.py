"""Measure how costs grow with the number of records and draw docs/images/growth.svg: `python -m tools.growth`."""

from pathlib import Path

from companyos.bench.growth import Growth, growth

FILE = Path(__file__).parents[1] / "docs" / "images" / "growth.svg"
WIDTH, HEIGHT, LEFT, BOTTOM = 760, 320, 60, 270
LINES = (("step", "#2563eb"), ("search", "#0d9488"), ("reset", "#c2410c"))


def picture(points: list[Growth]) -> str:
    """Draw each cost relative to its cost in the smallest company, over the number of records."""
    most = max(3.0, *(getattr(point, name) / getattr(points[0], name) for point in points for name, _ in LINES))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    parts += ["<title>The cost of a step, a search and a reset by the number of records</title>"]
    parts += [
        "<style>text { font: 12px sans-serif }</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fbfbfd"/>',
    ]
    parts += [f'<line x1="{LEFT}" y1="{y(1, most):g}" x2="720" y2="{y(1, most):g}" stroke="#cdd2dc"/>']
    parts += [
        f'<text x="{LEFT - 8}" y="{y(times, most):g}" text-anchor="end">{times} ×</text>' for times in range(int(most) + 1)
    ]
    parts += [
        f'<text x="{x(point, points):g}" y="290" text-anchor="middle">{point.records:,}</text>'
        for point in (points[0], *points[2:])
    ]
    parts += [f'<text x="{WIDTH / 2:g}" y="312" text-anchor="middle">records of the company</text>']
    for place, (name, color) in enumerate(LINES):
        path = " ".join(f"{x(p, points):g},{y(getattr(p, name) / getattr(points[0], name), most):g}" for p in points)
        first, last = (f"{getattr(p, name):.0f} µs with {p.records:,} records" for p in (points[0], points[-1]))
        label = f"{name}: {first}, {last}"
        parts += [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>']
        parts += [f'<text x="{LEFT + 20}" y="{24 + 18 * place}" fill="{color}">{label}</text>']
    return "\n".join([*parts, "</svg>"]) + "\n"


def x(point: Growth, points: list[Growth]) -> float:
    return LEFT + 20 + 620 * point.records / points[-1].records


def y(times: float, most: float) -> float:
    return BOTTOM - 180 * times / most


if __name__ == "__main__":
    measured = growth()
    for point in measured:
        print(
            f"{point.records:6} records: step {point.step:.1f} µs, search {point.search:.1f} µs, reset {point.reset:.0f} µs"
        )
    FILE.write_text(picture(measured))
