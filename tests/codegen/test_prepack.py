"""Values computed from persistent inputs are prepacked, and dropped once an input changes."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.codegen.compile import compile_native
from fusewire.codegen.program.prepack import PrepackWatch
from fusewire.codegen.program.prepacked_executable import PrepackedExecutable
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.shapes import TensorType


def product(kept: set[int], spec: str = "ij,jk->ik", shapes: Any = ((5, 70), (70, 90)),
            target: str = "") -> Any:
    made = Nodes()
    inputs = tuple(made.input(f"x{i}", TensorType(s, np.dtype("float32")))
                   for i, s in enumerate(shapes))
    node = made.apply("contract", inputs, {"spec": spec})
    return compile_native(Graph(inputs, (node,), persistent=frozenset(kept)), named(target))


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def keeps(program: PrepackedExecutable) -> bool:
    return program._prepacked_memory is not None


SPECS = [("ij,jk->ik", (5, 70), (70, 90)), ("ij,kj->ik", (20, 33), (130, 33)),
         ("ji,jk->ik", (300, 3), (300, 17)), ("aij,ajk->aik", (3, 5, 20), (3, 20, 40)),
         ("aij,jk->aik", (3, 5, 20), (20, 40)), ("ij,jk->ik", (7, 2300), (2300, 70))]


@pytest.mark.parametrize("target", ["", "x86-64-v3"])
@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize(("spec", "left", "right"), SPECS)
def test_products_are_the_same_with_and_without(spec: str, left: Any, right: Any, kept: int,
                                                target: str) -> None:
    program = product({kept}, spec, (left, right), target)
    assert isinstance(program, PrepackedExecutable)
    same = normal(*(left, right)[kept], seed=1)
    for turn in range(4):
        other = normal(*(left, right)[1 - kept], seed=turn)
        arrays = [same, other] if kept == 0 else [other, same]
        close(program(list(arrays))[0], np.einsum(spec, *[a.astype(float) for a in arrays]))
    assert keeps(program)


def test_other_weights_are_seen_at_once() -> None:
    program, x = product({1}), normal(5, 70)
    first, second = normal(70, 90, seed=1), normal(70, 90, seed=2)
    for weights in (first, first, first, second, first, second, second, second):
        close(program([x, weights])[0], x @ weights)


def test_weights_that_always_change_are_looked_at_ever_more_seldom() -> None:
    watch, found = PrepackWatch([0]), 0
    for _ in range(1000):
        array = normal(2)
        for _ in range(2):  # the same twice, then another
            if watch.same([array]):
                found += 1
                watch.changed()
    assert found < 10


def test_arrays_that_are_gone_are_not_mistaken_for_new_ones() -> None:
    """A new array often lies where one lay that nobody holds any more."""
    program, x = product({1}), normal(5, 70)
    for seed in range(20):
        weights = normal(70, 90, seed=seed)
        for _ in range(3):
            close(program([x, weights])[0], x @ weights)
        del weights
        gc.collect()


def test_weights_that_do_not_lie_in_rows() -> None:
    program, x = product({1}), normal(5, 70)
    weights = normal(90, 70).T
    for _ in range(4):
        close(program([x, weights])[0], x @ weights)


def test_a_model_between_steps_of_training() -> None:
    """The optimizer writes over what nobody else holds, and what is kept is held."""
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 3))
    optimizer = fw.optim.Adam(model.parameters(), lr=0.05)
    x = fw.from_numpy(normal(8, 20))
    score = fw.compile(lambda x: model(x))

    @fw.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(6):
        with fw.no_grad():
            for _ in range(4):
                close(score(x).numpy(), model(x).numpy())
        step(x)
    with fw.no_grad():
        close(score(x).numpy(), model(x).numpy())


def test_what_any_way_through_a_function_changes_is_not_kept() -> None:
    """The segment that computes the loss reads parameters that only some calls update: were they
    held there, these calls could not write over them."""
    model = nn.Linear(4, 3)
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1)

    @fw.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if loss < 5:
            optimizer.step()
        return loss

    for scale in (1, 10, 1, 10, 1, 1):
        step(fw.full((8, 4), float(scale)))
    segments = step.programs[0].segments()
    assert len(segments) > 1
    kept = [str(s.paths[i]) for s in segments for i in s.graph.persistent]
    assert not [path for path in kept if path.endswith(("weight", "bias"))]


def test_weights_replaced_by_others() -> None:
    model = nn.Conv2d(4, 8, 3).eval()
    run = fw.compile(lambda x: model(x))
    x = fw.from_numpy(normal(2, 4, 9, 9))
    with fw.no_grad():
        for seed in range(3):
            state = {"weight": fw.from_numpy(normal(8, 4, 3, 3, seed=seed)),
                     "bias": fw.from_numpy(normal(8, seed=seed))}
            model.load_state_dict(state)
            for _ in range(4):
                close(run(x).numpy(), F.conv2d(x, state["weight"], state["bias"]).numpy())


def test_arguments_are_not_kept() -> None:
    run = fw.compile(lambda x, w: x @ w)
    x, w = fw.from_numpy(normal(8, 20)), fw.from_numpy(normal(20, 30))
    for _ in range(3):
        run(x, w)
    segment, = run.programs[0].segments()
    assert type(segment.executable).__name__ == "Executable"


def test_what_does_not_depend_on_weights_alone_is_not_kept() -> None:
    model = nn.Linear(20, 30)
    run = fw.compile(lambda x, scale: x @ (model.weight * scale).T)
    x = fw.from_numpy(normal(8, 20))
    with fw.no_grad():
        for scale in (1.0, 2.0, 3.0, 3.0, 4.0):
            s = fw.tensor(scale)
            close(run(x, s).numpy(), (x @ (model.weight * s).T).numpy())


def test_equal_layers_keep_each_its_own() -> None:
    """Repeated layers are lowered once; what they make of their weights is not shared."""
    layers = [m for _ in range(12) for m in (nn.Linear(48, 48), nn.Tanh())]
    model = nn.Sequential(*layers).eval()
    run, x = fw.compile(lambda x: model(x)), fw.from_numpy(normal(40, 48))
    with fw.no_grad():
        expected = model(x).numpy()
        for _ in range(5):
            close(run(x).numpy(), expected)
        segment, = run.programs[0].segments()
        assert keeps(segment.executable) and segment.executable.prepacked.steps >= 12
        layers[10].weight = nn.Parameter(fw.from_numpy(normal(48, 48)))
        for _ in range(3):
            close(run(x).numpy(), model(x).numpy())


def test_equal_layers_whose_weights_are_made_before() -> None:
    """What layers make of them lies in one place, one after the other: it is not kept."""
    weights, given = fw.from_numpy(normal(12, 32, 32)), [fw.from_numpy(normal(32, 300))] * 4

    def layers(x: Any) -> Any:
        made = fw.softmax(weights, -1)
        for i in range(12):
            x = fw.tanh(made[i] @ x) + 0.1
        return x

    run = fw.compile(layers)
    for x in given:
        close(run(x).numpy(), layers(x).numpy())
    segment, = run.programs[0].segments()
    assert keeps(segment.executable)


def test_equal_layers_with_the_same_weights_share_what_is_kept() -> None:
    first, second = (fw.from_numpy(normal(48, 48, seed=i) / 7) for i in range(2))

    def layers(x: Any) -> Any:
        for i in range(24):
            x = fw.tanh(x @ (second if i % 3 else first) + x)
        return x

    run, x = fw.compile(layers), fw.from_numpy(normal(40, 48))
    for _ in range(4):
        close(run(x).numpy(), layers(x).numpy())
    segment, = run.programs[0].segments()
    assert keeps(segment.executable)
    assert sum(segment.executable.prepacked.sizes) <= 4 * first._data.nbytes


def test_what_depends_on_constants_alone_is_kept() -> None:
    made = Nodes()
    x = made.input("x", TensorType((8, 2000), np.dtype("float32")))
    table = made.const(tuple(range(48)), np.dtype("float32"), (8, 6))
    program = compile_native(Graph((x,), (made.apply("contract", (table, x), {
        "spec": "ji,jk->ik"}),)))  # read across its rows, so that it is packed
    for seed in range(3):
        array = normal(8, 2000, seed=seed)
        close(program([array])[0], np.arange(48.0).reshape(8, 6).T @ array)
    assert isinstance(program, PrepackedExecutable) and keeps(program)


def test_two_threads_that_begin_to_keep_at_once() -> None:
    """Each notes what it made, and one of both notes its native call last."""
    program, x = product({1}), normal(5, 70)
    first, second = normal(70, 90, seed=1), normal(70, 90, seed=2)
    for weights in (first, first, second, second):
        program([x, weights])
    known = program._run_prologue([x, first], None)
    program._run_prologue([x, second], None)
    program._prepacked_memory = known
    for weights in (first, second, second, first, first):
        close(program([x, weights])[0], x @ weights)
    assert program._launch == program._launch_watching or keeps(program)


def test_threads_with_weights_that_change() -> None:
    program, x = product({1}), normal(5, 70)
    choices = [normal(70, 90, seed=s) for s in range(3)]
    wanted, wrong = [x @ w for w in choices], []

    def work(number: int) -> None:
        for turn in range(300):
            i = (turn // 7 + number) % 3
            if not np.allclose(program([x, choices[i]])[0], wanted[i], atol=1e-3):
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
