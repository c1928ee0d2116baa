"""Reads the lines of the tables of spellings.

A line is `kinds name(parameters) = expression | note |> hint`. The kinds are `f`, a function of the
package; `m`, a method of tensors; `i`, also a method that changes its tensor, `name_`. The
expression computes the result by functions of `fw` and of `frontends/torch/base/meanings.py`;
without one it is the function of `fw` of that name. A note says in words what else there is to
know. A line may go on below, indented. A hint is what a user of plain fusewire writes for the
method, if the expression does not say so by its first function.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple


class Spelling(NamedTuple):
    """One name of PyTorch and the expression of fusewire that computes it."""

    kinds: str
    name: str
    parameters: str
    expression: str
    note: str
    hint: str

    def hint_for(self, kind: str, methods: Collection[str]) -> str:
        """What to write for the name in plain fusewire, whose tensors have these `methods`.

        An empty text if it has the same name there, or if no expression is short enough.
        """
        called = re.match(r"fw\.([\w.]+)\(", self.expression)
        ours = called[1] if called else ""
        if kind == "m":
            return self.hint or (f"x.{ours}" if ours in methods else ours and f"fw.{ours}")
        found = (ours and f"fw.{ours}") or re.sub(r"^x\.(\w+)$", r"fw.\1", self.hint)
        return "" if found == f"fw.{self.name}" else found


def read(table: str) -> Iterator[Spelling]:
    """The spellings of a table."""
    for line in re.sub(r"\n +", " ", table.strip()).splitlines():
        head, _, hint = line.partition(" |> ")
        head, _, note = head.partition(" | ")
        signature, _, expression = head.partition(" = ")
        kinds, _, call = signature.strip().partition(" ")
        name, _, parameters = call.strip().partition("(")
        parameters = parameters.strip().removesuffix(")")
        own = ", ".join(p.split("=")[0].strip() for p in parameters.split(",") if p.strip() != "*")
        yield Spelling(kinds, name, parameters, expression.strip() or f"fw.{name}({own})",
                       note.strip(), hint.strip())
