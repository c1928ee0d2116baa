"""`check=`: a compiled program that computes something else is found, by op and line."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.capture.graph.graph import Graph, Node, Nodes
from fusewire.capture.guards import guards
from fusewire.capture.replay import trace_call
from fusewire.capture.replay.differential_check import checking, differences, interval
from fusewire.codegen.compile import compile_graph
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core.op import OPS
from fusewire.eager.errors import ArgumentError, CheckError

F32 = np.dtype("float32")
HERE = Path(__file__).name
DRAWS = np.random.default_rng(0)
NODES = Nodes()


def given(*shape: int, dtype: Any = F32, name: str = "x") -> Node:
    return NODES.input(name, TensorType(shape, np.dtype(dtype)))


def made(op: str, *inputs: Node, line: int = 1, **params: Any) -> Node:
    return NODES.apply(op, inputs, params, f"train.py:{line}")


def drawn(*nodes: Node) -> list[Any]:
    """Values for inputs, of both signs."""
    return [DRAWS.standard_normal(n.type.shape).astype(n.type.dtype) for n in nodes]


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code computes the sine where the program says tanh."""
    wrong = dataclasses.replace(OPS["tanh"], meaning=OPS["sin"].meaning)
    monkeypatch.setitem(OPS, "tanh", wrong)


def network() -> Graph:
    x, w = given(8, 16), given(16, 4, name="w")
    hidden = made("tanh", made("contract", x, w, line=1, spec="ij,jk->ik"), line=2)
    return Graph((x, w), (made("sum", made("square", hidden, line=3), line=4, axis=(0, 1),
                               keepdims=False),))


def test_a_right_program_passes() -> None:
    graph = network()
    arrays = drawn(*graph.inputs)
    checked = checking(compile_graph, "always", "step")(graph)
    assert checked(list(arrays))[0] == checked.executable(list(arrays))[0]


def test_the_first_wrong_op_is_named_with_its_line(wrong_tanh: None) -> None:
    graph = network()
    with pytest.raises(CheckError, match=r"step: .* tanh at train.py:2 gives .* of 32 elements"):
        checking(compile_graph, "first", "step")(graph)(drawn(*graph.inputs))


class Spoilt:
    """A program whose outputs are changed, as a mistake that no op alone makes would."""

    def __init__(self, graph: Graph, spoil: Callable[[Any], None], whole: Graph) -> None:
        self.executable, self.spoil = compile_graph(graph), spoil if graph is whole else None

    def __call__(self, arrays: list[Any]) -> list[Any]:
        found = [np.array(a) for a in self.executable(arrays)]
        if self.spoil is not None:
            self.spoil(found[0])
        return found


def test_a_mistake_that_needs_its_surroundings_is_named_where_it_shows() -> None:
    x = given(5)
    graph = Graph((x,), (made("exp", made("negative", x, line=1), line=2),))

    def spoil(out: Any) -> None:
        out[3] = 7

    checked = checking(lambda g: Spoilt(g, spoil, graph), "first", "f")(graph)
    with pytest.raises(CheckError, match=r"exp at train.py:2 gives 7.0 .* at \[3\]"):
        checked(drawn(x))


@pytest.mark.parametrize(("check", "looked_at"), [
    ("first", [0]), ("always", [0, 1, 2, 3, 4, 5]), (0.5, [0, 2, 4]), (1, [0, 1, 2, 3, 4, 5]),
])
def test_when_it_looks(check: Any, looked_at: list[int], wrong_tanh: None) -> None:
    graph = network()
    checked = checking(compile_graph, check, "f")(graph)
    for call in range(6):
        if call in looked_at:
            with pytest.raises(CheckError):
                checked(drawn(*graph.inputs))
        else:
            checked(drawn(*graph.inputs))


@pytest.mark.parametrize("check", ["often", 0, 2, -0.5, True, None])
def test_a_wrong_check_is_refused(check: Any) -> None:
    with pytest.raises(ArgumentError, match="is not \"first\", \"always\" or a share"):
        interval(check)


def test_inputs_are_not_written_over_while_they_are_compared() -> None:
    x = given(1000)
    graph = Graph((x,), (made("multiply", x, x),), {0: 0})
    (array,) = drawn(x)
    before = array.copy()
    checking(compile_graph, "always", "f")(graph)([array])
    np.testing.assert_array_equal(array, before)


# ---- what counts as different

def off(graph: Graph, arrays: list[Any], change: Callable[[Any], Any]) -> bool:
    """Whether the outputs, changed like this, are seen to be wrong."""
    right = compile_graph(graph)(list(arrays))
    assert differences(graph, arrays, right) == []
    return bool(differences(graph, arrays, [change(np.array(a)) for a in right]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_within_rounding_are_equal(dtype: str) -> None:
    x = given(50, dtype=dtype)
    graph, arrays = Graph((x,), (made("exp", x),)), drawn(x)
    tiny = np.finfo(dtype).eps
    assert not off(graph, arrays, lambda a: a * (1 + 2 * tiny).astype(dtype))
    assert off(graph, arrays, lambda a: a * (1 + 1000 * tiny).astype(dtype))


def test_a_difference_of_nearly_equal_numbers_may_be_all_rounding() -> None:
    x = given(100)
    mean = made("divide", made("sum", x, axis=(0,), keepdims=True), NODES.const(100.0, F32))
    rest = made("sum", made("subtract", x, mean), axis=(0,), keepdims=False)
    assert not off(Graph((x,), (rest,)), drawn(x), lambda a: -a)


def test_integers_and_bools_are_exact_where_no_rounding_is_near() -> None:
    x = given(100)
    positive = Graph((x,), (made("greater", x, NODES.const(0.0, F32)),))

    def flip(a: Any) -> Any:
        a[17] = not a[17]
        return a

    assert off(positive, drawn(x), flip)


def test_a_comparison_of_rounded_values_may_fall_either_way() -> None:
    x = given(1000)
    squared = made("square", made("sqrt", made("abs", x)))
    back = Graph((x,), (made("equal", squared, made("abs", x)),))
    assert not off(back, drawn(x), lambda a: a)


def test_nan_and_inf_must_stand_where_they_stand_in_eager() -> None:
    x = given(4)
    graph = Graph((x,), (made("log", x),))
    arrays = [np.array([-1, 0, 1, 2], F32)]
    assert not off(graph, arrays, lambda a: a)
    for index, value in ((0, 0.0), (1, np.inf), (2, np.nan)):
        changed = np.array(compile_graph(graph)(list(arrays))[0])
        changed[index] = value
        assert differences(graph, arrays, [changed])


def test_another_shape_or_dtype_is_different() -> None:
    x = given(4)
    graph = Graph((x,), (made("exp", x),))
    assert off(graph, drawn(x), lambda a: a.reshape(2, 2))
    assert off(graph, drawn(x), lambda a: a.astype("float64"))


def test_large_sums_in_another_order_are_equal() -> None:
    x = given(100_000)
    graph = Graph((x,), (made("sum", x, axis=(0,), keepdims=False),))
    assert not off(graph, [DRAWS.random(100_000).astype(F32)], lambda a: a)


# ---- through fw.compile

def test_a_wrong_op_is_named_by_the_users_line(wrong_tanh: None) -> None:
    @fw.compile(check="first")
    def f(x: Any) -> Any:
        y = x * 2
        return y.tanh() + y

    f(fw.ones(3))
    with pytest.raises(CheckError, match=rf"f: .*tanh at {HERE}:\d+ gives 0.909\d+ instead of"):
        f(fw.ones(3))


def test_a_wrong_step_changes_nothing(wrong_tanh: None) -> None:
    w = fw.ones(3)

    @fw.compile(check="always")
    def step(x: Any) -> None:
        w.add_(x.tanh())

    step(fw.ones(3))
    before = w.numpy().copy()
    with pytest.raises(CheckError):
        step(fw.ones(3))
    np.testing.assert_array_equal(w.numpy(), before)


@pytest.mark.parametrize("check", ["first", "always", 0.5])
def test_checked_training_is_the_same_training(check: Any) -> None:
    def trained(wrap: Callable[[Any], Any]) -> list[Any]:
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 1))
        optimizer = fw.optim.Adam(model.parameters(), 0.01)
        x = fw.rand(16, 4)

        def step() -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = wrap(step)
        return [float(run()) for _ in range(6)] + [p.numpy() for p in model.parameters()]

    for eager, checked in zip(trained(lambda f: f), trained(fw.compile(check=check))):
        np.testing.assert_allclose(checked, eager, rtol=1e-4, atol=1e-6)


K = 2.0


@pytest.fixture
def no_guard_of_k(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings forget that they depend on the global K."""
    monkeypatch.setattr(trace_call, "find_guards", lambda *given: [
        g for g in guards.find_guards(*given) if "global K" not in g.message])


def test_a_recording_that_holds_no_more_is_found(no_guard_of_k: None,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    @fw.compile(check="always")
    def f(x: Any) -> Any:
        return x * K

    f(fw.ones(3))
    f(fw.ones(3))
    monkeypatch.setattr(f"{__name__}.K", 3.0)
    with pytest.raises(CheckError, match=rf"Python does: multiply at {HERE}:\d+ is not in the"):
        f(fw.ones(3))


def test_a_result_that_is_no_tensor_is_compared(no_guard_of_k: None,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    @fw.compile(check="always")
    def f(x: Any) -> Any:
        return {"loss": x.sum(), "name": (1, f"K is {K}")}

    f(fw.ones(3))
    monkeypatch.setattr(f"{__name__}.K", 3.0)
    with pytest.raises(CheckError, match=r"returns 'K is 3\.0' instead of 'K is 2\.0'"):
        f(fw.ones(3))


def test_prints_and_counts_happen_once() -> None:
    seen = []

    @fw.compile(check="always")
    def f(x: Any, total: Any) -> Any:
        total.add_(x)
        return total * 2 if total.sum() > 2 else total

    total = fw.zeros(())
    for _ in range(5):
        seen.append(float(f(fw.ones(()), total)))
    assert seen == [1.0, 2.0, 6.0, 8.0, 10.0] and float(total) == 5


def test_a_checked_function_can_be_pickled() -> None:
    compiled = fw.compile(nn.functional.relu, check=0.5)
    again = pickle.loads(pickle.dumps(compiled))
    assert again.check == 0.5 and again.backend == compiled.backend


def test_compile_refuses_a_wrong_check() -> None:
    with pytest.raises(ArgumentError, match="check='sometimes'"):
        fw.compile(lambda x: x, check="sometimes")
