"""Whole programs as CUDA C: random graphs, and a few training steps of small models; they give what
NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpus import BOTH, from_here
from oracle import recorded
from random_programs import inputs_of, printed, program, run

import fusewire as fw
from fusewire.capture.replay.differential_check import differences
from fusewire.codegen.cuda.program import CUDA_LOWERING
from fusewire.codegen.partition.hybrid_executable import compile_hybrid
from fusewire.models.text.gpt2 import GPT2, GPT2Config

F = fw.nn.functional


def check(device: Any, fn: Callable[..., Any], *given: Any) -> int:
    """The number of arrays that a device computes. Asserts that they are NumPy's.

    An element may be off by what rounding explains: by the errors of sums of their sizes, measured
    by a float64 evaluation and by perturbed ones. NumPy's own sums differ by processor, so a fixed
    tolerance fits none: a gradient that is 0 but for rounding makes a step of any size in Adam.
    """
    graph, arrays = recorded(fn, *given)
    compiled = compile_hybrid(graph, lambda part: from_here(part.graph, device),
                              lambda device: CUDA_LOWERING)
    outputs = compiled([np.copy(a) for a in arrays])
    assert outputs and not [str(d) for d in differences(graph, arrays, outputs)]
    return len(outputs)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(make_device: Any, seed: int) -> None:
    steps = program(seed)
    try:
        with np.errstate(all="ignore"):
            check(make_device(seed % 4), run, steps, inputs_of(seed))
    except Exception as error:
        pytest.fail(f"{printed(steps, seed)}\n{type(error).__name__}: {error}")


class Digits(fw.nn.Module):
    """A small network for images of 8 by 8."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = fw.nn.Conv2d(1, 8, 3, padding=1)
        self.out = fw.nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.out(F.max_pool2d(fw.relu(self.conv(x)), 2).reshape(x.shape[0], -1))


def digits(device: str = "cpu") -> tuple[Any, Any, Callable[..., fw.Tensor], list[fw.Tensor]]:
    rng = np.random.default_rng(0)
    model = Digits().to(device)
    images = fw.from_numpy(rng.standard_normal((6, 1, 8, 8)).astype(np.float32))
    labels = fw.from_numpy(rng.integers(0, 10, 6))
    return (model, fw.optim.Adam(model.parameters(), lr=1e-2),
            lambda x, t: F.cross_entropy(model(x), t), [images.to(device), labels.to(device)])


def small_gpt(device: str = "cpu") -> tuple[Any, Any, Callable[..., fw.Tensor], list[fw.Tensor]]:
    tokens = np.random.default_rng(0).integers(0, 37, (2, 9))
    model = GPT2(GPT2Config(37, 16, 16, 2, 2)).to(device)

    def loss(x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        return F.cross_entropy(model(x).reshape(-1, 37), t.reshape(-1))

    return (model, fw.optim.AdamW(model.parameters(), lr=1e-2), loss,
            [fw.from_numpy(tokens[:, a:b].copy()).to(device) for a, b in ((0, -1), (1, None))])


@pytest.mark.parametrize("make", [digits, small_gpt], ids=lambda make: make.__name__)
def test_training_steps(make_device: Any, make: Callable[[], Any]) -> None:
    """Each step from where eager steps have led; its loss, the parameters and all that the
    optimizer keeps are compared."""
    fw.manual_seed(0)
    model, optimizer, loss_of, given = make()

    def step(x: fw.Tensor, t: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = loss_of(x, t)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(*given).item()]
    for order in (0, 1, 2):
        made = check(make_device(order), step, *given)
        assert made >= 1 + 3 * len(list(model.parameters()))
        losses.append(step(*given).item())
    assert losses == sorted(losses, reverse=True)


@BOTH
@pytest.mark.parametrize("make", [digits, small_gpt], ids=lambda make: make.__name__)
def test_a_compiled_training_run_is_that_of_the_cpu(gpus: Any, make: Callable[..., Any]) -> None:
    """The losses of each step: `fw.compile` there, eagerly here."""
    losses = {}
    for device in ("cpu", "cuda"):
        fw.manual_seed(0)
        model, optimizer, loss_of, given = make(device)

        def step(x: fw.Tensor, t: fw.Tensor, optimizer: Any = optimizer, loss_of: Any = loss_of
                 ) -> fw.Tensor:
            optimizer.zero_grad()
            loss = loss_of(x, t)
            loss.backward()
            optimizer.step()
            return loss

        run = fw.compile(step, fullgraph=True) if device == "cuda" else step
        losses[device] = [run(*given).item() for _ in range(6)]
        assert {p.device.partition(":")[0] for p in model.parameters()} == {device}
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], 1e-3)
    assert losses["cpu"][-1] < losses["cpu"][0]
