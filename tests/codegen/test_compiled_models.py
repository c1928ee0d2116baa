"""Whole models, trained for some steps: compiled they give what they give eager."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from layers.row import scalar, tensors_of
from oracle import assert_same
from sampling import sample
from small_models import MODELS

import fusewire as fw


def trained(name: str, compiled: bool, steps: int = 3) -> tuple[list[float], Any, list[Any]]:
    """Losses, the model, and its results in evaluation afterwards."""
    fw.manual_seed(0)
    model = MODELS[name].make()
    optimizer = fw.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def step(*inputs: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        out = model(*inputs)
        loss = scalar(out) / tensors_of(out)[0].size
        loss.backward()
        optimizer.step()
        return loss

    wrap = functools.partial(fw.compile, fullgraph=True) if compiled else lambda fn: fn
    run, infer = wrap(step), wrap(lambda *inputs: model(*inputs))
    inputs = [fw.from_numpy(a) for a in MODELS[name].inputs]
    losses = [run(*inputs).item() for _ in range(steps)]
    if compiled:
        assert run.stats.recordings <= 2
    model.eval()
    return losses, model, [tensors_of(infer(*inputs)) for _ in range(2)][-1]


@pytest.mark.parametrize("name", sample(
    [n for n in MODELS if n != "ResNet-50"], 8, seed=1))  # ResNet-14 does
def test_compiled_model_is_the_eager_model(name: str) -> None:
    expected, eager, results = trained(name, compiled=False)
    losses, model, found = trained(name, compiled=True)
    np.testing.assert_allclose(losses, expected, 1e-4, 1e-6)
    state = eager.state_dict()
    for key, value in model.state_dict().items():
        assert_same(value, state[key], 200, key)
    for got, wanted in zip(found, results, strict=True):
        assert_same(got, wanted, 200)
