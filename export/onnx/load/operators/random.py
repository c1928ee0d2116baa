"""Defines random numbers. A seed in a model selects the same numbers on every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....eager.core.tensor import tensor
from .....eager.ops.elementwise import pointwise
from .....eager.ops.random import generator
from .....eager.ops.random.distributions import multinomial, normal
from .....eager.ops.reduction.softmax import softmax
from ..runtime.table import Sizes, Tensor, operator
from ..runtime.values import check_room, np_dtype, tensor_of
from .shapes import shape_of

__all__: list[str] = []


def _uniform(shape: Any, dtype: Any, low: float, high: float, seed: Any) -> Tensor:
    check_room(shape, dtype)
    if seed is not None:
        drawn = np.random.RandomState(int(seed) % 2 ** 32).rand(*shape) * (high - low) + low
        return tensor(np.asarray(drawn, dtype))
    return (generator.rand(*shape) * (high - low) + low).astype(dtype)


def _normal(shape: Any, dtype: Any, mean: float, scale: float, seed: Any) -> Tensor:
    check_room(shape, dtype)
    if seed is not None:
        drawn = np.random.RandomState(int(seed) % 2 ** 32).randn(*shape) * scale + mean
        return tensor(np.asarray(drawn, dtype))
    return (normal(0.0, 1.0, shape) * scale + mean).astype(dtype)


def _like(x: Any, dtype: Any) -> Any:
    return np_dtype(dtype) if dtype else tensor_of(x).dtype


@operator("RandomUniform")
def _random_uniform(shape: Sizes, dtype: Any = "float32", high: float = 1.0, low: float = 0.0,
                    seed: Any = None) -> Tensor:
    return _uniform(shape, np_dtype(dtype), low, high, seed)


@operator("RandomUniformLike")
def _random_uniform_like(x: Any, dtype: Any = None, high: float = 1.0, low: float = 0.0,
                         seed: Any = None) -> Tensor:
    return _uniform(shape_of(x), _like(x, dtype), low, high, seed)


@operator("RandomNormal")
def _random_normal(shape: Sizes, dtype: Any = "float32", mean: float = 0.0, scale: float = 1.0,
                   seed: Any = None) -> Tensor:
    return _normal(shape, np_dtype(dtype), mean, scale, seed)


@operator("RandomNormalLike")
def _random_normal_like(x: Any, dtype: Any = None, mean: float = 0.0, scale: float = 1.0,
                        seed: Any = None) -> Tensor:
    return _normal(shape_of(x), _like(x, dtype), mean, scale, seed)


@operator("Bernoulli")
def _bernoulli(x: Tensor, dtype: Any = None, seed: Any = None) -> Tensor:
    drawn = _uniform(x.shape, x.dtype, 0.0, 1.0, seed)
    return pointwise.less(drawn, x).astype(_like(x, dtype))


@operator("Multinomial")
def _multinomial(x: Tensor, dtype: Any = "int32", sample_size: int = 1, seed: Any = None
                 ) -> Tensor:
    return multinomial(softmax(x, -1), sample_size, True).astype(np_dtype(dtype))

