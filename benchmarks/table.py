"""Rows as text: one table that is Markdown as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
VARIANTS = ("torch", "torch fused", "torch.compile", "jax", "jax.jit", "onnxruntime")


def text(rows: Sequence[Row]) -> str:
    """The machine, the table, and what it means."""
    if not rows:
        return "nothing was run"
    here = rows[0]["machine"]
    head = ", ".join(f"{name} {value}" for name, value in here.items())
    variants = [v for v in VARIANTS if any(v in row["peers"] for row in rows)]
    columns = ["workload", "fusewire", "of it Python", "fusewire eager", *variants,
               "best peer / fusewire", "limit", "fusewire / limit", "cold s: fusewire",
               "torch.compile", "jax.jit", "again s: fusewire", "torch.compile", "jax.jit"]
    body = [_cells(row, variants) for row in rows]
    notes = [f"{row['workload']}: {note}" for row in rows for note in row["notes"]]
    return "\n".join([head, "", *table(columns, body), *(["", *notes] if notes else [])])


def _cells(row: Row, variants: Sequence[str]) -> list[str]:
    compiled = row["fusewire"] if row["compile_cold"] is not None else None
    cold, again = row["peers_cold"], row.get("peers_again", {})
    return [row["workload"], seconds(compiled), seconds(row.get("python")),
            seconds(row["fusewire_eager"]),
            *(seconds(row["peers"].get(v)) for v in variants), times(row["ratio"]),
            seconds(row["limit"]), times(row["of_limit"]),
            *(_cold(s) for s in (row["compile_cold"], cold.get("torch.compile"),
                                 cold.get("jax.jit"), row.get("compile_again"),
                                 again.get("torch.compile"), again.get("jax.jit")))]


def table(columns: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table with aligned columns, all but the first to the right."""
    widths = [max(map(len, cells)) for cells in zip(columns, *body)]
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return [_line(cells, widths) for cells in (columns, rule, *body)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths)
    return "| " + " | ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]) + " |"


def seconds(value: float | None) -> str:
    """A time in three digits with its unit."""
    if value is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1:
            return f"{_three(value * scale)} {unit}"
    return f"{_three(value * 1e9)} ns"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _cold(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def kernel_text(rows: Sequence[Row]) -> str:
    """The kernels of each compiled workload, those that take longest first."""
    lines = []
    for row in rows:
        found = sorted(row.get("kernels", []), key=lambda k: -k["seconds"])
        total = sum(k["seconds"] for k in found)
        lines += ["", f"{row['workload']}: {len(found)} kernels, {seconds(total)} one by one", ""]
        body = [[k["name"], seconds(k["seconds"]), f"{k['bytes'] / k['seconds'] / 1e9:.1f}",
                 f"{k['flops'] / k['seconds'] / 1e9:.1f}", str(k["tasks"]), k["line"]]
                for k in found]
        lines += table(["kernel", "time", "GB/s", "GFLOP/s", "tasks", "lines"], body)
    return "\n".join(lines)
