"""Functions with a backward of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ....eager.autograd.function import Context as PlainContext
from ....eager.autograd.function import Function as PlainFunction
from ....eager.autograd.function import once_differentiable as once_differentiable
from ..base.tensor_class import retag


class Context(PlainContext):
    """Carries tensors and attributes from `forward` to `backward`."""

    @property
    def saved_tensors(self) -> Any:
        """The saved tensors, in their order."""
        return retag(super().saved_tensors)

    saved_variables = saved_tensors


def _with_classes(backward: Callable[..., Any]) -> Callable[..., Any]:
    """`backward`, called with gradients and saved tensors of the front end's class."""
    @wraps(backward)
    def call(ctx: Any, *gradients: Any) -> Any:
        if type(ctx) is PlainContext:
            ctx.__class__ = Context
        return backward(ctx, *retag(gradients))

    return call


class Function(PlainFunction):
    """A function with its own backward: define `forward` and `backward`, call `apply`."""

    __module__ = "fusewire.torch.autograd"

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "backward" in cls.__dict__:
            cls.backward = staticmethod(_with_classes(cls.backward))  # type: ignore[assignment]

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The result of `forward`, on the tape if an argument is."""
        return retag(super().apply(*args))
