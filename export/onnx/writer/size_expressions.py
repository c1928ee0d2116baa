"""Sizes inside a model: formulas over named sizes, computed from the shapes of its inputs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....capture.sizes.size_expr import Monomial, Quotient, SizeExpr, SizeSymbol
from ....capture.sizes.symbolic_dim import Dim, size_expr_of
from .graph_writer import Value, Writer

INT64 = np.dtype(np.int64)
LAST, FIRST = 2 ** 63 - 1, -2 ** 63  # ends of slices that mean: as far as the axis goes


class SizeWriter:
    """Computes sizes in a model, each formula once. Values are vectors of one int64."""

    def __init__(self, writer: Writer, found_in: Mapping[str, tuple[Value, int]]) -> None:
        self.writer, self.found_in = writer, found_in  # a name: the input and axis to read it from
        self.made: ChainMap[Any, Value] = ChainMap()  # by formula; what was read by name

    def one(self, size: Any) -> Value:
        """A size as a vector of one element."""
        return self._of(size_expr_of(size))

    def _of(self, expr: SizeExpr) -> Value:
        made = self.made.get(expr)
        if made is None:
            made = self.made[expr] = self._sum(expr)
        return made

    def number(self, size: Any, dtype: Any) -> Value:
        """A size as a 0-d tensor of `dtype`."""
        return self.writer.cast(self.writer.reshape(self.one(size), ()), dtype)

    def number_of(self, expr: SizeExpr) -> Value:
        """The same of a formula, as int64."""
        return self.writer.reshape(self._of(expr), ())

    def vector(self, sizes: Sequence[Any]) -> Value:
        """Sizes as one vector; runs of plain numbers are one constant."""
        if not any(type(n) is Dim for n in sizes):
            return self.writer.ints([int(n) for n in sizes])
        parts: list[Value] = []
        run: list[int] = []
        for n in sizes:
            if type(n) is not Dim:
                run.append(int(n))
                continue
            parts += [self.writer.ints(run)] if run else []
            parts.append(self.one(n))
            run = []
        parts += [self.writer.ints(run)] if run else []
        return parts[0] if len(parts) == 1 else self.writer.op("Concat", parts, INT64, axis=0)

    def _sum(self, expr: SizeExpr) -> Value:
        total: Value | None = None
        for m, c in expr.terms:
            term = self._term(m, abs(c) if total is not None else c)
            if total is None:
                total = term
            else:
                total = self.writer.op("Sub" if c < 0 else "Add", [total, term], INT64)
        return total if total is not None else self.writer.ints([0])

    def _term(self, m: Monomial, c: int) -> Value:
        factors = [self._atom(atom) for atom, power in m for _ in range(power)]
        out = self.writer.ints([c]) if c != 1 or not factors else factors.pop(0)
        for factor in factors:
            out = self.writer.op("Mul", [out, factor], INT64)
        return out

    def _atom(self, atom: SizeSymbol | Quotient) -> Value:
        if isinstance(atom, SizeSymbol):
            if atom.name not in self.made:
                x, axis = self.found_in[atom.name]
                self.made[atom.name] = self.writer.op("Shape", [x], INT64, start=axis,
                                                      end=axis + 1)
            return self.made[atom.name]
        num, den = self._of(atom.num), self._of(atom.den)
        low = atom.num.low()
        if low is None or low < 0:  # Div rounds towards zero, Mod has the sign of its divisor
            num = self.writer.op("Sub", [num, self.writer.op("Mod", [num, den], INT64)], INT64)
        return self.writer.op("Div", [num, den], INT64)


def along(place: Any, size: Any) -> Any:
    """A place of an axis as Slice takes it.

    A plain number where it is at a fixed distance from an end of the axis (from the back:
    negative), else the size itself.
    """
    if type(place) is not Dim:
        return place
    behind = size_expr_of(place) - size_expr_of(size)
    number = behind.number
    if number is None:
        return place
    return number if number < 0 else LAST
