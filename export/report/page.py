"""Makes the parts of a report: the document, sections, tables, tiles, and the compiled program."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

STYLE = Path(__file__).with_name("page.css")
KERNELS = 15   # rows of the table; one more row sums up the others


def document(title: str, parts: Iterable[str], footer: str = "", style: str = "") -> str:
    """A whole HTML document, which needs no other file; `parts` are its contents, `style` is CSS
    beside that of all reports."""
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(title)}</title>\n"
            f"<style>\n{STYLE.read_text(encoding='utf-8')}{style}</style>\n</head>\n<body>\n"
            + "\n".join(parts) + "\n" + footer + "</body>\n</html>\n")


def tiles(rows: Iterable[tuple[str, str, str]]) -> str:
    """Large figures side by side: (value, label, CSS class) of each."""
    shown = "".join(f'<div class="tile {css}"><b>{value}</b><span>{label}</span></div>'
                    for value, label, css in rows)
    return f'<div class="tiles">{shown}</div>'


def milliseconds(seconds: float) -> str:
    """A duration as a tile shows it."""
    return f"{1e3 * seconds:.1f}<small> ms</small>"


def legend(names: Mapping[str, str]) -> str:
    """The names of lines by their CSS classes."""
    spans = "".join(f'<span><i class="{css}"></i>{text}</span>' for css, text in names.items())
    return f'<div class="legend">{spans}</div>'


def compiled_program(kernels: Sequence[Mapping[str, Any]], explanation: str) -> str:
    """The section on the kernels of a training step; empty without kernels."""
    rows = sorted(kernels, key=lambda row: -float(row["seconds"]))
    if not rows:
        return ""
    total = sum(float(row["seconds"]) for row in rows) or 1.0
    note = (f"The training step became {len(rows)} kernels, called by one native program. "
            f"Their times add up to {1e3 * total:.2f} ms; the slowest come first.")
    head = ("Kernel", "From line", "Time", "Share", "", "Memory", "Arithmetic")
    body = [_kernel(row, total) for row in rows[:KERNELS]]
    if rows[KERNELS:]:
        body.append(_kernel(_summed(rows[KERNELS:]), total))
    shown = table(head, body, numbers=(2, 3, 5, 6), bars=(4,))
    text = html.escape(explanation)
    more = f"<details><summary>explain()</summary><pre>{text}</pre></details>" if text else ""
    return section("Compiled program", note, shown + more)


def _summed(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    sums = {key: sum(float(row[key]) for row in rows) for key in ("seconds", "bytes", "flops")}
    return {"name": f"{len(rows)} others", "line": "", **sums}


def _kernel(row: Mapping[str, Any], total: float) -> list[str]:
    seconds = float(row["seconds"])
    lines = str(row["line"]).replace("\\", "/").split(", ")
    line = ", ".join(p.rsplit("/", 1)[-1] for p in lines)  # without the folders
    share = 100 * seconds / total
    return [_code(str(row["name"])), _code(line),
            f"{1e6 * seconds:.0f} µs", f"{share:.0f} %", f'<i style="width:{share:.1f}%"></i>',
            _rate(row["bytes"], seconds, "GB/s"), _rate(row["flops"], seconds, "GFLOP/s")]


def _code(text: str) -> str:
    """`text` as one line of code, truncated if too long, with the whole text as a tooltip."""
    text = html.escape(text)
    return f'<span class="cut mono" title="{text}">{text}</span>'


def _rate(amount: Any, seconds: float, unit: str) -> str:
    return f"{float(amount) / seconds / 1e9:.1f} {unit}" if seconds > 0 and amount else "–"


def section(title: str, note: str, content: str) -> str:
    """A part of the page under a heading."""
    text = f'<p class="note">{note}</p>' if note else ""
    return f"<section><h2>{title}</h2>{text}{content}</section>"


def table(head: Iterable[str], body: Iterable[Sequence[str]], numbers: Sequence[int] = (),
          bars: Sequence[int] = (), css: str = "") -> str:
    """A table; `numbers` are columns of numbers, `bars` columns of bars."""
    classes = {**dict.fromkeys(numbers, "number"), **dict.fromkeys(bars, "bar")}
    top = _row("th", head, classes)
    rows = "".join(_row("td", row, classes) for row in body)
    return f'<table class="{css}"><thead>{top}</thead><tbody>{rows}</tbody></table>'


def _row(tag: str, texts: Iterable[str], classes: Mapping[int, str]) -> str:
    cells = (f'<{tag} class="{classes.get(i, "")}">{text}</{tag}>' for i, text in enumerate(texts))
    return f"<tr>{''.join(cells)}</tr>"
