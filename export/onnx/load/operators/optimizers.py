"""Defines steps of optimizers for several parameters at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .....eager.ops.elementwise.pointwise import sqrt, where
from ..runtime.table import Tensor, operator

__all__: list[str] = []

TRAINING = "ai.onnx.preview.training"


def _for_each(step: Callable[..., tuple[Tensor, ...]], tensors: Sequence[Tensor], width: int,
              **attributes: Any) -> tuple[Tensor, ...]:
    """The results of the step for each parameter: all new parameters, then all first states, ..."""
    n = len(tensors) // width
    results = [step(*tensors[i::n], **attributes) for i in range(n)]
    return tuple(t for of in zip(*results) for t in of)


def _regularized(x: Any, g: Any, norm: float) -> Any:
    return x * norm + g


@operator("Momentum", domain=TRAINING, many=True)
def _momentum(rate: Tensor, t: Tensor, *tensors: Tensor, alpha: float, beta: float, mode: str,
              norm_coefficient: float) -> Any:
    def step(x: Any, g: Any, v: Any) -> tuple[Tensor, ...]:
        g = _regularized(x, g, norm_coefficient)
        new = v * alpha + where(t > 0, beta, 1.0) * g
        return x - rate * (g + new * alpha if mode == "nesterov" else new), new

    return _for_each(step, tensors, 3)


@operator("Adagrad", domain=TRAINING, many=True)
def _adagrad(rate: Tensor, t: Tensor, *tensors: Tensor, decay_factor: float = 0.0,
             epsilon: float = 1e-6, norm_coefficient: float = 0.0) -> Any:
    slower: Any = rate / (t.astype(rate.dtype) * decay_factor + 1.0)

    def step(x: Any, g: Any, h: Any) -> tuple[Tensor, ...]:
        g = _regularized(x, g, norm_coefficient)
        new = h + g * g
        return x - slower * g / (sqrt(new) + epsilon), new

    return _for_each(step, tensors, 3)


@operator("Adam", domain=TRAINING, many=True)
def _adam(rate: Tensor, t: Tensor, *tensors: Tensor, alpha: float = 0.9, beta: float = 0.999,
          epsilon: float = 1e-6, norm_coefficient: float = 0.0,
          norm_coefficient_post: float = 0.0) -> Any:
    steps: Any = where(t > 0, t, 1).astype(rate.dtype)
    corrected = where(t > 0, sqrt(1 - beta ** steps) / (1 - alpha ** steps), 1.0)

    def step(x: Any, g: Any, v: Any, h: Any) -> tuple[Tensor, ...]:
        g = _regularized(x, g, norm_coefficient)
        v, h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
        new = x - rate * corrected * v / (sqrt(h) + epsilon)
        return new * (1 - norm_coefficient_post), v, h

    return _for_each(step, tensors, 4)
