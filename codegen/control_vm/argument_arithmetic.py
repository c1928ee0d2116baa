"""Lowers arithmetic with numbers and sizes of the arguments to instructions of the control VM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...capture.heap.access_path import Path
from ...capture.sizes.size_expr import SizeExpr, SizeSymbol
from .assembler import ControlAssembler, ControlOperand, NotNativelyControlled
from .extra_arrays import ExtraArrays
from .scalar_arithmetic import ScalarArithmetic

_DTYPES = {int: np.dtype(np.int64), float: np.dtype(np.float64)}  # of arrays of numbers


class ArgumentArithmetic(ScalarArithmetic):
    """Computes with numbers and sizes of the arguments, too."""

    def __init__(self, assembler: ControlAssembler, extra: ExtraArrays,
                 type_of: Callable[[Path], type]) -> None:
        """type_of: the guarded type of the number at a path."""
        super().__init__(assembler)
        self._extra, self._type_of = extra, type_of

    def argument(self, path: Path) -> ControlOperand:
        kind = self._type_of(path)
        if kind not in _DTYPES:
            raise NotNativelyControlled(f"it computes with a {kind.__name__} of the arguments")
        dtype = _DTYPES[kind]
        return self.element(self._extra.number(path, dtype), dtype)

    def size(self, size: SizeExpr) -> ControlOperand:
        total = self.constant(0)
        for monomial, factor in size.terms:
            term = self.constant(factor)
            for atom, power in monomial:
                for _ in range(power):
                    term = self.compute("mul", term, self._atom(atom))
            total = self.compute("add", total, term)
        return total

    def _atom(self, atom: Any) -> ControlOperand:
        if not isinstance(atom, SizeSymbol):
            return self.compute("floordiv", self.size(atom.num), self.size(atom.den))
        name = atom.name
        array = self._extra.of_sizes(("size", name), lambda sizes: np.array(sizes[name], np.int64))
        return self.element(array, np.dtype(np.int64))
