"""Defines the sizes that a program of a library is for, and shapes as formulas of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ...capture.sizes.size_expr import SizeExpr, SizeSymbol
from ...capture.sizes.symbolic_dim import size_expr_of
from ...eager.arrays.shapes import TensorType
from ...eager.errors import CodegenError


class SizeFormula(NamedTuple):
    """A factor times the dynamic sizes with these numbers, which may repeat, plus an offset."""

    factor: int
    sizes: tuple[int, ...] = ()
    offset: int = 0

    def value(self, sizes: Sequence[int]) -> int:
        """The value for these sizes."""
        return self.factor * math.prod(sizes[i] for i in self.sizes) + self.offset


Shape = tuple[SizeFormula, ...]


@dataclass(frozen=True)
class SizeRanges:
    """The least and the largest value of each dynamic size, in the order of the library."""

    ranges: Mapping[str, tuple[int, int]]

    @cached_property
    def names(self) -> list[str]:
        return [*self.ranges]

    @cached_property
    def largest(self) -> dict[str, int]:
        """The largest value of each size."""
        return {name: most for name, (_, most) in self.ranges.items()}

    @cached_property
    def fixed(self) -> bool:
        """True if each size has one value."""
        return all(least == most for least, most in self.ranges.values())

    def shape(self, shape: Iterable[Any]) -> Shape:
        """A shape as formulas. CodegenError for a size that is no product of dynamic sizes."""
        return tuple([self.formula(size_expr_of(n)) for n in shape])

    def formula(self, size: SizeExpr) -> SizeFormula:
        """A size as a formula. CodegenError if it is no product of dynamic sizes."""
        if self.fixed or size.number is not None:
            return SizeFormula(size.value(self.largest))
        offset = sum(factor for atoms, factor in size.terms if not atoms)
        products = [(atoms, factor) for atoms, factor in size.terms if atoms]
        (atoms, factor), *others = products
        if others or not all(isinstance(atom, SizeSymbol) for atom, _ in atoms):
            raise CodegenError(f"{size}, a size of a value, is not a product of dynamic sizes")
        return SizeFormula(factor, tuple([self.names.index(atom.name) for atom, power in atoms
                                          if isinstance(atom, SizeSymbol) for _ in range(power)]),
                           offset)

    def most_bytes(self, type: TensorType) -> int:
        """The bytes of a value of this type at the largest sizes."""
        count = 1
        for size in self.shape(type.shape):
            count *= size.value([*self.largest.values()])
        return int(count * type.dtype.itemsize)


def constant_shape(shape: Iterable[int]) -> Shape:
    """A shape of constant sizes, as formulas."""
    return tuple(map(SizeFormula, shape))
