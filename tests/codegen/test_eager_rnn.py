"""Recurrent layers as programs of all their steps: equal to ops of single steps in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from thresholds import fresh_cache

import fusewire as fw
from fusewire.codegen.eager_jit import rnn
from fusewire.eager import nn
from fusewire.eager.errors import GradientError
from fusewire.eager.settings import settings
from fusewire.eager.upper_layer import UPPER

STEPS, BATCH, FEATURES, HIDDEN = 7, 3, 5, 6
LAYERS: list[tuple[str, str, dict[str, Any]]] = [
    ("of one direction", "LSTM", {}), ("of one direction", "GRU", {}),
    ("of one direction", "RNN", {}), ("relu", "RNN", {"nonlinearity": "relu"}),
    *[("both directions, two layers", name, {"bidirectional": True, "num_layers": 2})
      for name in ("LSTM", "GRU", "RNN")],
    ("no bias", "LSTM", {"bias": False}), ("no bias", "GRU", {"bias": False}),
    ("projected", "LSTM", {"proj_size": 4, "bidirectional": True}),
    ("batch first", "LSTM", {"batch_first": True}),
]
EACH = pytest.mark.parametrize(("name", "how"), [case[1:] for case in LAYERS],
                               ids=[f"{case[1]}, {case[0]}" for case in LAYERS])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every layer runs as programs; gives those that were made."""
    found: list[Any] = []

    class Noted(rnn.LayerPrograms):
        def __init__(self, what: Any) -> None:
            super().__init__(what)
            found.append(what)

    monkeypatch.setattr(rnn, "_MIN_MULTIPLICATIONS", 1)
    monkeypatch.setattr(rnn, "_PROGRAMS", fresh_cache("recurrent layers"))
    monkeypatch.setattr(rnn, "LayerPrograms", Noted)
    yield found


def by_ops(call: Callable[[], Any]) -> Any:
    """What a call gives where nothing makes programs of layers."""
    before, UPPER.recurrent_layer = UPPER.recurrent_layer, None
    try:
        return call()
    finally:
        UPPER.recurrent_layer = before


def layer_of(name: str, how: dict[str, Any], dtype: Any) -> Any:
    fw.manual_seed(2)
    return getattr(nn, name)(FEATURES, HIDDEN, **how, dtype=fw.float64).to(dtype)


def inputs(batch_first: bool = False, packed: bool = False, steps: int = STEPS) -> Any:
    """An input in float64, whose sequences may be of several lengths."""
    shape = (BATCH, steps, FEATURES) if batch_first else (steps, BATCH, FEATURES)
    x = np.random.default_rng(1).standard_normal(shape)
    return [x[:n, i] for i, n in enumerate((steps, 3, 1))] if packed else [x]


def results(layer: Any, xs: list[Any], dtype: Any, last: bool = True) -> list[Any]:
    """Output, last state, and gradients by inputs and weights of a sum with weights of these."""
    leaves = [fw.tensor(x, dtype=dtype).requires_grad_() for x in xs]
    given = leaves[0] if len(xs) == 1 else nn.utils.rnn.pack_sequence(leaves)
    out, state = layer(given)
    found = [out if len(xs) == 1 else out.data]
    found += [] if not last else list(state) if isinstance(state, tuple) else [state]
    loss = sum((y * fw.linspace(-1, 1, y.size, dtype=dtype).reshape(y.shape)).sum() for y in found)
    gradients = fw.grad(loss, [*leaves, *layer.parameters()])
    return [t.detach().numpy() for t in (*found, *gradients)]


def assert_near(found: list[Any], exact: list[Any], within: float) -> None:
    assert [a.shape for a in found] == [a.shape for a in exact]
    for a, b in zip(found, exact):
        assert abs(a - b).max() <= within * max(1, abs(b).max())


@EACH
@pytest.mark.parametrize("packed", [False, True], ids=["one length", "packed"])
@pytest.mark.parametrize(("dtype", "within"), [(fw.float32, 2e-6), (fw.float64, 1e-14)])
def test_programs_give_what_steps_give(
    name: str, how: dict[str, Any], packed: bool, dtype: Any, within: float, made: list[Any]
) -> None:
    xs = inputs("batch_first" in how, packed)
    exact = by_ops(lambda: results(layer_of(name, how, fw.float64), xs, fw.float64))
    assert not made
    assert_near(results(layer_of(name, how, dtype), xs, dtype), exact, within)
    assert len(made) == (1 + ("bidirectional" in how)) * how.get("num_layers", 1)


@EACH
def test_results_do_not_depend_on_the_number_of_threads(
    name: str, how: dict[str, Any], made: list[Any]
) -> None:
    layer, xs, before = layer_of(name, how, fw.float32), inputs("batch_first" in how), \
        fw.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            fw.set_num_threads(threads)
            rnn._PROGRAMS.clear()
            found.append([a.tobytes() for a in results(layer, xs, fw.float32)])
    finally:
        fw.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
@pytest.mark.parametrize("packed", [False, True], ids=["one length", "packed"])
def test_long_sequences_go_so_many_steps_at_a_time(
    name: str, packed: bool, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rnn, "_MAX_STEPS_PER_PROGRAM", 4)
    how, xs = {"bidirectional": True}, inputs(packed=packed, steps=10)
    exact = by_ops(lambda: results(layer_of(name, how, fw.float64), xs, fw.float64))
    assert_near(results(layer_of(name, how, fw.float64), xs, fw.float64), exact, 1e-14)
    assert max(len(what.sizes) for what in made) == 4


def test_gradients_come_from_some_results_and_go_to_some_inputs(made: list[Any]) -> None:
    layer, x = layer_of("LSTM", {}, fw.float64), fw.tensor(inputs()[0])

    def found(which: int) -> list[Any]:
        out, (h, c) = layer(x)
        return [g.numpy() for g in fw.grad((out, h, c)[which].sum(), [layer.weight_hh_l0])]

    for which in range(3):
        assert_near(found(which), by_ops(lambda which=which: found(which)), 1e-14)
    layer.weight_ih_l0.requires_grad_(False)
    layer(x)[0].sum().backward()
    assert layer.weight_ih_l0.grad is None and layer.weight_hh_l0.grad is not None


def test_without_a_tape_nothing_is_kept_for_it(made: list[Any]) -> None:
    layer, x = layer_of("GRU", {}, fw.float32), fw.tensor(inputs()[0].astype("f4"))
    with fw.no_grad():
        assert not layer(x)[0].requires_grad
    assert not any(made[0].needs)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_gradients_can_be_differentiated_again(name: str, made: list[Any]) -> None:
    layer, x = layer_of(name, {}, fw.float64), fw.tensor(inputs()[0]).requires_grad_()

    def found() -> list[Any]:
        first, = fw.grad((layer(x)[0] ** 2).sum(), [x], create_graph=True)
        return [g.numpy() for g in fw.grad((first ** 2).sum(), [x, *layer.parameters()])]

    assert_near(found(), by_ops(found), 1e-13)


def test_the_way_back_can_be_gone_once_or_is_kept(made: list[Any]) -> None:
    layer, x = layer_of("LSTM", {}, fw.float64), fw.tensor(inputs()[0])
    out, (h, _) = layer(x)
    first = fw.grad(out.sum(), [layer.bias_hh_l0], retain_graph=True)[0]
    again = fw.grad(out.sum(), [layer.bias_hh_l0])[0]
    assert first.tolist() == again.tolist()
    with pytest.raises(GradientError, match="at its op LSTM"):
        h.sum().backward()


def test_a_tensor_that_is_given_twice_gets_both_gradients(made: list[Any]) -> None:
    layer, x = layer_of("LSTM", {}, fw.float64), fw.tensor(inputs()[0])
    start = fw.ones(1, BATCH, HIDDEN, dtype=fw.float64).requires_grad_()

    def found(create_graph: bool) -> list[Any]:
        loss = layer(x, (start, start))[0].sum()
        return [fw.grad(loss, [start], create_graph=create_graph)[0].detach().numpy()]

    exact = by_ops(lambda: found(False))
    assert_near(found(False), exact, 1e-14)
    assert_near(found(True), exact, 1e-14)


def test_hooks_see_gradients_of_results(made: list[Any]) -> None:
    layer, x, seen = layer_of("GRU", {}, fw.float64), fw.tensor(inputs()[0]), list[Any]()
    out, _ = layer(x)
    out.register_hook(lambda g: seen.append(g.shape))
    out.sum().backward()
    assert seen == [out.shape]


def test_small_layers_mixed_dtypes_and_16_bits_are_left_to_ops(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    half = layer_of("LSTM", {}, fw.float16)
    half(fw.zeros(STEPS, BATCH, FEATURES, dtype=fw.float16))
    monkeypatch.setattr(rnn, "_MIN_MULTIPLICATIONS", 1 << 22)
    layer_of("LSTM", {}, fw.float32)(fw.zeros(STEPS, BATCH, FEATURES))
    monkeypatch.setattr(rnn, "_MIN_MULTIPLICATIONS", 1)
    monkeypatch.setattr(settings, "compile", False)
    layer_of("LSTM", {}, fw.float32)(fw.zeros(STEPS, BATCH, FEATURES))
    assert not made
