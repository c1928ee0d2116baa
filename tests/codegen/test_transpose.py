"""Square blocks turned in registers, and the packing loops that use them."""

import numpy as np
import pytest
from loop_kernels import F32, F64, TARGETS, TASK, add, check_all, kernel, times

from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir.loop_ir import KernelBuffer, Transpose, const, walk
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.shapes import TensorType


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64, np.dtype("int32"), np.dtype("bool")])
@pytest.mark.parametrize(("size", "rows"), [(2, 2), (4, 3), (8, 8), (8, 1), (16, 16), (16, 13)])
def test_a_block_is_turned_as_the_interpreter_does(dtype, size, rows, target):
    x, y = KernelBuffer("x", dtype, 600), KernelBuffer("y", dtype, 900)
    turn = Transpose(y, add(times(TASK, 300), const(5)), 18, x, add(times(TASK, 290), const(3)),
                     17, size, rows)
    check_all([kernel([x], [y], [turn], tasks=2)], target)


def product(spec, left, right, dtype=F32):
    made = Nodes()
    x, y = made.input("x", TensorType(left, dtype)), made.input("y", TensorType(right, dtype))
    return Graph((x, y), (made.apply("contract", (x, y), {"spec": spec}),))


@pytest.mark.parametrize(("spec", "left", "right", "turned"), [
    ("ji,jk->ik", (48, 32), (48, 64), set()), ("ij,jk->ik", (32, 48), (48, 64), set()),
    ("ij,kj->ik", (32, 48), (64, 48), {"columns"})])
def test_what_lies_along_the_sums_is_turned_in_blocks(spec, left, right, turned):
    _, (launch,) = lower_graph(product(spec, left, right), Machine(64, 32))
    found = [s for s in walk(launch.kernel.body) if isinstance(s, Transpose)]
    assert {s.buffer.name for s in found} == turned


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("m, n, k", [(20, 16, 16), (20, 37, 53), (3, 70, 1300), (17, 130, 33)])
def test_what_does_not_fill_a_block_is_copied_singly(m, n, k, target):
    rng = np.random.default_rng(m)
    x, y = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32)
    (out,) = compile_graph(product("ij,kj->ik", (m, k), (n, k)), named(target))([x, y])
    np.testing.assert_allclose(out, x.astype(np.float64) @ y.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("z, i, j, y, k", [(2, 3, 4, 5, 2), (2, 12, 8, 20, 2), (2, 24, 64, 50, 3)])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_blocks_are_turned_behind_a_reshape(z, i, j, y, k, dtype, target):
    """Rows are as far apart as ever, though the place of a block is a quotient and a remainder."""
    rng, made = np.random.default_rng(0), Nodes()
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in ((z, 1, i, j), (y, j, k))]
    nodes = [made.input(f"x{n}", TensorType(a.shape, a.dtype)) for n, a in enumerate(arrays)]
    rows = made.apply("reshape", (nodes[0],), {"shape": (z, i, j)})
    out = made.apply("contract", (rows, nodes[1]), {"spec": "zij,yjk->zyik"})
    (got,) = compile_graph(Graph(tuple(nodes), (out,)), named(target))(list(arrays))
    wide = arrays[0][:, 0].astype(np.float64), arrays[1].astype(np.float64)
    np.testing.assert_allclose(got, np.einsum("zij,yjk->zyik", *wide), rtol=1e-4, atol=1e-4)
