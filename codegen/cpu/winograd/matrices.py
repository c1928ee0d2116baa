"""The transforms of tiles by Toom and Cook, exactly from the points where polynomials are known.

m results of a filter of 3 are y = A ((G g) * (B d)), where * multiplies element by element: g and d
as polynomials are evaluated at m + 1 points and at infinity, multiplied there, and taken apart. In
two dimensions every transform is applied to the columns, and then to the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...ir import loop_ir
from ...ir.loop_ir import Expr, Register, Stmt

KERNEL = 3
Matrix = tuple[tuple[Fraction, ...], ...]
# Of the points tried for 4 results, these lose the fewest digits: an error of 2e-6 in place of 4e-6
# with 0, 1, -1, 2, -2, at the same speed.
_POINTS = {2: (0, 1, -1), 4: (0, 1, -1, Fraction(1, 2), -2)}
SIZES = tuple(_POINTS)


@dataclass(frozen=True)
class Transforms:
    """The matrices for tiles of `results` by `results`: of data (B), weights (G), results (A)."""

    results: int
    data: Matrix
    weights: Matrix
    back: Matrix

    @property
    def side(self) -> int:
        """Elements along each side of a tile of the data."""
        return self.results + KERNEL - 1


@functools.cache
def transforms(results: int) -> Transforms:
    """The transforms that give so many results along each axis, one of `SIZES`."""
    points = [Fraction(p) for p in _POINTS[results]]
    side = len(points) + 1
    data = [_padded(_with_zeros([q for q in points if q is not p]), side) for p in points]
    weights = [[p ** k / _differences(p, points) for k in range(KERNEL)] for p in points]
    back = [[p ** i for p in points] + [Fraction(i == results - 1)] for i in range(results)]
    return Transforms(results, _frozen([*data, _with_zeros(points)]),
                      _frozen([*weights, [Fraction(k == KERNEL - 1) for k in range(KERNEL)]]),
                      _frozen(back))


def _with_zeros(points: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients, lowest first, of the polynomial that is 0 at these points."""
    made = [Fraction(1)]
    for p in points:
        shifted = [Fraction(0), *made]
        made = [a - p * b for a, b in zip(shifted, [*made, Fraction(0)])]
    return made


def _padded(row: list[Fraction], size: int) -> list[Fraction]:
    return row + [Fraction(0)] * (size - len(row))


def _differences(p: Fraction, points: Sequence[Fraction]) -> Fraction:
    made = Fraction(1)
    for q in points:
        made *= p - q if q is not p else 1
    return made


def _frozen(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


def transposed(matrix: Matrix) -> Matrix:
    """Rows as columns."""
    return tuple(zip(*matrix))


# ---- as statements
Square = Sequence[Sequence[Expr]]


def on_both_sides(matrix: Matrix, square: Square, name: str) -> tuple[list[Stmt], list[Register]]:
    """Statements that apply a matrix to the columns and then the rows of a square of values, and
    the registers of what that gives, row by row."""
    out: list[Stmt] = []
    columns = []
    for j, column in enumerate(zip(*square)):
        made, found = _applied(matrix, column, f"{name}c{j}_")
        out += made
        columns.append(found)
    results: list[Register] = []
    for i, row in enumerate(zip(*columns)):
        made, found = _applied(matrix, [loop_ir.read(r) for r in row], f"{name}r{i}_")
        out += made
        results += found
    return out, results


def _applied(matrix: Matrix, values: Sequence[Expr], name: str
             ) -> tuple[list[Stmt], list[Register]]:
    """A matrix times a vector of values, each sum in a register of its own."""
    out: list[Stmt] = []
    registers = []
    for i, row in enumerate(matrix):
        register = Register(f"{name}{i}", values[0].dtype)
        # one that needs no multiplication begins the sum
        terms = sorted([(c, x) for c, x in zip(row, values) if c], key=lambda t: t[0] != 1)
        products = [_times(c, x) for c, x in terms]
        out.append(loop_ir.Assign(register, products[0]))
        out += [loop_ir.Update(register, "add", p) for p in products[1:]]
        registers.append(register)
    return out, registers


def _times(factor: Fraction, x: Expr) -> Expr:
    return x if factor == 1 else loop_ir.call(
        "mul", (loop_ir.const(float(factor), x.dtype), x), x.dtype)
