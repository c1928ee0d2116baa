"""A backward outside of the function, of results that depend on its branches and loops, gives the
gradients of eager, whatever happened to the arguments in between. It needs few recordings."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_functions import function_of
from programs.gradient_writing import Writer

import fusewire as fw
from fusewire import nn

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "250")) // 25
FIRST = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS_FROM", "0"))
CHUNK = 10
CALLS = 16
END = """
    return (h * h + g).mean() * aux + held[0].sum() * k, h, g * 2.0, k
"""


def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
    x, t = rng.standard_normal(3), rng.standard_normal(6)
    return fw.tensor(x), fw.tensor(t), int(rng.integers(6))


def gradients(fn: Any, weights: list[fw.Tensor], given: tuple[Any, ...], chosen: np.ndarray,
              changes: bool, twice: bool) -> list[Any]:
    """What a call returns, and the gradients of the `chosen` ones of its results. With `changes`,
    the weights and the arguments change between the call and its backward. With `twice`, the
    backward runs twice, or gradients are differentiated again."""
    given = copy.deepcopy(given)
    *results, number = fn(*given)
    values = [np.array(r.detach()) for r in results]
    before = [fw.tensor(np.array(w.detach())) for w in weights]
    with fw.no_grad():
        for x in (*weights, *given[:2]) if changes else ():
            x += 1.0
    loss = sum((r * r).sum() for r, c in zip(results, chosen) if c and r.requires_grad)
    if isinstance(loss, fw.Tensor):
        if twice and number > 1:
            slopes = fw.grad(loss, weights, create_graph=True, allow_unused=True)
            loss = sum((g * g).sum() for g in slopes if g is not None and g.requires_grad)
        elif twice:
            loss.backward(retain_graph=True)
        if isinstance(loss, fw.Tensor) and loss.requires_grad:
            loss.backward(retain_graph=twice and number > 1)
    found = [None if w.grad is None else np.array(w.grad) for w in weights]
    with fw.no_grad():
        for w, old in zip(weights, before):
            w.grad = None
            if changes:
                w.copy_(old)
    return [number, *values, *found]


def check(fn: Any, seed: int) -> Any:
    """The compiled function, after calls that agreed with eager."""
    compiled, rng = fw.compile(fn), np.random.default_rng(seed)
    weights = [*fn.__globals__["w"], fn.__globals__["b"]]
    for _ in range(CALLS):
        given, chosen = arguments(rng), rng.random(3) < 0.7
        changes, twice = rng.random() < 0.3, rng.random() < 0.2
        got, want = (gradients(f, weights, given, chosen, changes, twice) for f in (compiled, fn))
        assert [a is None for a in got] == [a is None for a in want]
        for a, b in zip(got, want):
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    return compiled


@pytest.mark.parametrize("first", range(FIRST, FIRST + PROGRAMS, CHUNK))
def test_random_programs(first: int, tmp_path: Path) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + PROGRAMS)):
        source = Writer(seed).source(END, loops=seed % 3)
        try:
            check(function_of(source, tmp_path), seed)
        except Exception as error:
            raise AssertionError(f"program {seed}\n{source}") from error


class Branches(nn.Module):
    """Layers that each choose between two activations by a value that they compute."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(layers)])

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 0:
                x = fw.tanh(x)
            else:
                x = x - 0.5
        return x


class Skips(nn.Module):
    """Layers that an input leaves out: the others have no gradients."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(layers)])
        self.shared = nn.Linear(4, 4)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        state = self.layers[0](x[:4])
        for i, layer in enumerate(self.layers[1:]):
            if x[i] > 0:
                state = fw.tanh(layer(state)) + state
            elif x[i + 1] > 0:
                state = self.shared(state)
        return state


class Recurrence(nn.Module):
    """A recurrent network, from a text of any length to its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        state = fw.zeros(4)
        for t in range(x.shape[0]):
            state = fw.tanh(self.inner(x[t]) + self.outer(state))
        return state


class Halting(nn.Module):
    """Applies a layer until its result is small."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        steps = 0
        while x.abs().sum() > 1.0 and steps < 8:
            x, steps = self.layer(x) * 0.5, steps + 1
        return x


def vectors(rng: np.random.Generator) -> Iterator[fw.Tensor]:
    while True:
        yield fw.tensor(3 * rng.standard_normal(4, dtype="float32"))


def long_vectors(rng: np.random.Generator) -> Iterator[fw.Tensor]:
    while True:
        yield fw.tensor(rng.standard_normal(9, dtype="float32"))


def texts(rng: np.random.Generator) -> Iterator[fw.Tensor]:
    while True:
        yield fw.tensor(rng.standard_normal((rng.integers(1, 12), 4), dtype="float32"))


def test_a_step_sees_which_weights_have_gradients() -> None:
    """In a compiled step an optimizer reads `grad`, which is None where a layer was left out."""
    fw.manual_seed(0)
    model = Skips(3)
    models = model, copy.deepcopy(model)
    optimizers = [fw.optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.5) for m in models]

    def step(which: int, x: fw.Tensor) -> fw.Tensor:
        optimizers[which].zero_grad()
        loss = (models[which](x) ** 2).sum()
        loss.backward()
        optimizers[which].step()
        return loss

    compiled = fw.compile(step)
    for x, _ in zip(long_vectors(np.random.default_rng(0)), range(30)):
        np.testing.assert_allclose(float(compiled(1, x)), float(step(0, x)), rtol=1e-4)


@pytest.mark.parametrize(("make", "inputs", "most"), [
    (lambda: Branches(3), vectors, 6), (lambda: Branches(12), vectors, 24),
    (lambda: Skips(4), long_vectors, 16), (lambda: Skips(8), long_vectors, 32),
    (Recurrence, texts, 4), (Halting, vectors, 3)])
def test_a_model_trained_outside_needs_few_recordings(make: Any, inputs: Any, most: int) -> None:
    """`fw.compile(model)`, and a training loop in plain Python."""
    fw.manual_seed(0)
    model = make()
    compiled = fw.compile(copy.deepcopy(model))
    for x, _ in zip(inputs(np.random.default_rng(0)), range(60)):
        for net in (model, compiled):
            net.zero_grad()
            (net(x) ** 2).sum().backward()
        for a, b in zip(model.parameters(), compiled.parameters(), strict=True):
            if a.grad is None or b.grad is None:
                assert a.grad is b.grad
            else:
                np.testing.assert_allclose(np.asarray(b.grad), np.asarray(a.grad), rtol=1e-4,
                                           atol=1e-6)
    assert compiled.forward.stats.recordings <= most
    assert compiled.forward.stats.fallbacks == 0


def scaled(x: fw.Tensor, weight: fw.Tensor) -> fw.Tensor:
    y = x * weight
    if y.sum() > 0:
        y = y * 2.0
    else:
        y = y * 3.0
    if y.max() > 1:
        y = fw.tanh(y)
    return y.sum()


def test_a_merged_value_without_gradients_scales_a_weight() -> None:
    """The backward needs the value; no gradient goes through the merge."""
    weight = fw.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def f(x: fw.Tensor) -> fw.Tensor:
        scale = x * 2.0 if x[2] > 0 else x * 3.0
        if x.sum() > 0:
            scale = scale + 1.0
        if x[0] > 0:
            scale = fw.tanh(scale)
        if x[1] > 1:
            return scale * weight * 2.0
        return scale * weight

    compiled = fw.compile(f)
    for values in np.random.default_rng(0).standard_normal((20, 3)).astype("float32"):
        x = fw.tensor(values)
        got, want = (fw.grad((fn(x) ** 2).sum(), weight)[0] for fn in (compiled, f))
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5)
    assert compiled.stats.fallbacks == 0


def replayed() -> tuple[fw.Tensor, fw.Tensor]:
    """A weight, and a result of a replay that depends on it."""
    compiled, weight = fw.compile(scaled), fw.tensor([1.0, -2.0], requires_grad=True)
    for x in ([1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]):
        compiled(fw.tensor(x), weight)
    return weight, compiled(fw.tensor([0.5, 0.25]), weight)


def test_a_second_backward_says_that_the_tape_is_freed() -> None:
    _, result = replayed()
    result.backward()
    with pytest.raises(fw.GradientError, match="retain_graph"):
        result.backward()


def test_second_derivatives() -> None:
    """The call runs again with a tape, from the values that it has read."""
    weight, result = replayed()
    got, = fw.grad(result, weight, create_graph=True)
    want, = fw.grad(scaled(fw.tensor([0.5, 0.25]), weight), weight, create_graph=True)
    for x in (got, want):
        assert x.requires_grad
    second, = fw.grad((got * got).sum(), weight)
    np.testing.assert_allclose(np.asarray(second), np.asarray(
        fw.grad((want * want).sum(), weight)[0]), rtol=1e-6)


def test_a_gradient_of_an_argument_alone() -> None:
    """Only the gradients that are asked for are computed."""
    weight, result = replayed()
    gradient, = fw.grad(result, weight)
    np.testing.assert_allclose(np.asarray(gradient), np.asarray(fw.grad(
        scaled(fw.tensor([0.5, 0.25]), weight), weight)[0]), rtol=1e-6)
    assert weight.grad is None
