"""Formats the report of `explain()` as text and, for notebooks, as HTML of the same parts."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# The HTML takes its colours from the page around it, light or dark.
_STYLE = ("font-family:ui-monospace,monospace;font-size:0.9em;line-height:1.45;"
          "border-left:3px solid rgba(128,128,128,0.5);padding-left:0.8em")
_CELL = "padding:0 1.2em 0 0;text-align:{};border:none;background:none;white-space:pre"


class ReportSection(NamedTuple):
    """A line with nested lines, or with a table whose first row holds the headings."""

    text: str
    parts: Sequence[ReportSection] = ()
    rows: Sequence[Sequence[str]] = ()


class Explanation(str):
    """The text of an explanation. A notebook shows it as HTML with foldable parts. `data` has the
    same facts as dictionaries, lists, texts and numbers."""

    parts: tuple[ReportSection, ...]
    data: Mapping[str, Any]

    def __new__(cls, parts: Sequence[ReportSection], data: Mapping[str, Any] | None = None
                ) -> Explanation:
        explanation = super().__new__(
            cls, "\n".join(line for part in parts for line in _lines(part, "")))
        explanation.parts, explanation.data = tuple(parts), data or {}
        return explanation

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The explanation as HTML: no scripts, nothing from elsewhere, everything escaped."""
        return f'<div style="{_STYLE}">{"".join(map(_html, self.parts))}</div>'


def _lines(part: ReportSection, indent: str) -> Iterator[str]:
    yield indent + part.text
    yield from (f"{indent}  {line}" for line in aligned(part.rows))
    for inner in part.parts:
        yield from _lines(inner, indent + "  ")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines: columns of numbers align right, others left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    sides = _sides(rows)
    return ["  ".join(cell.rjust(width) if side == "right" else cell.ljust(width)
                      for cell, width, side in zip(row, widths, sides)).rstrip() for row in rows]


def _sides(rows: Sequence[Sequence[str]]) -> list[str]:
    """The alignment of each column: "right" for numbers, else "left"."""
    columns = list(zip(*rows[1:])) or [()] * len(rows[0]) if rows else []
    return ["right" if c and all(_is_number(cell) for cell in c) else "left" for c in columns]


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.rstrip("%").replace(".", "", 1).strip().isdigit()


def _html(part: ReportSection) -> str:
    text = f'<span style="white-space:pre-wrap">{html.escape(part.text)}</span>'
    if not (part.parts or part.rows):
        return f"<div>{text}</div>"
    inner = _table(part.rows) + "".join(map(_html, part.parts))
    return (f'<details open><summary>{text}</summary>'
            f'<div style="padding-left:1.2em">{inner}</div></details>')


def _table(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    sides = _sides(rows)
    lines = ["".join(f'<{tag} style="{_CELL.format(side)}">{html.escape(cell)}</{tag}>'
                     for cell, side in zip(row, sides))
             for tag, row in zip(["th"] + ["td"] * (len(rows) - 1), rows)]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse:collapse">{body}</table>'
