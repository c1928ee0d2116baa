"""Makes training steps of fusewire's own models and of torch's: loss, gradients and AdamW."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import fusewire as fw

from ..comparison.row import Array, Call
from .calls import Named, own_function, tensors
from .catalogue import Inputs, Model

_RATE = 1e-4
_WITHOUT = ("p", "drop_prob")  # names under which layers keep the probability of dropping


def targets(shape: tuple[int, ...]) -> Array:
    """Classes of vectors of scores; for images, the numbers to come near."""
    rng = np.random.default_rng(1)
    if len(shape) > 3:
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(0, shape[-1], shape[:-1]).reshape(-1)


def loss_of(functional: Any, out: Any, wanted: Any) -> Any:
    """Cross entropy, or the mean square of differences from images."""
    if len(out.shape) > 3:
        return functional.mse_loss(out, wanted)
    return functional.cross_entropy(out.reshape(-1, out.shape[-1]), wanted)


def _training(module: Any) -> Any:
    """The module in training mode, without dropout, which libraries draw differently."""
    for part in module.modules():
        if "Drop" in type(part).__name__ or "StochasticDepth" in type(part).__name__:
            for name in _WITHOUT:
                if hasattr(part, name):
                    setattr(part, name, 0.0)
    return module.train()


def fusewire_step(model: Model, module: Any, inputs: Inputs, wanted: Array
                  ) -> functools.partial[Any]:
    """A compiled step of fusewire's own model, which returns the loss."""
    assert model.ours is not None
    ours = _training(model.ours(module))
    function, optimizer = own_function(ours, [*inputs]), fw.optim.AdamW(ours.parameters(), lr=_RATE)

    def step(labels: Any, *xs: Any) -> Any:
        loss = loss_of(fw.nn.functional, function(*xs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return functools.partial(fw.compile(step), *map(fw.from_numpy, (wanted, *inputs.values())))


def torch_step(net: Named, inputs: Inputs, wanted: Array, wide: bool = False,
               compiled: bool = False) -> Call:
    """A step of torch's model, with the fused optimizer. `wide`: in float64."""
    net = _training(net.double() if wide else net)
    labels, = tensors({"": wanted}, wide)
    given, optimizer = tensors(inputs, wide), torch.optim.AdamW(net.parameters(), lr=_RATE,
                                                               fused=True)

    def loss(*xs: Any) -> Any:
        return loss_of(torch.nn.functional, net(*xs), labels)

    function: Callable[..., Any] = torch.compile(loss) if compiled else loss

    def step() -> Any:
        found = function(*given)
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        return found.detach()

    return step
