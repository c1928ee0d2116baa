"""Repeated regions of a graph are found and lowered once; the linked program equals the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_same, interpreted, recorded
from repeating import body_of, normal, repeated, training_of, unrolled

import fusewire as fw
from fusewire import nn, optim
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.passes.pass_manager import watching
from fusewire.codegen import compile as compiling
from fusewire.codegen.compile import compile_native, lower_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.outline import repeated_regions, schedule
from fusewire.codegen.outline.outline import Section, cut_sections
from fusewire.codegen.outline.schedule import Scheduler


def agrees(graph: Graph, arrays: list[Any], loose: float = 10.0) -> None:
    """NumPy, the loop interpreter and native code give the same."""
    wanted = evaluate(graph, arrays)
    for way in (interpreted(graph, arrays),
                compile_native(graph)([a.copy() for a in arrays])):
        for got, want in zip(way, wanted, strict=True):
            assert_same(got, want, loose)


def calls_of(graph: Graph) -> list[int]:
    return [len(s.calls) for s in cut_sections(graph)]


def shown(section: Section) -> str:
    return " ".join(n.op for n in section.graph.nodes() if n.op not in ("input", "const"))


# ---- what is found
def test_layers_are_one_section_forward_and_one_back() -> None:
    sections = cut_sections(training_of(24)[0])
    often = [s for s in sections if len(s.calls) > 1]
    assert [len(s.calls) for s in often] == [24, 23]
    forward, back = often
    assert shown(forward) == "contract add relu"
    updates = [j for j, i in back.graph.donated.items()]
    assert len(updates) == 6  # two parameters, with two moments each, take their old memory


def test_time_steps_are_one_section() -> None:
    run, inputs = unrolled(50)
    graph, arrays = recorded(run, *inputs)
    assert max(calls_of(graph)) >= 48
    agrees(graph, arrays)


def test_passes_see_a_body_once_however_often_it_runs() -> None:
    seen = []
    for layers in (8, 40):
        graph, _ = training_of(layers)
        with watching() as passes:
            lower_graph(graph, Machine())
        seen.append(sum(len(g.nodes()) for _, g in passes))
    assert seen[0] == seen[1]


def test_cheap_bodies_are_left_to_fusing() -> None:
    """Turns of a few operations are better done several at a time, without memory between them."""
    def run(x: fw.Tensor) -> fw.Tensor:
        for _ in range(30):
            x = fw.tanh(x) * 0.5 + 1
        return x

    assert cut_sections(recorded(run, fw.from_numpy(normal(20)))[0]) == []


def test_few_turns_are_left_alone() -> None:
    assert cut_sections(training_of(4)[0]) == []


def test_loops_in_layers_are_sections_of_sections() -> None:
    def run(x: fw.Tensor, *weights: fw.Tensor) -> fw.Tensor:
        for w in weights:
            for _ in range(8):
                x = fw.tanh(x @ w)
            x = x - x.mean(axis=0)
        return x

    arrays = [normal(6, 5), *(normal(5, 5) for _ in range(9))]
    graph, arrays = recorded(run, *map(fw.from_numpy, arrays))
    inner = max((s for s in cut_sections(graph)), key=lambda s: len(s.calls))
    assert len(inner.calls) >= 8 and max(calls_of(inner.graph)) >= 6
    agrees(graph, arrays, 1000.0)


# ---- that it makes no difference
@pytest.fixture
def everything_repeats(monkeypatch: Any) -> None:
    """Three equal turns of anything are a section."""
    monkeypatch.setattr(repeated_regions, "MIN_REPEATS", 3)
    monkeypatch.setattr(schedule, "HEAVY_KINDS", ("contract", "composite", "reduce", "pointwise"))


@pytest.mark.usefixtures("everything_repeats")
@pytest.mark.parametrize("seed", range(40))
def test_random_bodies(seed: int) -> None:
    run, arrays = repeated(np.random.default_rng(1000 + seed))
    agrees(*recorded(run, *map(fw.from_numpy, arrays)))


@pytest.mark.usefixtures("everything_repeats")
@pytest.mark.parametrize("seed", range(30))
def test_gradients_of_random_bodies(seed: int) -> None:
    run, arrays = repeated(np.random.default_rng(2000 + seed))

    def train(*inputs: fw.Tensor) -> Any:
        leaves = [i.detach().requires_grad_() for i in inputs]
        sum(((out * 0.1).sum() for out in run(*leaves)), fw.tensor(0.0)).backward()
        return [i.grad for i in leaves if i.grad is not None]

    agrees(*recorded(train, *map(fw.from_numpy, arrays)), 100.0)


@pytest.mark.usefixtures("everything_repeats")
@pytest.mark.parametrize("seed", range(20))
def test_random_layers_trained(seed: int) -> None:
    """Parameters change in place while their old values are still needed by other layers."""
    rng = np.random.default_rng(3000 + seed)
    body, count = body_of(rng), int(rng.integers(3, 9))
    weights = [fw.from_numpy(normal(6, 6) * 0.3).requires_grad_() for _ in range(count)]
    x, tied = fw.from_numpy(normal(6, 6)), bool(rng.integers(2))

    def train(x: fw.Tensor) -> fw.Tensor:
        h, g = x, x
        for i, w in enumerate(weights):
            h, g, _ = body(h, g, w, weights[0] if tied else weights[i - 1], x)
        loss = (h * g).mean() + sum(((w * w).sum() * 0.1 for w in weights), fw.tensor(0.0))
        loss.backward()
        with fw.no_grad():
            for w in weights:
                w.sub_(0.1 * w.grad)
                w.grad = None
        return loss.detach()

    start, results = [w.numpy().copy() for w in weights], []
    for run in (train, fw.compile(train, fullgraph=True)):
        with fw.no_grad():
            for w, value in zip(weights, start):
                w.copy_(fw.from_numpy(value))
        losses = [run(x).item() for _ in range(4)]
        results.append([np.array(losses, np.float32), *(w.numpy().copy() for w in weights)])
    for got, want in zip(*results):
        assert_same(got, want, 1000.0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_order_is_one_in_which_it_can_be_computed(data: Any) -> None:
    count = data.draw(st.integers(1, 12))
    lines = [(data.draw(st.sampled_from(["mul", "matmul", "slice", "sum"])),
              data.draw(st.integers(0, 1 + i)), data.draw(st.integers(0, 1 + i)))
             for i in range(count)]
    wanted = data.draw(st.lists(st.integers(0, 1 + count), min_size=1, max_size=4))
    ops: dict[str, Callable[..., fw.Tensor]] = {
        "mul": lambda a, b: a * b, "matmul": lambda a, b: a @ b,
        "slice": lambda a, b: a[::-1], "sum": lambda a, b: a + b.sum()}

    def run(*pool: fw.Tensor) -> list[fw.Tensor]:
        values = list(pool)
        for op, a, b in lines:
            values.append(ops[op](values[a], values[b]))
        return [values[i] for i in wanted]

    graph, _ = recorded(run, fw.ones(3, 3), fw.full((3, 3), 2.0))
    found = Scheduler(graph)
    assert len(found.nodes) == len(set(found.nodes))
    assert {o for o in graph.outputs if o.op != "input"} <= set(found.nodes)
    for n in found.nodes:
        for read in found.reads[n]:
            assert read.op == "input" or found.position[read] < found.position[n]


# ---- in whole programs
def same_in_both(make: Callable[[], tuple[Any, Any]], *args: Any, calls: int = 4) -> None:
    """What make() gives, a model and a step, does the same eagerly and compiled."""
    results = []
    for compiled in (False, True):
        fw.manual_seed(3)
        model, step = make()
        run = fw.compile(step, fullgraph=True) if compiled else step
        losses = np.array([run(*args).item() for _ in range(calls)], np.float32)
        results.append([losses, *(p.numpy().copy() for p in model.parameters())])
    for got, want in zip(*results):
        assert_same(got, want, 100.0)


def stack(layer: Callable[[], Any], layers: int = 9) -> Any:
    return nn.Sequential(*[layer() for _ in range(layers)])


LAYERS = {
    "dropout": lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3), nn.Tanh()),
    "layer_norm": lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.GELU()),
    "batch_norm": lambda: nn.Sequential(nn.Linear(6, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU()),
    "bilinear": lambda: nn.Sequential(nn.Linear(6, 12), nn.GLU()),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("optimizer", [optim.SGD, optim.AdamW])
def test_training_of_equal_layers(kind: str, optimizer: Any) -> None:
    def make() -> tuple[Any, Any]:
        model = stack(LAYERS[kind])
        opt = optimizer(model.parameters(), lr=0.05)

        def step(x: fw.Tensor) -> fw.Tensor:
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            return loss.detach()

        return model, step

    same_in_both(make, fw.from_numpy(normal(5, 6)))


class Shifting(nn.Module):
    """Keeps the last rows that it has given, each call one more."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("rows", fw.zeros(5, 4))

    def forward(self, h: fw.Tensor) -> fw.Tensor:
        h = fw.tanh(self.linear(h))
        self.rows.copy_(fw.concat([self.rows[1:], h]))
        return h + self.rows.mean(axis=0)


def test_states_that_read_themselves_from_another_place_on() -> None:
    """What takes the memory of an array must not read its other elements."""
    results = []
    for compiled in (False, True):
        fw.manual_seed(1)
        model = nn.Sequential(*[Shifting() for _ in range(10)])
        run = fw.compile(model.__call__, fullgraph=True) if compiled else model
        with fw.no_grad():
            out = [run(fw.full((1, 4), i + 1.0)).numpy().copy() for i in range(5)]
        results.append([*out, *(layer.rows.numpy().copy() for layer in model)])
    for got, want in zip(*results):
        assert_same(got, want, 10.0)


def test_as_many_parameters_are_overwritten_as_in_one_piece(monkeypatch: Any) -> None:
    """A product that reads a weight comes before its update. The counter of steps, one array that
    all states hold, is not overwritten at all."""
    graph, arrays = training_of(24)
    taken = lower_graph(graph, Machine())[0].donated
    agrees(graph, arrays, 100.0)
    assert len(graph.donated) == 24 * 2 * 3
    monkeypatch.setattr(compiling, "cut_sections", lambda graph: [])
    assert len(taken) >= len(lower_graph(graph, Machine())[0].donated) >= 24 * 3


class Reader(nn.Module):
    """Reads words one after the other, each looked up where it is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(11, 6), nn.Linear(12, 6)

    def forward(self, words: fw.Tensor) -> fw.Tensor:
        h = fw.zeros(words.shape[0], 6)
        for t in range(words.shape[1]):
            h = fw.tanh(self.cell(fw.concat([self.words(words[:, t]), h], 1)))
        return h


def test_indices_in_turns_are_checked_and_nothing_is_changed_before() -> None:
    model = Reader()
    opt = optim.SGD(model.parameters(), lr=0.1)

    @fw.compile
    def step(words: fw.Tensor) -> fw.Tensor:
        opt.zero_grad()
        loss = model(words).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    good = np.arange(24).reshape(2, 12) % 11
    for _ in range(3):
        step(fw.from_numpy(good))
    before = [p.numpy().copy() for p in model.parameters()]
    bad = good.copy()
    bad[1, 7] = 11
    with pytest.raises(IndexError, match="11"):
        step(fw.from_numpy(bad))
    for p, want in zip(model.parameters(), before):
        assert p.numpy().tobytes() == want.tobytes()


def test_lookups_in_turns_agree() -> None:
    graph, arrays = recorded(Reader(), fw.from_numpy(np.arange(24).reshape(2, 12) % 11))
    assert max(calls_of(graph)) >= 10
    agrees(graph, arrays)


def test_parts_of_one_array_from_its_other_end() -> None:
    """Slices with steps, turned around, of several arrays, and of reshapes of them."""
    def run(x: fw.Tensor, y: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        h = x[0, :5] @ w
        for t in range(9):
            h = fw.tanh(h @ w + x[9 - t, t:t + 9:2] + y.reshape(10, 5)[t] + y[5 * t + 5:5 * t + 10])
        return h

    agrees(*recorded(run, *map(fw.from_numpy, [normal(10, 20), normal(50), normal(5, 5)])))


def test_numbers_may_differ_from_turn_to_turn() -> None:
    def run(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        for t in range(9):
            x = fw.tanh(x @ w) * 0.9 ** t + (x > t) * 2.0
        return x

    graph, arrays = recorded(run, fw.from_numpy(normal(4, 4)), fw.from_numpy(normal(4, 4)))
    assert max(calls_of(graph)) >= 6
    agrees(graph, arrays)


def test_filled_arrays_may_differ_from_turn_to_turn() -> None:
    def run(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        for t in range(9):
            x = fw.tanh(fw.concat([x, fw.full((4, 1), t / 9.0)], 1) @ w)
        return x

    graph, arrays = recorded(run, fw.from_numpy(normal(4, 4)), fw.from_numpy(normal(5, 4)))
    assert max(calls_of(graph)) >= 8
    agrees(graph, arrays)


def test_parts_of_an_array_whose_axes_are_permuted() -> None:
    def run(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        h = x[0, 0]
        for part in fw.unstack(fw.permute_dims(x, (1, 2, 0)), axis=1):
            h = fw.tanh(h @ w + part[:, 1] - part[:, 2])
        return h

    graph, arrays = recorded(run, fw.from_numpy(normal(4, 5, 5)[:, :, :5].transpose(0, 2, 1)),
                             fw.from_numpy(normal(5, 5)))
    agrees(graph, arrays)
    graph, arrays = recorded(lambda x, w: sum(fw.tanh(p @ w) @ w for p in fw.permute_dims(
        x, (1, 0, 2))), fw.from_numpy(normal(4, 12, 5)), fw.from_numpy(normal(5, 5)))
    assert max(calls_of(graph)) >= 10
    agrees(graph, arrays)


def test_results_of_turns_may_be_returned_and_used() -> None:
    def run(x: fw.Tensor, w: fw.Tensor) -> Any:
        outs = [x]
        for _ in range(10):
            outs.append(fw.tanh(outs[-1] @ w) + outs[0])
        return (*outs, fw.stack(outs).sum(0), outs[3].reshape(-1), outs[4].T)

    agrees(*recorded(run, fw.from_numpy(normal(4, 4)), fw.from_numpy(normal(4, 5)[:, :4])))


def test_constants_are_shared_by_turns() -> None:
    def run(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        for _ in range(8):
            x = fw.tanh(x @ w) * fw.tensor([1.0, 0.5, 0.25, 0.0])
        return x

    agrees(*recorded(run, fw.from_numpy(normal(3, 4)), fw.from_numpy(normal(4, 4))))


def test_a_section_reads_nothing_that_another_one_packed() -> None:
    """Filled arrays, such as a first state, are packed alike in all of them, each in its memory."""
    fw.manual_seed(0)
    lstm, out = nn.LSTM(22, 64), nn.Linear(64, 22)

    def losses(x: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        scores = out(lstm(x)[0].transpose(0, 1)).flatten(0, 1)
        return nn.functional.cross_entropy(scores, labels.flatten(), reduction="none")

    compiled = fw.compile(losses)
    for _ in range(3):
        x, labels = fw.randn(12, 16, 22), fw.randint(0, 22, (16, 12))
        assert_same(compiled(x, labels).numpy(), losses(x, labels).numpy(), 100.0)
