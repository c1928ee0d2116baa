"""A function as a forward and a backward graph: gradients equal to eager's, few saved values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.capture.autodiff.partition import ForwardBackward, partition
from fusewire.capture.autodiff.partitioner import RECOMPUTED_KINDS, saved_values
from fusewire.capture.graph.graph import SPECIAL, Node, Nodes
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core.op import OPS

Function = Callable[..., Any]
F64 = np.dtype("float64")


def parts_of(fn: Function, shapes: Sequence[tuple[int, ...]], needs: Sequence[bool] = ()
             ) -> ForwardBackward:
    def results(tensors: Sequence[fw.Tensor]) -> tuple[fw.Tensor, ...]:
        found = fn(*tensors)
        return found if isinstance(found, tuple) else (found,)

    return partition(results, [TensorType(s, F64) for s in shapes], needs or [True] * len(shapes))


TABLE: dict[str, tuple[Function, list[tuple[int, ...]], list[str]]] = {
    "inputs are at hand": (lambda x, y: x * y, [(4, 5), (4, 5)], []),
    "an elementwise chain is computed again": (lambda x: fw.tanh(fw.exp(x) * 2), [(4, 5)], []),
    "a linear function reads nothing": (lambda x: (x * 3).sum(axis=0), [(4, 5)], []),
    "a product that a nonlinear function reads": (
        lambda x, w: fw.tanh(x @ w), [(4, 5), (5, 6)], ["tanh"]),
    "a product that is only added is not read": (
        lambda x, w, b: x @ w + b, [(4, 5), (5, 6), (6,)], []),
    "a result is not stored twice": (lambda x, w: fw.exp(x @ w), [(4, 5), (5, 6)], ["exp"]),
    "two layers save what lies between them": (
        lambda x, v, w: fw.sum(fw.tanh(x @ v) @ w), [(4, 5), (5, 6), (6, 3)], ["tanh"]),
    "a small sum instead of the large value that it divides": (
        lambda x: x / fw.sum(x * x, axis=1, keepdims=True), [(4, 50)], ["sum"]),
    "a view of a product is read through the view": (
        lambda x, w: fw.sin((x @ w).reshape(-1)).sum(), [(4, 5), (5, 6)], ["cos"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_few_values_are_saved(name: str) -> None:
    fn, shapes, ops = TABLE[name]
    assert [node.op for node in parts_of(fn, shapes).saved] == ops


def test_without_gradients_nothing_is_saved() -> None:
    parts = parts_of(lambda x, w: fw.tanh(x @ w), [(4, 5), (5, 6)], [False, False])
    assert parts.saved == [] and len(parts.forward.outputs) == 1


def test_only_what_needed_gradients_read_is_saved() -> None:
    """The gradient of `w` reads x, that of `x` reads w: no product of the two."""
    parts = parts_of(lambda x, w, v: (x @ w) @ v, [(4, 5), (5, 6), (6, 7)], [True, True, False])
    assert parts.saved == []


@pytest.mark.parametrize(("fn", "reads"), [
    (lambda x, y, z: x * 3 + y + z, []), (lambda x, y, z: x * y + z, [0, 1]),
    (lambda x, y, z: x @ y.T @ z, [0, 1, 2, 3]),
    (lambda x, y, z: fw.tanh(x @ z.T).sum() + y, [0, 2, 3]),
])
def test_a_backward_takes_what_it_reads(fn: Function, reads: list[int]) -> None:
    """The inputs count from 0, saved values behind them."""
    assert sorted(parts_of(fn, [(4, 4)] * 3).backward((0,), None).reads) == reads


# ---- random functions
POINTWISE: list[Function] = [fw.exp, fw.tanh, fw.sin, lambda x: x * x, lambda x: fw.maximum(x, 0.1),
                             lambda x: x * 0.5 - 1, lambda x: x / (1 + x * x), fw.sigmoid]
STEPS: list[Function] = [
    lambda pointwise, x, y: pointwise(x), lambda pointwise, x, y: x * y,
    lambda pointwise, x, y: fw.tanh(x) @ y * 0.3, lambda pointwise, x, y: x.T + y,
    lambda pointwise, x, y: x - fw.mean(x, axis=1, keepdims=True),
    lambda pointwise, x, y: fw.softmax(x, axis=-1)]


def random_function(seed: int) -> tuple[Function, list[tuple[int, ...]]]:
    """A function of two to four matrices with one or two results, of ten random steps."""
    rng = random.Random(seed)
    count = rng.randrange(2, 5)
    steps = [(rng.randrange(6), rng.random(), rng.random(), rng.choice(POINTWISE))
             for _ in range(10)]

    def run(*inputs: fw.Tensor) -> Any:
        values = list(inputs)
        for kind, first, second, pointwise in steps:
            x, y = (values[int(share * len(values))] for share in (first, second))
            values.append(STEPS[kind](pointwise, x, y))
        return values[-1], values[-2]

    return run, [(4, 4)] * count


def inputs_of(shapes: Sequence[tuple[int, ...]], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, s) for s in shapes]


@pytest.mark.parametrize("seed", range(40))
def test_gradients_of_random_functions_are_those_of_eager(seed: int) -> None:
    """From each set of results, to each set of inputs; what is saved is always the same."""
    fn, shapes = random_function(seed)
    arrays = inputs_of(shapes, seed)
    parts = parts_of(fn, shapes)
    outputs = evaluate(parts.forward, arrays)
    results, saved = outputs[:2], outputs[2:]
    incoming = inputs_of([(4, 4)] * 2, seed + 1)
    leaves = [fw.from_numpy(a).requires_grad_() for a in arrays]
    eager = fn(*leaves)
    for found, expected in zip(results, eager):
        np.testing.assert_allclose(found, expected.detach().numpy(), 1e-10, 1e-12)
    rng = random.Random(seed)
    for numbers in ((0, 1), (0,), (1,)):
        needed = rng.choice([None, [0], list(range(len(shapes)))])
        backward = parts.backward(numbers, needed)
        values = [[*arrays, *saved][i] for i in backward.reads]
        gradients = evaluate(backward.graph, [*values, *[incoming[i] for i in numbers]])
        expected = fw.autograd.grad([eager[i] for i in numbers], leaves,
                                    [fw.from_numpy(incoming[i]) for i in numbers],
                                    retain_graph=True, allow_unused=True)
        wanted = {i: g for i, g in enumerate(expected)
                  if g is not None and (needed is None or i in needed)}
        assert backward.ends == list(wanted)
        for i, gradient in zip(backward.ends, gradients):
            np.testing.assert_allclose(gradient, wanted[i].numpy(), 1e-8, 1e-10)


@pytest.mark.parametrize("seed", range(40, 60))
def test_each_saved_value_is_read(seed: int) -> None:
    """The backward from all results reads every saved value, and no value is saved twice."""
    fn, shapes = random_function(seed)
    parts = parts_of(fn, shapes)
    reads = parts.backward((0, 1), None).reads
    saved = range(len(shapes), len(shapes) + len(parts.saved))
    assert len(set(reads)) == len(reads) and set(saved) <= set(reads)
    assert len(set(parts.saved)) == len(parts.saved)


def is_enough(saved: Sequence[Node], demanded: Sequence[Node]) -> bool:
    """True if values can be computed from inputs and saved values by elementwise ops and views."""
    return all(n in saved or n.op in SPECIAL or (
        n.kind in RECOMPUTED_KINDS and OPS[n.op].passes == 1 and is_enough(saved, n.inputs))
        for n in demanded)


def traffic(saved: Sequence[Node], results: Sequence[Node]) -> int:
    """The bytes that are stored and loaded again; results are stored anyway."""
    return sum(n.type.size * n.type.dtype.itemsize * (1 if n in results else 2) for n in saved)


@pytest.mark.parametrize("seed", range(30))
def test_no_other_set_of_saved_values_takes_less_memory_traffic(seed: int) -> None:
    """Against every set of the values of a small graph."""
    rng = random.Random(seed)
    nodes = Nodes()
    values = [nodes.input(f"x{i}", TensorType((rng.choice([1, 4, 9]), 4), F64)) for i in range(2)]
    for _ in range(9):
        x, kind = rng.choice(values), rng.randrange(4)
        if kind == 0:
            made = nodes.apply("sum", [x], {"axis": (0,), "keepdims": True})
        elif kind == 1:
            made = nodes.apply("exp", [x], {})
        else:
            same = [y for y in values if 1 in (y.type.shape[0], x.type.shape[0])
                    or y.type.shape == x.type.shape]
            made = nodes.apply("multiply", [x, rng.choice(same)], {})
        values.append(made)
    computed = list(dict.fromkeys(n for n in values if n.op not in SPECIAL))
    demanded, results = rng.sample(computed, 2), rng.sample(computed, 2)
    demanded = [n for n in computed if n in demanded]
    saved = saved_values(demanded, results, {})
    assert is_enough(saved, demanded)
    least = min(traffic(subset, results) for count in range(len(computed) + 1)
                for subset in itertools.combinations(computed, count)
                if is_enough(subset, demanded))
    assert traffic(saved, results) == least
