"""Functions of layers and losses."""

from __future__ import annotations

import types as _types
from typing import Any

from ....eager.nn import functional as _plain
from ..base.exports import exported as _exported
from ..base.meanings import cast as _cast
from ..base.tensor_class import retag as _retag
from .reductions import has_reduction as _has_reduction
from .reductions import with_old_arguments as _with_old_arguments

globals().update({name: _with_old_arguments(value)
                  if isinstance(value, _types.FunctionType) and _has_reduction(value) else value
                  for name, value in _exported(_plain).items()})


def softmax(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The softmax along an axis."""
    return _retag(_plain.softmax(_cast(input, dtype), dim))


def log_softmax(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of the softmax along an axis."""
    return _retag(_plain.log_softmax(_cast(input, dtype), dim))


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: Any = None) -> Any:
    """The input in another size, as `interpolate`."""
    return _retag(_plain.interpolate(input, size, scale_factor, mode, align_corners))
