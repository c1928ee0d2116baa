"""Layers and models at many sizes: the first is recorded, then one that holds for all others.

Sizes that happen to equal another one of the model (its features, its channels) are no exception.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn

SIZES = (1, 2, 3, 4, 5, 8, 10, 16, 24, 32, 64)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))


def square() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16))


def images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 10))


def signals() -> nn.Module:
    return nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
                         nn.Flatten(), nn.Linear(8, 4))


def fields() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.SiLU(),
                         nn.AvgPool2d(2))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)


class Last(nn.Module):
    """The last output of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.lstm(x)[0][:, -1]


CASES = [
    (mlp, lambda n: (n, 16)), (square, lambda n: (n, 16)), (images, lambda n: (n, 3, 8, 8)),
    (signals, lambda n: (2, 4, n)), (fields, lambda n: (2, 4, n + 3, 9)),
    (encoder, lambda n: (n, 5, 16)), (encoder, lambda n: (3, n, 16)), (Last, lambda n: (n, 4, 8)),
]


@pytest.mark.parametrize("make,shape", CASES)
def test_two_recordings_for_all_sizes(
        make: Callable[[], nn.Module], shape: Callable[[int], tuple[int, ...]]) -> None:
    fw.manual_seed(0)
    model = make()
    other = make()
    other.load_state_dict(model.state_dict())
    fw.compile(model, fullgraph=True)
    for n in SIZES:
        x = fw.from_numpy(np.random.default_rng(n).standard_normal(shape(n)).astype(np.float32))
        losses = [m(x).square().mean() for m in (model, other)]
        assert float(losses[0]) == pytest.approx(float(losses[1]), rel=1e-4)
        for loss in losses:
            loss.backward()
    assert model.forward.stats.recordings == 2, model.forward.explain()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-3, atol=1e-4)
