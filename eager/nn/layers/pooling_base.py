"""The base class of pooling layers."""

from __future__ import annotations

from typing import Any

from ...arguments import numbers_per_axis, per_axis
from .. import functional as F
from ..base.module import Module


class Pool(Module):
    """Base of pooling layers, which call `function` of F for their number of `axes`."""

    axes: int
    function: str

    def _pooled(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(F, f"{self.function}{self.axes}d")(*args, **kwargs)

    def _each(self, name: str, value: Any) -> tuple[Any, ...]:
        owner = type(self).__name__
        if name == "output_ratio":
            return numbers_per_axis(owner, name, value, self.axes)
        return per_axis(owner, name, value, self.axes, 0 if name == "padding" else 1)
