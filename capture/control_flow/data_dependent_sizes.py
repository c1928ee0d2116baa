"""Data-dependent sizes, such as the number of elements that a mask selects, or `n` in `x[:n]`.

Such a size is a symbol of the trace, like the size of a dynamic axis. Questions about it are
decisions of the path, since its value is known only during the run. A replay computes the op or the
number, and reads the size from the shape of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ...eager.core.tensor import Tensor
from ...eager.errors import FusewireError
from ..graph.graph import Node
from ..scalars.scalar_expr import OPERATORS, ScalarExpr
from ..scalars.symbolic_scalar import plain_value
from ..sizes.size_expr import SizeExpr, constant
from ..sizes.symbolic_dim import Dim


class DataDependentSize(NamedTuple):
    """An element of a path: a node is computed whose size is data-dependent.

    If the size is that of a `formula`, no op computes the node: it is any array with as many
    elements.
    """

    node: Node
    site: str
    formula: ScalarExpr | None = None

    @property
    def name(self) -> str:
        """The name of its size."""
        return str(self.node.type.shape[0].expr)


_AFFINE = ("add", "sub", "mul", "neg", "pos")  # operators that size expressions have, too


class SizeFormula:
    """The formula of a whole number, as an expression over the sizes that its `parts` are."""

    def __init__(self, formula: ScalarExpr, expands: bool = True) -> None:
        """`expands`: the parts are below sums and products; else the formula is the one part."""
        self._formula = formula
        inner = {formula} if expands else set()
        for part in reversed(formula.parts):
            if part in inner and _is_affine(part):
                inner.update(part.args)
        self._inner = [p for p in formula.parts if p in inner and _is_affine(p)]
        below = {a for p in self._inner for a in p.args} or {formula}
        self._constants = [p for p in formula.parts if p in below and p.op == "constant"]
        self.parts = [p for p in formula.parts if p in below and p not in self._inner
                      and p.op != "constant"]

    def expr(self, sizes: Sequence[SizeExpr]) -> SizeExpr:
        """The expression, with these sizes for the parts."""
        known = dict(zip(self.parts, sizes, strict=True))
        known.update((p, constant(int(p.args[0].value))) for p in self._constants)
        for part in self._inner:
            known[part] = OPERATORS[part.op](*[known[a] for a in part.args])
        return known[self._formula]


def _is_affine(part: ScalarExpr) -> bool:
    """True if a size expression can express the part by its operands."""
    if part.op in ("floordiv", "mod"):
        divisor = part.args[1]
        return bool(divisor.op == "constant" and divisor.args[0].value > 0)
    return part.op in _AFFINE


_BYTE = np.zeros(1, bool)


def array_of_size(size: int) -> Any:
    """An array of this many elements, none of which has a meaning."""
    return np.ndarray((size,), bool, _BYTE, strides=(0,))


def decide_failure(tracer: Any, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
    """Makes the failure of an op depend on data-dependent sizes, since other sizes may succeed.
    Either the shape rule of the op asks about the sizes and fails, or their exact values become
    decisions of the run."""
    sizes = tracer.sizes
    if not sizes.values:
        return
    types = [tracer.node_of(x).type if isinstance(x, Tensor) else plain_value(x) for x in inputs]
    try:
        op.result(*types, **params)
    except FusewireError:
        return
    for n in (n for kind in types if isinstance(kind, TensorType) for n in kind.shape):
        if type(n) is Dim and sizes.is_measured(n.expr):
            sizes.leak(n, "an op that fails")
