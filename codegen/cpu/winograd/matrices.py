"""Derives the Toom-Cook transforms of tiles exactly, from evaluation points of polynomials.

m results of a filter of 3 are y = A ((G g) * (B d)), where * multiplies element by element: g and d
as polynomials are evaluated at m + 1 points and at infinity, multiplied there, and interpolated. In
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
FractionMatrix = tuple[tuple[Fraction, ...], ...]
# Of the points tried for 4 results, these lose the fewest digits: an error of 2e-6 in place of 4e-6
# with 0, 1, -1, 2, -2, at the same speed.
_POINTS_OF = {2: (0, 1, -1), 4: (0, 1, -1, Fraction(1, 2), -2)}
SIZES = tuple(_POINTS_OF)


@dataclass(frozen=True)
class Transforms:
    """The matrices for tiles of `results` by `results`: of the data (B), the weights (G), the
    output (A)."""

    results: int
    data: FractionMatrix
    weights: FractionMatrix
    output: FractionMatrix

    @property
    def side(self) -> int:
        """Elements along each side of a tile of the data."""
        return self.results + KERNEL - 1


@functools.cache
def transforms(results: int) -> Transforms:
    """The transforms that compute so many results along each axis, one of `SIZES`."""
    points = [Fraction(p) for p in _POINTS_OF[results]]
    side = len(points) + 1
    data = [
        _padded(_polynomial_with_zeros([q for q in points if q is not p]), side) for p in points
    ]
    weights = [[p ** k / _product_of_differences(p, points) for k in range(KERNEL)] for p in points]
    output = [[p ** i for p in points] + [Fraction(i == results - 1)] for i in range(results)]
    return Transforms(results, _as_matrix([*data, _polynomial_with_zeros(points)]),
                      _as_matrix([*weights, [Fraction(k == KERNEL - 1) for k in range(KERNEL)]]),
                      _as_matrix(output))


def _polynomial_with_zeros(points: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients, lowest first, of the polynomial that is 0 at these points."""
    coefficients = [Fraction(1)]
    for p in points:
        shifted = [Fraction(0), *coefficients]
        coefficients = [a - p * b for a, b in zip(shifted, [*coefficients, Fraction(0)])]
    return coefficients


def _padded(row: list[Fraction], size: int) -> list[Fraction]:
    return row + [Fraction(0)] * (size - len(row))


def _product_of_differences(p: Fraction, points: Sequence[Fraction]) -> Fraction:
    product = Fraction(1)
    for q in points:
        product *= p - q if q is not p else 1
    return product


def _as_matrix(rows: Sequence[Sequence[Fraction]]) -> FractionMatrix:
    return tuple(tuple(row) for row in rows)


def transposed(matrix: FractionMatrix) -> FractionMatrix:
    """The matrix with rows and columns swapped."""
    return tuple(zip(*matrix))


# ---- as statements
Square = Sequence[Sequence[Expr]]


def on_both_sides(matrix: FractionMatrix, square: Square, name: str
                  ) -> tuple[list[Stmt], list[Register]]:
    """Statements that apply a matrix to the columns and then to the rows of a square, and the
    result registers, row by row."""
    all_statements: list[Stmt] = []
    columns = []
    for j, column in enumerate(zip(*square)):
        statements, registers = _apply_matrix(matrix, column, f"{name}c{j}_")
        all_statements += statements
        columns.append(registers)
    results: list[Register] = []
    for i, row in enumerate(zip(*columns)):
        statements, registers = _apply_matrix(
            matrix, [loop_ir.read(r) for r in row], f"{name}r{i}_"
        )
        all_statements += statements
        results += registers
    return all_statements, results


def _apply_matrix(matrix: FractionMatrix, values: Sequence[Expr], name: str
                  ) -> tuple[list[Stmt], list[Register]]:
    """Statements for a matrix times a vector of values, and the register of each sum."""
    statements: list[Stmt] = []
    registers = []
    for i, row in enumerate(matrix):
        register = Register(f"{name}{i}", values[0].dtype)
        # a term without multiplication begins the sum
        terms = sorted([(c, x) for c, x in zip(row, values) if c], key=lambda t: t[0] != 1)
        products = [_times(c, x) for c, x in terms]
        statements.append(loop_ir.Assign(register, products[0]))
        statements += [loop_ir.Update(register, "add", p) for p in products[1:]]
        registers.append(register)
    return statements, registers


def _times(factor: Fraction, x: Expr) -> Expr:
    return x if factor == 1 else loop_ir.call(
        "mul", (loop_ir.const(float(factor), x.dtype), x), x.dtype)
