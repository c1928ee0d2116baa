"""Writes docs/images/examples.svg: for each example what `main` returns, over its course.

`PYTHONPATH=tests python -m house.example_curves` runs all examples, in some minutes.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import io
import math
import sys
from collections.abc import Sequence

from fusewire.export.report.charts import smoothed, thinned
from house.repo import ROOT

FOLDERS = (ROOT / "examples", ROOT / "examples" / "reinforcement_learning")
PICTURE = ROOT / "docs/images/examples.svg"
COLUMNS, WIDTH, HEIGHT = 4, 250, 150
LEFT, TOP, BOTTOM, RIGHT = 48, 26, 12, 10  # margins of a chart
POINTS = 120
STYLE = ("text {font: 12px sans-serif; fill: #57606a} .name {font-weight: bold; fill: #1f6feb} "
         ".curve {fill: none; stroke: #1f6feb; stroke-width: 1.6} "
         ".axis {fill: none; stroke: #8c959f; stroke-width: 1}")


def curve_of(name: str) -> list[float]:
    """What the example's `main` returns, with its default options."""
    with contextlib.redirect_stdout(io.StringIO()):
        values: list[float] = importlib.import_module(name).main()
    return [v for v in values if math.isfinite(v)]


def chart(name: str, values: Sequence[float]) -> str:
    """A chart of one curve, WIDTH by HEIGHT: from the first to the last value, left to right."""
    steps, means = thinned(smoothed(values, max(1, len(values) // 40)), POINTS)
    low, high = min(means), max(means)
    span, last = high - low or 1.0, max(len(values), 2)

    def x(step: float) -> float:
        return LEFT + (step - 1) / (last - 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (high - value) / span * (HEIGHT - TOP - BOTTOM)

    points = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in zip(steps, means))
    return (f'<text class="name" x="{LEFT}" y="16">{html.escape(name)}</text>'
            f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 5}" y="{TOP + 8}" text-anchor="end">{high:.3g}</text>'
            f'<text x="{LEFT - 5}" y="{HEIGHT - BOTTOM}" text-anchor="end">{low:.3g}</text>'
            f'<polyline class="curve" points="{points}"/>')


def picture(curves: dict[str, list[float]]) -> str:
    """All charts as one SVG file."""
    rows = -(-len(curves) // COLUMNS)
    charts = "\n".join(
        f'<g transform="translate({i % COLUMNS * WIDTH} {i // COLUMNS * HEIGHT})">'
        f"{chart(name, values)}</g>" for i, (name, values) in enumerate(curves.items()))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDTH} '
            f'{rows * HEIGHT}">\n<style>{STYLE}</style>\n{charts}\n</svg>\n')


def main() -> None:
    """Runs the examples and writes the picture."""
    curves = {}
    for folder in FOLDERS:
        sys.path.insert(0, str(folder))
        for file in sorted(folder.glob("*.py")):
            curves[file.stem] = curve_of(file.stem)
            print(file.stem, len(curves[file.stem]))
    PICTURE.write_text(picture(curves), encoding="utf-8")


if __name__ == "__main__":
    main()
