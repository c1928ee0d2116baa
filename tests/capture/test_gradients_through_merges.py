"""Gradients through branches whose paths merge are those of eager, and need few recordings."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_functions import function_of
from programs.gradient_writing import BEGIN, Writer

import fusewire as fw
from fusewire.capture.replay import hot_paths, trace_tree

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "500")) // 25
CHUNK = 10
CALLS = 16

END = """
    loss = (h * h + g).mean() * aux + held[0].sum() * k
    loss.backward()
    gradients = [p.grad for p in (*w, b)]
    for p in (*w, b):
        p.grad = None
    return loss.detach(), k, gradients
"""


def calls(seed: int) -> Iterator[tuple[fw.Tensor, fw.Tensor]]:
    rng = np.random.default_rng(seed)
    for _ in range(CALLS):
        yield fw.tensor(rng.standard_normal(3)), fw.tensor(rng.standard_normal(6))


def check(fn: Any, seed: int) -> Any:
    """The compiled function, after calls that agreed with eager."""
    compiled = fw.compile(fn)
    for x, t in calls(seed):
        (loss, k, gradients), (want, want_k, want_gradients) = compiled(x, t), fn(x, t)
        assert k == want_k
        assert [g is None for g in gradients] == [g is None for g in want_gradients]
        for a, b in zip([loss, *gradients], [want, *want_gradients]):
            if a is not None:
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)
    return compiled


def agree(source: str, folder: Path, seed: int) -> Any:
    try:
        return check(function_of(source, folder), seed)
    except Exception as error:
        raise AssertionError(f"program {seed}\n{source}") from error


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_programs(first: int, tmp_path: Path) -> None:
    for seed in range(first, min(first + CHUNK, PROGRAMS)):
        agree(Writer(seed).source(END), tmp_path, seed)


@pytest.mark.parametrize("first", range(0, PROGRAMS // 2, CHUNK))
def test_random_programs_whose_paths_are_compiled_as_a_whole(
        first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hot_paths, trace_tree):
        monkeypatch.setattr(module, "SMALLEST_BYTES", 1)
    for seed in range(first, min(first + CHUNK, PROGRAMS)):
        agree(Writer(1000 + seed).source(END), tmp_path, seed)


class Net(fw.nn.Module):
    """Layers that each choose between two activations by a value of the call."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = fw.nn.ModuleList([fw.nn.Linear(4, 4) for _ in range(layers)])

    def forward(self, x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if t[i] > 0.5:
                x = fw.tanh(x)
            elif t[i] < -0.5:
                x = x * 0.5
                if x.max() > 1.0:
                    x = x / 2.0
            else:
                x = x * 1.5
        return (x * x).mean()


def trained(net: Net, compiled: bool) -> tuple[list[float], Any]:
    """The losses of training steps, and the compiled step."""
    optimizer = fw.optim.Adam(net.parameters(), lr=0.01)

    def step(x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = net(x, t)
        loss.backward()
        optimizer.step()
        return loss

    run, rng = fw.compile(step) if compiled else step, np.random.default_rng(0)
    return [float(run(fw.tensor(rng.standard_normal((3, 4)).astype("float32")),
                      fw.tensor(rng.standard_normal(len(net.layers)).astype("float32"))))
            for _ in range(60)], run


@pytest.mark.parametrize("layers", [2, 6])
def test_a_training_step_needs_few_recordings(layers: int) -> None:
    """Each of the layers has three outcomes and a nested branch: 4**6 paths."""
    fw.manual_seed(0)
    net = Net(layers)
    other = copy.deepcopy(net)
    (losses, step), (want, _) = trained(net, True), trained(other, False)
    np.testing.assert_allclose(losses, want, rtol=1e-4)
    assert step.stats.recordings <= 6 * layers
    assert step.stats.fallbacks == 0


def test_a_weight_that_one_path_uses_has_no_gradient_on_the_other(tmp_path: Path) -> None:
    """`.grad` is None there, so that an optimizer leaves the weight alone."""
    agree(BEGIN + """
    if t[0] > 0:
        h = h * w[2]
    if t[1] > 0:
        g = g * w[3]
    if t[2] > 0:
        h = h * 2.0
""" + END, tmp_path, 3)


def test_gradients_of_gradients_through_a_branch() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        x = x.detach().requires_grad_()
        y = x * x * x
        if y.sum() > 0:
            y = y * x
        if y.max() > 1:
            y = y * 2.0
        first, = fw.grad(y.sum(), x, create_graph=True)
        second, = fw.grad(first.sum(), x)
        return second

    compiled = fw.compile(f)
    for values in ([1.0, 2.0], [-1.0, 0.5], [0.5, 0.25], [3.0, -1.0]):
        np.testing.assert_allclose(np.asarray(compiled(fw.tensor(values))),
                                   np.asarray(f(fw.tensor(values))), rtol=1e-5)
