"""Draws the pictures of the report as self-contained SVG and PNG text."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Series(NamedTuple):
    """A line of a chart: its name, its CSS class, and values at steps, by default 1, 2, 3, ..."""

    name: str
    css: str
    values: Sequence[float]
    steps: Sequence[float] | None = None

    def points(self) -> list[tuple[float, float]]:
        """Pairs (step, value)."""
        steps = range(1, len(self.values) + 1) if self.steps is None else self.steps
        return list(zip(steps, self.values, strict=True))


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis from low to high: powers of ten, times 1, 2 or 5 if few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 2 else (1, 3) if len(decades) < 6 else (1,)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def whole_ticks(count: int, most: int = 8) -> list[int]:
    """Round step numbers from 0 up to `count`, at most about `most` of them."""
    raw = max(count / most, 1)
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= raw)
    return list(range(0, count + 1, int(step)))


class Frame:
    """A plot area with a linear x axis from 0 and a logarithmic y axis."""

    WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 320, 44, 10, 12, 44

    def __init__(self, count: int, low: float, high: float) -> None:
        self.count, self.low, self.high = max(count, 1), low, high

    def x(self, step: float) -> float:
        """The x coordinate of a step."""
        return self.LEFT + step / self.count * (self.WIDTH - self.LEFT - self.RIGHT)

    def y(self, value: float) -> float:
        """The y coordinate of a value."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.HEIGHT - self.BOTTOM - share * (self.HEIGHT - self.TOP - self.BOTTOM)

    def axes(self, x_label: str) -> str:
        """Grid lines, tick labels and the name of the x axis."""
        bottom, right = self.HEIGHT - self.BOTTOM, self.WIDTH - self.RIGHT
        parts = [f'<path class="grid" d="M{self.LEFT} {self.y(v):.1f}H{right}"/>'
                 f'<text class="tick end" x="{self.LEFT - 8}" y="{self.y(v) + 4:.1f}">{v:g}</text>'
                 for v in log_ticks(self.low, self.high)]
        parts += [f'<text class="tick mid" x="{self.x(s):.1f}" y="{bottom + 18}">{s}</text>'
                  for s in whole_ticks(self.count)]
        parts.append(f'<path class="axis" d="M{self.LEFT} {bottom}H{right}"/>')
        parts.append(f'<text class="tick mid" x="{(self.LEFT + right) / 2}" '
                     f'y="{self.HEIGHT - 4}">{x_label}</text>')
        return "".join(parts)

    def line(self, series: Series) -> str:
        """One series as a polyline, with its name as a tooltip."""
        points = " ".join(f"{self.x(step):.1f},{self.y(value):.1f}"
                          for step, value in series.points() if math.isfinite(value))
        return (f'<polyline class="{series.css}" points="{points}">'
                f"<title>{html.escape(series.name)}</title></polyline>")


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """For each step, the mean of the `window` values around it; of fewer values at both ends."""
    half = window // 2
    parts = (values[max(0, i - half) : i + half + 1] for i in range(len(values)))
    return [sum(part) / len(part) for part in parts]


def thinned(values: Sequence[float], most: int) -> tuple[list[float], list[float]]:
    """Steps and values of at most `most` points: means over equally many steps, for long runs."""
    size = max(1, -(-len(values) // most))
    parts = [values[i : i + size] for i in range(0, len(values), size)]
    return ([i * size + (len(part) + 1) / 2 for i, part in enumerate(parts)],
            [sum(part) / len(part) for part in parts])


def log_chart(lines: Sequence[Series], title: str, x_label: str = "training step") -> str:
    """Lines over the steps, on a logarithmic axis; `title` is read to users who cannot see it."""
    values = [v for line in lines for v in line.values if math.isfinite(v) and v > 0]
    low, high = (min(values) * 0.8, max(values) * 1.25) if values else (0.1, 1.0)
    last = max((step for line in lines for step, _ in line.points()), default=1)
    frame = Frame(math.ceil(last), low, high)
    shown = "".join(map(frame.line, lines))
    return (f'<svg class="plot" viewBox="0 0 {frame.WIDTH} {frame.HEIGHT}" role="img" '
            f'aria-label="{html.escape(title)}">{frame.axes(x_label)}{shown}</svg>')


def confusion(true: np.ndarray, guessed: np.ndarray, classes: int = 10) -> np.ndarray:
    """Counts (classes, classes): rows are the true classes, columns the guessed ones."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (true, guessed), 1)
    return counts


def heat_map(counts: np.ndarray) -> str:
    """The counts as a square of coloured cells: right ones blue, wrong ones red."""
    cell, edge = 34, 34
    side = edge + cell * len(counts)
    parts = [f'<text class="tick mid" x="{edge + cell * (k + 0.5)}" y="{edge - 10}">{k}</text>'
             f'<text class="tick end" x="{edge - 10}" y="{edge + cell * (k + 0.5) + 4}">{k}</text>'
             for k in range(len(counts))]
    for (row, column), count in np.ndenumerate(counts):
        x, y = edge + cell * column, edge + cell * row
        parts.append(_cell(x, y, cell, int(count), row == column, count / counts[row].sum()
                           if counts[row].sum() else 0.0))
    return (f'<svg class="heat" viewBox="0 0 {side} {side}" role="img" '
            f'aria-label="Confusion matrix">{"".join(parts)}</svg>')


def _cell(x: float, y: float, size: int, count: int, right: bool, share: float) -> str:
    kind = "none" if not count else "right" if right else "wrong"
    # The square root keeps a single wrong guess visible beside dozens of right ones.
    shade = "" if not count else f' fill-opacity="{0.15 + 0.85 * share**0.5:.2f}"'
    square = (f'<rect class="cell {kind}" x="{x + 1}" y="{y + 1}" width="{size - 2}" '
              f'height="{size - 2}" rx="3"{shade}/>')
    if not count:
        return square
    dark = " on" if share > 0.3 else ""
    return square + (f'<text class="count{dark}" x="{x + size / 2}" y="{y + size / 2 + 4}">'
                     f"{count}</text>")


def png(image: np.ndarray) -> str:
    """A data URL of `image` (height, width) with values 0 to 1, as a grey PNG, dark on white."""
    height, width = image.shape
    grey = np.round(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks)
    return "data:image/png;base64," + base64.b64encode(data).decode()
