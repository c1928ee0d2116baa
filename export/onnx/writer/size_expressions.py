"""Computes sizes inside a model from the shapes of its inputs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....capture.sizes.size_expr import Monomial, Quotient, SizeExpr, SizeSymbol
from ....capture.sizes.symbolic_dim import Dim, size_expr_of
from .graph_writer import OnnxValue, Writer

INT64 = np.dtype(np.int64)
LAST, FIRST = 2 ** 63 - 1, -2 ** 63  # ends of slices that stand for the end of the axis


class SizeWriter:
    """Computes sizes in a model, each formula once. Its values are int64 vectors of one element."""

    def __init__(self, writer: Writer, axes_by_name: Mapping[str, tuple[OnnxValue, int]]) -> None:
        self.writer, self.axes_by_name = writer, axes_by_name  # (input, axis) of each size
        self.values: ChainMap[Any, OnnxValue] = ChainMap()  # by formula, or by name

    def one(self, size: Any) -> OnnxValue:
        """A size as a vector of one element."""
        return self._of(size_expr_of(size))

    def _of(self, expr: SizeExpr) -> OnnxValue:
        value = self.values.get(expr)
        if value is None:
            value = self.values[expr] = self._sum(expr)
        return value

    def number(self, size: Any, dtype: Any) -> OnnxValue:
        """A size as a 0-d tensor of `dtype`."""
        return self.writer.cast(self.writer.reshape(self.one(size), ()), dtype)

    def number_of(self, expr: SizeExpr) -> OnnxValue:
        """The value of a size formula as a 0-d int64 tensor."""
        return self.writer.reshape(self._of(expr), ())

    def vector(self, sizes: Sequence[Any]) -> OnnxValue:
        """Sizes as one vector; runs of ints are one constant."""
        if not any(type(n) is Dim for n in sizes):
            return self.writer.ints([int(n) for n in sizes])
        parts: list[OnnxValue] = []
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

    def _sum(self, expr: SizeExpr) -> OnnxValue:
        total: OnnxValue | None = None
        for m, c in expr.terms:
            term = self._term(m, abs(c) if total is not None else c)
            if total is None:
                total = term
            else:
                total = self.writer.op("Sub" if c < 0 else "Add", [total, term], INT64)
        return total if total is not None else self.writer.ints([0])

    def _term(self, m: Monomial, c: int) -> OnnxValue:
        factors = [self._atom(atom) for atom, power in m for _ in range(power)]
        out = self.writer.ints([c]) if c != 1 or not factors else factors.pop(0)
        for factor in factors:
            out = self.writer.op("Mul", [out, factor], INT64)
        return out

    def _atom(self, atom: SizeSymbol | Quotient) -> OnnxValue:
        if isinstance(atom, SizeSymbol):
            if atom.name not in self.values:
                x, axis = self.axes_by_name[atom.name]
                self.values[atom.name] = self.writer.op("Shape", [x], INT64, start=axis,
                                                        end=axis + 1)
            return self.values[atom.name]
        num, den = self._of(atom.num), self._of(atom.den)
        low = atom.num.low()
        if low is None or low < 0:  # Div rounds towards zero, Mod has the sign of its divisor
            num = self.writer.op("Sub", [num, self.writer.op("Mod", [num, den], INT64)], INT64)
        return self.writer.op("Div", [num, den], INT64)


def along(position: Any, size: Any) -> Any:
    """A position on an axis, as Slice takes it.

    Returns an int if it has a fixed distance from an end of the axis (negative from the end), else
    the size itself.
    """
    if type(position) is not Dim:
        return position
    behind = size_expr_of(position) - size_expr_of(size)
    number = behind.number
    if number is None:
        return position
    return number if number < 0 else LAST
