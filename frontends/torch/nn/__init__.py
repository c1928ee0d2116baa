"""Layers, losses and containers."""

from __future__ import annotations

from typing import Any

from ....eager.nn.layers import attention
from ..base.tensor_class import Buffer, Parameter
from . import functional, init, parallel, parameter, utils
from .layers import LAYERS, DataParallel
from .module import Module

globals().update(LAYERS)


def factory_kwargs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of constructors of tensors among `kwargs`."""
    return {k: v for k, v in kwargs.items() if k in ("device", "dtype")}
