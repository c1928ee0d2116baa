"""The cost of an op comes from its formula, so values that are costly are computed once."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import recorded

import fusewire as fw
from fusewire.capture.graph.graph import Node, Nodes
from fusewire.codegen.compile import lower_graph
from fusewire.codegen.ir import loop_ir
from fusewire.codegen.ir.loop_ir import Call, Kernel
from fusewire.codegen.ir.op_cost import node_cost
from fusewire.codegen.ir.scalar_ops import SCALAR, TRANSCENDENTAL, scalar_cost
from fusewire.codegen.ir.target_info import Machine
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core.op import OPS

F32, F64 = fw.float32, fw.float64
COSTLY = sorted({*TRANSCENDENTAL, "sigmoid", "logaddexp", "pow", "remainder", "floor_divide"}
                & OPS.keys())


def scalar_ops_in(kernel: Kernel) -> set[str]:
    """The names of the scalar operations of a kernel."""
    expressions = [e for s in loop_ir.walk(kernel.body) for e in loop_ir.expressions(s)]
    return {e.op for e in loop_ir.subexpressions(expressions) if isinstance(e, Call)}


def kernels_with(op: str, function: Any, *args: Any) -> int:
    """The number of kernels that compute a scalar operation."""
    _, launches = lower_graph(recorded(function, *args)[0], Machine())
    return sum(op in scalar_ops_in(launch.kernel) for launch in launches)


def node(op: str, *operands: Any, dtype: Any = F32, **params: Any) -> Node:
    """A node of an op over inputs of (4, 100); numbers are constants."""
    nodes = Nodes()
    inputs = [nodes.input(f"x{i}", TensorType((4, 100), dtype)) if x is None
              else nodes.const(x, dtype) for i, x in enumerate(operands)]
    return nodes.apply(op, inputs, params)


def operands_of(op: str) -> int:
    return OPS[op].meaning.__code__.co_argcount - 1


@pytest.mark.parametrize("op", COSTLY)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_an_op_costs_at_least_the_operations_of_its_formula(op: str, dtype: Any) -> None:
    cost = node_cost(node(op, *[None] * operands_of(op), dtype=dtype), on_gpu=False)
    assert cost >= min(scalar_cost(name, dtype, on_gpu=False) for name in TRANSCENDENTAL)


def test_the_cost_of_a_formula_is_the_sum_over_its_operations() -> None:
    parts = [scalar_cost(name, F32, on_gpu=False) for name in ("neg", "exp", "add", "div")]
    assert node_cost(node("sigmoid", None), on_gpu=False) == sum(parts)


def test_costs_depend_on_dtype_and_target() -> None:
    assert node_cost(node("sin", None, dtype=F64), False) > node_cost(node("sin", None), False)
    assert node_cost(node("sin", None), False) != node_cost(node("sin", None), True)


def test_simple_ops_and_views_cost_one() -> None:
    for simple in (node("add", None, None), node("maximum", None, 0.0),
                   node("reshape", None, shape=(400,)), node("where", True, None, None)):
        assert node_cost(simple, on_gpu=False) == 1


@pytest.mark.parametrize("name", SCALAR)
def test_every_scalar_operation_has_a_cost(name: str) -> None:
    assert all(scalar_cost(name, dtype, gpu) >= 1 for dtype in (F32, F64) for gpu in (False, True))


@pytest.mark.parametrize("op", COSTLY)
def test_a_costly_value_with_two_readers_is_computed_once(op: str) -> None:
    """One reader reduces over rows, the other over columns, so that they are two kernels."""
    x, y = fw.full((64, 100), 1.5), fw.full((64, 100), 1.25)
    compute, count = getattr(fw, op), operands_of(op)

    def function(x: fw.Tensor, y: fw.Tensor) -> Any:
        value = compute(*(x, y)[:count])
        return value.sum(0), (value + y).sum(1)

    _, launches = lower_graph(recorded(function, x, y)[0], Machine())
    names = set[str]().union(*[scalar_ops_in(launch.kernel) for launch in launches])
    costliest = max(names, key=lambda name: scalar_cost(name, F32, on_gpu=False))
    assert kernels_with(costliest, function, x, y) == 1


def test_a_cheap_value_with_two_readers_is_computed_by_both() -> None:
    x = fw.full((64, 100), 1.5)
    assert kernels_with("maximum", lambda x: (
        fw.maximum(x, 0.0).sum(0), (fw.maximum(x, 0.0) + x).sum(1)), x) == 2


def test_a_value_that_is_constant_along_rows_costs_little_per_element() -> None:
    """A division of row sums does not make the difference from the mean worth memory."""
    def centred(x: fw.Tensor) -> Any:
        difference = x - x.mean(1, keepdims=True)
        return difference.sum(0), (difference * difference).sum(1)

    _, launches = lower_graph(recorded(centred, fw.ones(64, 100))[0], Machine())
    assert max(b.size for launch in launches for b in launch.kernel.outputs) < 64 * 100
