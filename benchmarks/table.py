"""Formats rows as tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
VARIANTS = ("torch", "torch fused", "torch channels_last", "torch.compile", "torch.compile loop",
            "jax", "jax.jit", "onnxruntime", "onnxruntime numpy", "numpy")
COMPILERS = ("torch.compile", "jax.jit")
NONE = "-"

Cells = dict[str, str]  # by the heads of their columns


def text(rows: Sequence[Row]) -> str:
    """The report: the machine, tables of times, first calls and fresh processes, and notes."""
    if not rows:
        return "nothing was run"
    here = rows[0]["machine"]
    head = ", ".join(f"{name} {value}" for name, value in here.items())
    notes = [f"{row['workload']}: {note}" for row in rows for note in row["notes"]]
    parts = [[head], *(filled(cells, rows) for cells in (_times, _first_calls, _fresh)), notes]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _times(row: Row) -> Cells:
    compiled = row["fusewire"] if row["compile_cold"] is not None else None
    return {"fusewire": seconds(compiled), "of it Python": seconds(row.get("python")),
            "fusewire eager": seconds(row["fusewire_eager"]),
            **{v: seconds(row["peers"].get(v)) for v in VARIANTS},
            "best peer / fusewire": times(row["ratio"]), "limit": seconds(row["limit"]),
            "fusewire / limit": times(row["of_limit"])}


def _first_calls(row: Row) -> Cells:
    """Times of the first call, and of the first call of a new function if measured."""
    cells = {"cold": seconds(row["compile_cold"]), "warm from disk": seconds(row["compile_warm"])}
    cells |= {f"{v} cold": seconds(row["peers_cold"].get(v)) for v in COMPILERS}
    cells["again"] = seconds(row["compile_again"])
    return cells | {f"{v} again": seconds(row["peers_again"].get(v)) for v in COMPILERS}


def _fresh(row: Row) -> Cells:
    """Memory, in MiB, and times with an allocator that keeps freed blocks."""
    cells = {"peak MiB": _mebibytes(row["peak_rss"]), "grown MiB": _mebibytes(row["grown_rss"])}
    cells |= {f"{v} grown": _mebibytes(row["peers_grown"].get(v)) for v in VARIANTS}
    cells["fusewire kept"] = seconds(row["fusewire_kept"])
    cells |= {f"{v} kept": seconds(row["peers_kept"].get(v)) for v in VARIANTS}
    return cells | {"best kept / fusewire": times(row["ratio_kept"])}


def filled(cells_of: Callable[[Row], Cells], rows: Sequence[Row]) -> list[str]:
    """Lines of a table without empty rows and columns."""
    found = {row["workload"]: cells_of(row) for row in rows}
    found = {name: cells for name, cells in found.items() if set(cells.values()) != {NONE}}
    columns = [head for head in cells_of(rows[0])
               if any(cells[head] != NONE for cells in found.values())]
    body = [[name, *(cells[head] for head in columns)] for name, cells in found.items()]
    return table(["workload", *columns], body) if body else []


def table(columns: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; all columns but the first are aligned to the right."""
    widths = [max(map(len, cells)) for cells in zip(columns, *body)]
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return [_line(cells, widths) for cells in (columns, rule, *body)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths)
    return "| " + " | ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]) + " |"


def seconds(value: float | None) -> str:
    """A time as three digits with its unit."""
    if value is None:
        return NONE
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1:
            return f"{_three(value * scale)} {unit}"
    return f"{_three(value * 1e9)} ns"


def times(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _mebibytes(size: float | None) -> str:
    return NONE if size is None else f"{size / 2**20:.0f}"


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def kernel_text(rows: Sequence[Row]) -> str:
    """The kernels of each compiled workload, the slowest first."""
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
