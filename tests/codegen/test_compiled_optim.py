"""Steps of every optimizer inside of compiled functions: the numbers are those of eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optimizers import OPTIMIZERS, STEPS, gradients, label, rate, starts

import fusewire as fw
from fusewire import optim
from fusewire.capture.replay.compiled_function import CaptureWarning


class Training:
    """Parameters whose gradients are given, two groups of them, and a step that may be compiled."""

    def __init__(self, case: tuple[str, Any], dtype: str, compiled: bool) -> None:
        name, settings = case
        self.params = [fw.tensor(v).requires_grad_() for v in starts(name, dtype)]
        self.given = [fw.zeros_like(p.detach()) for p in self.params]
        self.optimizer = getattr(optim, name)(
            [{"params": self.params[:2]}, {"params": self.params[2:]}], **settings)
        self.lr = self.optimizer.param_groups[0]["lr"]
        self.run = fw.compile(self.step, fullgraph=True) if compiled else self.step

    def step(self, missing: bool) -> None:
        self.optimizer.zero_grad()
        for p, g in zip(self.params[1:] if missing else self.params, self.given[missing:]):
            (p * g).sum().backward()
        self.optimizer.step()

    def steps(self, first: int, last: int, grads: list[Any]) -> None:
        for step in range(first, last):
            for given, g in zip(self.given, grads[step]):
                given.copy_(0.0 if g is None else fw.tensor(g))
            for k, group in enumerate(self.optimizer.param_groups, 1):
                group["lr"] = rate(step, self.lr * k)
            self.run(step % 4 == 1)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=label)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_twenty_steps(case: Any, dtype: str) -> None:
    grads = list(gradients(case[0], dtype))
    compiled, eager = Training(case, dtype, True), Training(case, dtype, False)
    compiled.steps(0, STEPS, grads)
    eager.steps(0, STEPS, grads)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for p, q in zip(compiled.params, eager.params):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), tolerance, tolerance)
        states = compiled.optimizer.state[p], eager.optimizer.state[q]
        assert states[0].keys() == states[1].keys()
        for key, value in states[1].items():
            np.testing.assert_allclose(states[0][key].numpy(), value.numpy(), tolerance, tolerance)
    if case[0] != "Muon":  # with and without the first gradient, before and after counts part
        assert compiled.run.stats.recordings <= 4, compiled.run.misses
        assert compiled.run.stats.replays >= STEPS - 4


def test_eager_and_compiled_steps_can_alternate() -> None:
    case = ("AdamW", {"lr": 0.01})
    grads = list(gradients("AdamW", "float32"))
    mixed, eager = Training(case, "float32", True), Training(case, "float32", False)
    compiled, plain = mixed.run, mixed.step
    for step in range(STEPS):
        mixed.run = compiled if step % 3 else plain
        mixed.steps(step, step + 1, grads)
    eager.steps(0, STEPS, grads)
    for p, q in zip(mixed.params, eager.params):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-6, 1e-6)


def test_counts_that_are_equal_stay_one_input() -> None:
    params = [fw.ones(3).requires_grad_() for _ in range(5)]
    optimizer = optim.Adam(params, lr=0.1)

    @fw.compile(fullgraph=True)
    def step() -> None:
        for p in params:
            p.grad = p.detach() * 2
        optimizer.step()

    for _ in range(4):
        step()
    assert step.stats.recordings == 1
    inputs = [line for line in step.graph().splitlines() if "input()" in line]
    assert sum("float32[]" in line for line in inputs) == 1
    assert len({id(optimizer.state[p]["step"]._data) for p in params}) == 1


def lbfgs(compiled: bool) -> tuple[list[float], Any]:
    x = fw.tensor([-1.2, 1.0], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=5)

    def closure() -> fw.Tensor:
        optimizer.zero_grad()
        loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    def step() -> fw.Tensor:
        return optimizer.step(closure)

    run: Callable[[], Any] = fw.compile(step) if compiled else step
    return [run().item() for _ in range(8)], x


def test_lbfgs_may_have_a_recording_for_each_step() -> None:
    """Its line search decides by values that become plain numbers: it is right, not fast."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        losses, x = lbfgs(True)
    expected, y = lbfgs(False)
    assert losses == expected and x.tolist() == y.tolist()
