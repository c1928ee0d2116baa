"""Defines `nn.Module` of the front end: its tensors, its parts and its results have the front
end's classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....eager.core.tensor import Tensor as PlainTensor
from ....eager.nn.base.module import Module as PlainModule
from ..base.tensor_class import retag
from .reductions import has_reduction, with_old_arguments

CLASSES: dict[type, type] = {}
"""Plain classes of layers -> those of the front end."""

_LAYERS = PlainModule.__module__.partition(".base.")[0]  # the package of all plain layers
_NEW_CONTAINERS = ("_from", "__add__", "__mul__", "__rmul__")  # methods that make a container


def converted(module: Any) -> Any:
    """`module` with the front end's classes for itself, for all modules below and their tensors."""
    for part in module.modules():
        if not isinstance(part, Module) and _is_plain(type(part)):
            part.__class__ = class_of(type(part))
        retag(part._parameters)
        retag(part._buffers)
    return module


class Module(PlainModule):
    """Base of layers and models: assign parameters in __init__, compute in `forward`."""

    __module__ = "fusewire.torch.nn"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return retag(super().__call__(*args, **kwargs))

    def _set_in_table(self, table: str, name: str, value: Any) -> None:
        if isinstance(value, PlainModule):
            converted(value)
        super()._set_in_table(table, name, retag(value))

    def _set_plain(self, name: str, value: Any) -> None:
        super()._set_plain(name, retag(value) if type(value) is PlainTensor else value)

    def register_forward_hook(self, hook: Callable[..., Any], **options: Any) -> Any:
        """The handle of hook(module, args, output), called after forward; it may return another."""
        return super().register_forward_hook(lambda *args: hook(*retag(args)), **options)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """The handle of hook(module, grad_input, grad_output); it may return another grad_input."""
        return super().register_full_backward_hook(lambda *args: hook(*retag(args)), prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False
                                        ) -> Any:
        """The handle of hook(module, grad_output), called with the gradients of the results."""
        return super().register_full_backward_pre_hook(lambda *args: hook(*retag(args)), prepend)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Adds a buffer: a tensor that is state but not trained."""
        super().register_buffer(name, retag(tensor), persistent)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """This module with its tensors on a device, and floating point ones in a dtype."""
        kwargs.pop("memory_format", None)
        return super().to(*args, **kwargs)

    def share_memory(self) -> Any:
        """This module; threads share its tensors as they are."""
        return self

    def half(self) -> Any:
        """This module with its floating point tensors in float16."""
        return self.to("float16")


def _is_plain(cls: type) -> bool:
    return cls.__module__.startswith(_LAYERS) and issubclass(cls, PlainModule)


def _converting(method: Any) -> Any:
    def call(self: Any, *args: Any) -> Any:
        return converted(method(self, *args))

    return call


def class_of(cls: Any) -> Any:
    """The front end's class of a plain class of layers: a subclass of it and of `Module`."""
    if cls not in CLASSES:
        above = [class_of(b) for b in cls.__mro__[1:] if _is_plain(b)
                 and not b.__name__.startswith("_")]
        bases = [b for b in above if not any(b is not c and issubclass(c, b) for c in above)]
        members: dict[str, Any] = {"__module__": "fusewire.torch.nn", "__doc__": cls.__doc__}
        if "__init__" in vars(cls) and has_reduction(cls.__init__):
            members["__init__"] = with_old_arguments(cls.__init__)
        members.update({name: _converting(getattr(cls, name)) for name in _NEW_CONTAINERS
                        if hasattr(cls, name)})
        if cls.__dict__.get("cls_to_become") is not None:  # a lazy layer
            members["cls_to_become"] = class_of(cls.cls_to_become)
        CLASSES[cls] = type(cls.__name__, (cls, *bases), members)
    return CLASSES[cls]


CLASSES[PlainModule] = Module
