"""One program for any size: right at every size, and refused where code depends on the size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from oracle import assert_same, part
from unknown_sizes import recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.bind_sizes import bind_sizes
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate, evaluate_node
from fusewire.capture.graph.text import parse
from fusewire.codegen.compile import compile_dynamic, lower_graph
from fusewire.codegen.dynamic.dynamic_program import compile_any_size
from fusewire.codegen.dynamic.size_arguments import MAX_DYNAMIC_SIZES, SIZES
from fusewire.codegen.ir.loop_ir_interpreter import run as run_kernel
from fusewire.codegen.ir.target_info import Machine

LONG = ("long rows", "deep product", "convolution", "attention")  # for the interpreter
MACHINES = [Machine(), Machine(32, 16), Machine(16, 16)]
N, M = "n", "m"


class Case(NamedTuple):
    """A function of arrays, some of whose axes are `n` long."""

    function: Callable[..., Any]
    shapes: tuple[tuple[Any, ...], ...]

    def sizes(self, size: int) -> dict[str, int]:
        """A set of sizes, one of which is this."""
        return {name: n for name, n in ((N, size), (M, size * 5 % 61 + 1))
                if any(name in shape for shape in self.shapes)}

    def graph(self) -> Graph:
        """The recording for any sizes."""
        return recorded(self.function, *self.shapes, **self.sizes(8))

    def arrays(self, size: int) -> list[Any]:
        """Inputs at one set of sizes."""
        rng, values = np.random.default_rng(size), self.sizes(size)
        return [rng.standard_normal(tuple(values.get(n, n) for n in shape), np.float32)
                for shape in self.shapes]


def heads(x: Any) -> Any:
    return x.reshape(x.shape[0], x.shape[1], 4, 5).permute_dims((0, 2, 1, 3))


def attention(x: Any) -> Any:
    q = heads(x)
    out = fw.softmax(q @ fw.matrix_transpose(q), -1) @ q
    return out.permute_dims((0, 2, 1, 3)).reshape(x.shape[0], x.shape[1], 20)


def gradients(x: Any, w: Any, v: Any) -> Any:
    """Of the mean square of two layers, by their weights."""
    h = F.relu(x @ w)
    g = (h @ v) * (2 / 7) / x.shape[0]
    return x.T @ ((g @ v.T) * (h > 0)), h.T @ g


CASES = {
    "pointwise": Case(lambda x: fw.exp(x) * 2 + 1, ((N, 20),)),
    "long rows": Case(lambda x: F.gelu(x) * 2 + x, ((N, 4096),)),
    "broadcast": Case(lambda x, y: x * y + 1, ((N, 1, 3), (5, 3))),
    "softmax": Case(lambda x: fw.softmax(x, -1), ((N, 20),)),
    "layer norm": Case(lambda x, w: F.layer_norm(x, (20,), w, w), ((N, 20), (20,))),
    "sum of examples": Case(lambda x: x.sum(axis=0), ((N, 20),)),
    "mean of all": Case(lambda x: (x * x).mean(), ((N, 20),)),
    "largest": Case(lambda x: (x.max(axis=0), x.max(axis=1)), ((N, 20),)),
    "batch norm": Case(lambda x: (x - x.mean(axis=0)) / (x.var(axis=0) + 1).sqrt(), ((N, 20),)),
    "variance": Case(lambda x: x.var(axis=0, correction=1), ((N, 20),)),
    "product": Case(lambda x, w: x @ w, ((N, 20), (20, 30))),
    "deep product": Case(lambda x, w: x @ w + 1, ((N, 1100), (1100, 9))),
    "layers": Case(lambda x, w, v: F.relu(x @ w) @ v, ((N, 20), (20, 30), (30, 7))),
    "gradients": Case(gradients, ((N, 20), (20, 30), (30, 7))),
    "turned product": Case(lambda x, w: w @ x, ((20, N), (30, 20))),
    "vector": Case(lambda x, w: x @ w, ((N, 40), (40,))),
    "batched": Case(lambda x: x @ fw.matrix_transpose(x), ((N, 6, 20),)),
    "attention": Case(attention, ((N, 6, 20),)),
    "reshape": Case(lambda x: x.reshape(x.shape[0], 4, 5).sum(axis=1), ((N, 20),)),
    "flat": Case(lambda x: x.reshape(-1) * 2, ((N, 20),)),
    "turned": Case(lambda x: x.T * 2, ((N, 20),)),
    "beside": Case(lambda x: fw.concat([x, x * 2], axis=1), ((N, 20),)),
    "cut": Case(lambda x: x[:, 3:9] * 2, ((N, 20),)),
    "inner axis": Case(lambda x: (fw.exp(x).sum(axis=-1), fw.softmax(x, -1)), ((5, N),)),
    "pooling": Case(lambda x: F.max_pool2d(x, 2), ((N, 3, 8, 8),)),
    "repeated": Case(lambda x: fw.broadcast_to(x[None], (x.shape[0], *x.shape)) * 1, ((N, 20),)),
    "all with all": Case(lambda x: x @ x.T, ((N, 20),)),
    "all pairs": Case(lambda x, y: x @ y.T * 2, ((N, 20), (M, 20))),
    "words": Case(lambda x, w: F.gelu(F.layer_norm(x, (12,)) @ w).sum(axis=1),
                  ((N, M, 12), (12, 9))),
    "attention to words": Case(
        lambda q, k, v: fw.softmax(q @ fw.matrix_transpose(k), -1) @ v,
        ((2, N, 12), (2, M, 12), (2, M, 9))),
    "attention of words": Case(attention, ((2, N, 20),)),
    "sentences": Case(attention, ((N, M, 20),)),
    "convolution": Case(lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
                        ((N, 3, 8, 8), (4, 3, 3, 3))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_right_at_every_size(name: str) -> None:
    case = CASES[name]
    graph = case.graph()
    program = compile_dynamic(graph, case.sizes(1))
    assert program.capacity[N] == 64
    for size in (1, 2, 5, 13, 14, 15, 31, 32, 33, 63, 64):
        arrays = case.arrays(size)
        with np.errstate(all="ignore"):
            wanted = evaluate(bind_sizes(graph, case.sizes(size)), arrays)
        for got, want in zip(program.bind(case.sizes(size))(list(arrays)), wanted):
            assert_same(got, want, 10, f"{name} at {size}")


@pytest.mark.parametrize(("name", "machine"), [
    pytest.param(name, machine, id=f"{name}, {machine.vector_bytes} bytes")
    for name in CASES for machine in MACHINES[:1 if name in LONG else None]])
def test_no_kernel_leaves_its_arrays(name: str, machine: Machine) -> None:
    """The interpreter looks at every index; arrays are as long as the size at hand says."""
    case = CASES[name]
    graph = case.graph()
    for size in (1, 17) if machine is MACHINES[0] and name not in LONG else (3,):
        arrays, sizes = case.arrays(size), case.sizes(size)
        with np.errstate(all="ignore"):
            wanted = evaluate(bind_sizes(graph, sizes), arrays)
        for got, want in zip(interpreted(graph, machine, sizes, arrays), wanted):
            assert_same(got, want, 10, f"{name} at {size}")


def interpreted(graph: Graph, machine: Machine, sizes: dict[str, int], arrays: list[Any]
                ) -> list[Any]:
    """What the kernels for any sizes give at these, run by the interpreter."""
    made: Any = compile_any_size(
        graph, dict.fromkeys(sizes, 1), lambda sized: lower_graph(sized, machine),
        lambda *lowered: lowered)
    plan, launches = made.program
    fixed = bind_sizes(graph, sizes)
    memory = {SIZES: np.resize([*sizes.values()], MAX_DYNAMIC_SIZES)}
    for node, array in zip(plan.graph.inputs, arrays):
        memory[plan.buffers[node]] = array.copy().reshape(-1)
    for node in plan.constants:
        memory[plan.buffers[node]] = np.ascontiguousarray(evaluate_node(node, [])).reshape(-1)
    for node, out in zip(plan.graph.outputs, fixed.outputs):
        memory.setdefault(plan.buffers[node], np.full(out.type.size, 77, out.type.dtype))
    for launch in launches:
        for place in launch.views:
            buffer = place.buffer
            memory.setdefault(buffer, np.full(buffer.size, 77, buffer.dtype))
        kernel, places = launch.kernel, launch.views
        own = {b: memory[p.buffer] if not p.offset else part(memory[p.buffer], p.offset, b)
               for b, p in zip(kernel.arguments, places)}
        run_kernel(kernel, own, order=range(kernel.tasks - 1, -1, -1))
    return [memory[plan.buffers[node]].reshape(out.type.shape)
            for node, out in zip(plan.graph.outputs, fixed.outputs)]


# ---- numbers that are not a product of sizes
def put_last(x: Any, y: Any) -> Any:
    y = y * 1
    y[x.shape[0] - 1] = x[0, 0]
    return y


@pytest.mark.parametrize("function", [
    lambda x, y: x * (7 // x.shape[0]) + y,
    lambda x, y: x * (x.shape[0] % 5) + y,
    lambda x, y: y * fw.minimum(fw.zeros(()) + x.shape[0], 10),
    lambda x, y: y[x.shape[0] // 2:x.shape[0]][None] * 1,
    put_last,
])
def test_numbers_made_of_sizes_are_right_at_every_size(function: Callable[..., Any]) -> None:
    case = Case(function, ((N, 20), (20,)))
    graph = case.graph()
    program = compile_dynamic(graph, {N: 1})
    for size in range(1, 20):
        arrays = case.arrays(size)
        (want,) = evaluate(bind_sizes(graph, {N: size}), arrays)
        assert_same(program.bind({N: size})(list(arrays))[0], want, 10, f"at {size}")


def test_a_question_that_has_two_answers_is_refused() -> None:
    graph = Case(lambda x: fw.argsort(x, axis=0), ((N, 20),)).graph()
    with pytest.raises(fw.CodegenError, match="rows of a length known at run time only"):
        compile_dynamic(graph, {N: 1})


def test_a_size_that_must_be_a_number_has_no_program_for_any() -> None:
    graph = parse("""
        x = input()  # float32[n, m]
        y = input()  # float32[m, 3]
        v1 = add(x, y)  # float32[n, 3]
        return v1""")
    with pytest.raises(fw.CodegenError, match="cannot be lowered for all sizes"):
        compile_dynamic(graph, {N: 5, M: 3})


def test_what_is_kept_from_call_to_call_is_kept_for_all_sizes() -> None:
    case = CASES["layers"]
    graph = replace(case.graph(), persistent=frozenset({1, 2}))
    program, weights = compile_dynamic(graph, {N: 1}), case.arrays(1)[1:]
    for size in (3, 9, 3, 30, 64, 1):
        arrays = [case.arrays(size)[0], *weights]
        (want,) = evaluate(bind_sizes(graph, {N: size}), arrays)
        (got,) = program.bind({N: size})(list(arrays))
        assert_same(got, want, 10)
    assert program.program.prepacked.steps == 2


def test_a_result_is_as_large_as_its_size() -> None:
    program = compile_dynamic(CASES["pointwise"].graph(), {N: 1000})
    (out,) = program.bind({N: 3})(CASES["pointwise"].arrays(3))
    assert out.shape == (3, 20) and out.base is None


def test_equal_layers_are_compiled_once_for_any_size() -> None:
    def layers(x: Any, *ws: Any) -> Any:
        for w in ws:
            x = x + F.gelu(F.layer_norm(x, (16,)) @ w)
        return x

    case = Case(layers, ((N, 16), *[(16, 16)] * 12))
    program = compile_dynamic(case.graph(), {N: 1})
    assert len({k for k in program.program.kernels}) < len(program.program.kernels) / 3
    for size in (1, 14, 40):
        arrays = case.arrays(size)
        (want,) = evaluate(bind_sizes(case.graph(), {N: size}), arrays)
        assert_same(program.bind({N: size})(list(arrays))[0], want, 100)


def test_batches_of_any_size_make_two_programs() -> None:
    fw.manual_seed(0)
    model = fw.nn.Sequential(fw.nn.Linear(9, 8), fw.nn.Tanh(), fw.nn.Linear(8, 3))
    plain = [fw.tensor(p.numpy()) for p in model.parameters()]
    fw.compile(model)
    with fw.no_grad():
        for size in [*range(1, 65), *range(64, 0, -1)]:
            x = fw.rand(size, 9)
            expected = fw.tanh(x @ plain[0].T + plain[1]) @ plain[2].T + plain[3]
            assert_same(model(x), expected, 10)
    stats = model.forward.stats  # type: ignore[attr-defined]
    assert stats.costs.compiled + stats.costs.from_disk <= 2
