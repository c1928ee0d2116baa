"""Sums of products, such as gradients of a weight in each step of a loop, become one product."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, recorded

import fusewire as fw
from fusewire import nn
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.passes.batch_matmul import merge_products
from fusewire.capture.passes.transpose_matmul import transpose_products
from fusewire.codegen.compile import compile_native, lower_graph
from fusewire.codegen.ir.target_info import Machine

STEPS = 12


def whole(*shape: int, dtype: Any = np.float32) -> Any:
    """Small integers: their sums are the same in any order."""
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


def products(graph: Graph) -> int:
    return sum(n.op == "contract" for n in graph.nodes())


def joined(run: Callable[..., Any], *arrays: Any) -> tuple[Graph, int]:
    """The graph of a function with its products joined, and how many fewer these are. Its values
    are the same, and so are those of its code."""
    graph, given = recorded(run, *map(fw.from_numpy, arrays))
    found = merge_products(transpose_products(graph))
    for got, also, want in zip(evaluate(found, given), compile_native(graph)(given),
                               evaluate(graph, given)):
        assert got.tobytes() == np.asarray(also).tobytes() == want.tobytes()
    return found, products(graph) - products(found)


def gradient(x: fw.Tensor, g: fw.Tensor, steps: int = STEPS) -> fw.Tensor:
    """What a weight's gradient is, summed over steps."""
    found = [x[t].T @ g[t] for t in range(steps)]
    return sum(found[1:], found[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_of_products_is_one_product(dtype: Any) -> None:
    graph, fewer = joined(gradient, whole(STEPS, 2, 16, dtype=dtype),
                          whole(STEPS, 2, 24, dtype=dtype))
    assert fewer == STEPS - 1
    assert {n.op for n in graph.nodes()}.isdisjoint({"add"})


def test_products_that_are_read_transposed_are_joined() -> None:
    def run(x: fw.Tensor, g: fw.Tensor) -> fw.Tensor:
        return sum(((g[t].T @ x[t]).T for t in range(1, STEPS)), x[0].T @ g[0])

    _, fewer = joined(run, whole(STEPS, 2, 16), whole(STEPS, 2, 24))
    assert fewer >= STEPS - 2


def test_steps_may_have_different_numbers_of_rows() -> None:
    def run(x: fw.Tensor, g: fw.Tensor) -> fw.Tensor:
        sizes = [1 + t % 3 for t in range(STEPS)]
        found = [x[t, :n].T @ g[t, :n] for t, n in enumerate(sizes)]
        return sum(found[1:], found[0])

    _, fewer = joined(run, whole(STEPS, 3, 16), whole(STEPS, 3, 24))
    assert fewer == STEPS - 1


def test_all_else_that_is_added_stays() -> None:
    """Another summand, and products that sum over two axes, which are one product of their own."""
    def run(x: fw.Tensor, g: fw.Tensor, w: fw.Tensor, y: fw.Tensor, z: fw.Tensor) -> fw.Tensor:
        others = [fw.tensordot(y[t], z[t], ((0, 1), (0, 1))) for t in range(STEPS)]
        return sum(others, w + gradient(x, g))

    graph, fewer = joined(run, whole(STEPS, 2, 16), whole(STEPS, 2, 24), whole(16, 24),
                          whole(STEPS, 2, 2, 16), whole(STEPS, 2, 2, 24))
    assert fewer == 2 * (STEPS - 1)
    assert [n.op for n in graph.nodes()].count("add") == 2


def test_a_product_that_is_read_by_others_stays_as_well() -> None:
    def run(x: fw.Tensor, g: fw.Tensor) -> Any:
        found = [x[t].T @ g[t] for t in range(STEPS)]
        return sum(found[1:], found[0]), found[3], found[5] * 2

    _, fewer = joined(run, whole(STEPS, 2, 16), whole(STEPS, 2, 24))
    assert fewer == STEPS - 3


@pytest.mark.parametrize("run, shapes", [
    (lambda x, g: gradient(x, g, 8), [(8, 2, 16), (8, 2, 24)]),   # too few
    (gradient, [(STEPS, 40, 16), (STEPS, 40, 24)]),               # more to read than to write
    (lambda x, g: sum((x[t, :, None] * g[t] for t in range(1, STEPS)), x[0, :, None] * g[0]),
     [(STEPS, 16), (STEPS, 24)]),                                 # nothing is summed
])
def test_where_it_is_not_worth_it_nothing_is_joined(run: Any, shapes: Any) -> None:
    _, fewer = joined(run, *(whole(*shape) for shape in shapes))
    assert fewer == 0


def test_small_floats_are_rounded_where_they_are_in_eager() -> None:
    graph, _ = recorded(gradient, *(fw.from_numpy(whole(STEPS, 2, n)).astype(fw.float16)
                                    for n in (16, 24)))
    assert merge_products(graph) is graph


# ---- training
class Recurrent(nn.Module):
    """A layer that is called at each step, as users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 16)

    def forward(self, x: fw.Tensor) -> tuple[fw.Tensor, None]:
        h = fw.zeros(x.shape[1], 16)
        for row in x:
            h = fw.tanh(self.linear(fw.concat([row, h], 1)))
        return h, None


@pytest.mark.parametrize("make", [lambda: nn.LSTM(16, 16), lambda: nn.GRU(16, 16), Recurrent])
def test_gradients_of_recurrent_layers_are_products_over_all_steps(make: Any) -> None:
    fw.manual_seed(0)
    model = make()
    x = np.random.default_rng(1).standard_normal((STEPS, 3, 16)).astype(np.float32)

    def gradients(x: fw.Tensor) -> list[fw.Tensor]:
        model.zero_grad()
        model(x)[0].square().sum().backward()
        return [p.grad for p in model.parameters()]

    want = [g.numpy() for g in gradients(fw.from_numpy(x))]
    graph, given = recorded(gradients, fw.from_numpy(x))
    found = merge_products(transpose_products(graph))
    assert products(graph) - products(found) >= STEPS - 2
    for got, also in zip(compile_native(graph)(given), want):
        assert_same(np.asarray(got).reshape(also.shape), also, 100.0)


# ---- weights that many products read
def packing(run: Callable[..., Any], *arrays: Any) -> int:
    """How often columns are packed in the program of a function, whose values are right."""
    graph, given = recorded(run, *map(fw.from_numpy, arrays))
    for got, want in zip(compile_native(graph)([a.copy() for a in given]),
                         evaluate(graph, given)):
        assert_same(np.asarray(got).reshape(want.shape), want, 100.0)
    _, launches = lower_graph(graph, Machine())
    return sum("pack_columns" in x.kernel.name for x in launches)


def turned(h: fw.Tensor, w: fw.Tensor, v: fw.Tensor) -> fw.Tensor:
    """Steps each of which reads all of what the one before gave, no two of them in a row alike."""
    for step, function in enumerate((fw.tanh, fw.sigmoid, fw.sin) * 4):
        h = h @ (v if step % 2 else w)
        h = function(h) + (0.5 - 0.01 * step) * fw.flip(h, 0)
    return h


def test_a_weight_that_every_step_reads_is_packed_once() -> None:
    assert packing(lambda h, w: turned(h, w, w), whole(16, 64), normal(64, 64)) == 1


def test_one_that_few_products_read_is_packed_by_each_of_them() -> None:
    assert packing(turned, whole(16, 64), normal(64, 64), normal(64, 64)) == 0


def test_the_same_weight_transposed_is_packed_for_itself() -> None:
    def run(h: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        return turned(turned(h, w, w), w.T, w.T)

    assert packing(run, whole(16, 64), normal(64, 64)) == 2


def test_a_weight_that_changes_is_packed_anew() -> None:
    """A step of an optimizer writes the new weight over the old one."""
    model = nn.Linear(64, 64, bias=False)
    w = model.weight.numpy().copy()

    @fw.compile(fullgraph=True)
    def step(h: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        with fw.no_grad():
            before = turned(h, model.weight, model.weight)
            model.weight.mul_(0.5)
            return before, turned(h, model.weight, model.weight)

    h = normal(16, 64)
    for _ in range(4):
        for got, factor in zip(step(fw.from_numpy(h)), (1.0, 0.5)):
            here = fw.from_numpy(w * np.float32(factor))
            want = turned(fw.from_numpy(h), here, here)
            assert_same(got, want, 100.0)
        w = w * np.float32(0.5)


def normal(*shape: int) -> Any:
    return 0.1 * np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
