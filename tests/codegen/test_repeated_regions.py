"""Bodies that repeat are compiled once: layers, time steps, and updates of equal parameters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded
from repeating import normal, repeated, training_of, unrolled

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.passes.slice_sums import merge_slice_sums
from fusewire.codegen.compile import compile_native, lower_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.program.executable import Executable


def kernels_of(graph: Graph) -> tuple[int, int]:
    """How many kernels a graph is lowered to, and how often they run."""
    _, launches = lower_graph(graph, Machine())
    return len({x.kernel for x in launches}), len(launches)


def functions_of(program: Executable) -> int:
    return program.program.ir.count("define ")


def agrees(graph: Graph, arrays: list[Any], loose: float = 10.0) -> Executable:
    """The program of a graph, its results compared with NumPy's."""
    program = compile_native(graph)
    for got, want in zip(program([a.copy() for a in arrays]), evaluate(graph, arrays)):
        assert_same(got, want, loose)
    return program


# ---- layers and time steps
def test_kernels_of_a_training_step_do_not_grow_with_its_layers() -> None:
    few, many = (kernels_of(training_of(layers)[0]) for layers in (8, 48))
    assert few[0] == many[0]
    assert few[1] < many[1]


def test_code_does_not_grow_with_time_steps() -> None:
    programs = []
    for steps in (64, 512):
        run, inputs = unrolled(steps)
        programs.append(agrees(*recorded(run, *inputs)))
    few, many = programs
    assert len({*few.kernels}) == len({*many.kernels}) < 15
    assert functions_of(few) == functions_of(many)
    assert few.program.steps < many.program.steps


def test_neither_do_gradients_through_time() -> None:
    def train(*inputs: fw.Tensor) -> Any:
        leaves = [i.detach().requires_grad_() for i in inputs]
        run(*leaves).square().sum().backward()
        return [i.grad for i in leaves]

    found = []
    for steps in (16, 48):
        run, inputs = unrolled(steps)
        graph, arrays = recorded(train, *inputs)
        found.append(functions_of(agrees(graph, arrays, 100)))
    assert found[0] == found[1]


# ---- long chains of what has no memory
def test_a_chain_of_2000_operations() -> None:
    def run(x: fw.Tensor) -> fw.Tensor:
        for _ in range(1000):
            x = x * 0.99 + 0.1
        return x

    graph, arrays = recorded(run, fw.from_numpy(normal(300)))
    agrees(graph, arrays, 1000.0)


def test_a_chain_of_masked_views() -> None:
    def run(x: fw.Tensor) -> fw.Tensor:
        for _ in range(40):
            x = fw.pad(x, ((1, 0),))[:-1] * 0.5 + x.roll(1, 0)
        return x

    graph, arrays = recorded(run, fw.from_numpy(normal(64)))
    agrees(graph, arrays, 1000.0)


def test_a_pointwise_body_is_compiled_once_however_many_turns() -> None:
    def run(steps: int) -> Graph:
        def loop(x: fw.Tensor) -> fw.Tensor:
            h = x
            for _ in range(steps):
                h = fw.tanh(h * 0.5 + x) * fw.sigmoid(h) + x
            return h

        graph, arrays = recorded(loop, fw.from_numpy(normal(100)))
        agrees(graph, arrays, 1000.0)
        return graph

    few, many = kernels_of(run(150)), kernels_of(run(600))
    assert many[0] <= few[0] + 1 < 6  # the last kernel has what is left over
    assert many[1] > 3 * few[1]


# ---- random bodies
@pytest.mark.parametrize("seed", range(24))
def test_random_bodies(seed: int) -> None:
    run, arrays = repeated(np.random.default_rng(seed))
    graph, arrays = recorded(run, *map(fw.from_numpy, arrays))
    agrees(graph, arrays)
    for got, want in zip(interpreted(graph, arrays), evaluate(graph, arrays)):
        assert_same(got, want, 10.0)


@pytest.mark.parametrize("seed", range(100, 116))
def test_gradients_of_random_bodies(seed: int) -> None:
    run, arrays = repeated(np.random.default_rng(seed))

    def train(*inputs: fw.Tensor) -> Any:
        leaves = [i.detach().requires_grad_() for i in inputs]
        sum(((out * 0.1).sum() for out in run(*leaves)), fw.tensor(0.0)).backward()
        return [i.grad for i in leaves if i.grad is not None]

    graph, arrays = recorded(train, *map(fw.from_numpy, arrays))
    agrees(graph, arrays, 100.0)


# ---- what makes turns equal
def test_slices_of_slices_are_slices() -> None:
    x = fw.from_numpy(normal(20, 20))
    graph, arrays = recorded(lambda x: x[2:18:3, 10:][1:4, ::-2][::-1].exp(), x)
    agrees(graph, arrays)
    assert kernels_of(graph) == (1, 1)


def test_kernels_that_read_the_same_from_other_places_on_are_one() -> None:
    def run(x: fw.Tensor) -> Any:
        return [fw.exp(x[t]) + fw.sin(x[t + 1]) for t in range(64)]

    graph, arrays = recorded(run, fw.from_numpy(normal(65, 40)))
    agrees(graph, arrays)
    assert kernels_of(graph) == (1, 8)  # eight turns of one kernel, that does eight rows


def test_a_value_that_is_overwritten_is_not_taken_for_another() -> None:
    """Each parameter is updated in place, from its own gradient, by one kernel for all."""
    ps = [fw.from_numpy(normal(30)) for _ in range(12)]
    before = [p.numpy().copy() for p in ps]

    @fw.compile(fullgraph=True)
    def step(x: fw.Tensor) -> None:
        with fw.no_grad():
            for p, q in zip(ps, ps[1:] + ps[:1]):
                p.mul_(0.5).add_(fw.sin(q * x))

    for _ in range(4):
        step(fw.ones(30))
        for i in range(12):
            before[i] = before[i] * np.float32(0.5) + np.sin(before[(i + 1) % 12])
    for p, want in zip(ps, before):
        assert_same(p, want, 10.0)


# ---- sums of parts
def parts_of(run: Callable[..., Any], *arrays: Any) -> tuple[Graph, list[Any]]:
    graph, given = recorded(run, *map(fw.from_numpy, arrays))
    joined = merge_slice_sums(graph)
    for got, want in zip(evaluate(joined, given), evaluate(graph, given)):
        assert got.tobytes() == want.tobytes()
    agrees(graph, given)
    return joined, given


def padded(x: fw.Tensor, start: int, size: int) -> fw.Tensor:
    return fw.pad(x, ((start, size - start - x.shape[0]), (0, 0)))


def ops_of(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes()]


@pytest.mark.parametrize("order", [range(10), reversed(range(10)), [3, 1, 4, 0, 9, 2, 8, 7, 6, 5]])
def test_a_sum_of_disjoint_parts_is_a_concat_to_the_last_bit(order: Any) -> None:
    x, turns = normal(10, 2, 3), list(order)
    x[:, 0] = [-0.0, np.nan, np.inf]

    def run(x: fw.Tensor) -> fw.Tensor:
        found = [padded(x[t], 3 * t, 32) for t in turns]  # with gaps between them
        return sum(found[1:], found[0])

    joined, _ = parts_of(run, x)
    assert "concat" in ops_of(joined) and "unslice" not in ops_of(joined)


def test_a_summand_that_is_no_part_is_added_afterwards() -> None:
    x, g = normal(10, 2, 3), normal(20, 3)
    x[:, 0], g[::2] = -0.0, -0.0
    joined, _ = parts_of(lambda x, g: sum((padded(x[t], 2 * t, 20) for t in range(10)), g), x, g)
    assert "concat" in ops_of(joined)


@pytest.mark.parametrize("step", [1, 2])
def test_parts_that_overlap_are_added_up(step: int) -> None:
    x = normal(12, 2, 3)
    joined, _ = parts_of(lambda x: sum((padded(x[t], step * t, 30) for t in range(1, 12)),
                                       padded(x[0], step + 1, 30)), x)
    assert "concat" not in ops_of(joined)


def test_a_long_concat_is_written_piece_by_piece() -> None:
    """Its pieces may be inputs, computed, constants, read by others, or empty."""
    def run(x: fw.Tensor, y: fw.Tensor) -> Any:
        rows = [x, y, fw.zeros(4, 1), fw.exp(x), x[:, :0], y[:, 1:], x, fw.tanh(y), y * 2, x + y]
        return fw.concat(rows, 1), rows[3], fw.concat(rows, 1).sum(0)

    graph, arrays = recorded(run, fw.from_numpy(normal(4, 3)), fw.from_numpy(normal(4, 5))[:, :3])
    agrees(graph, arrays)
