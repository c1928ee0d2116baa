"""Runs hooks that observe or replace gradients in a backward."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from ..core.tape import Entry, Leaf, extra_of, watch
from ..core.tensor import Tensor
from ..errors import DTypeError, GradientError, ShapeError
from ..ops.elementwise import pointwise

__all__ = ["RemovableHandle", "register_hook", "register_post_accumulate_grad_hook", "retain_grad"]

_COUNT = itertools.count()


class RemovableHandle:
    """A handle of a hook: `remove()`, or leaving it as a context, removes the hook."""

    def __init__(self, hooks: dict[int, Any], hook: Any, prepend: bool = False) -> None:
        self._hooks, self.id = hooks, next(_COUNT)
        later = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[self.id] = hook
        hooks.update(later)

    def remove(self) -> None:
        """Removes the hook, if it is still registered."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Registers `hook`, which gets each gradient of `tensor` and may return another one.

    Args:
        tensor: a tensor that requires a gradient.
        hook: takes a gradient, and returns one of its shape and dtype, or None.

    Returns a RemovableHandle.

    Raises:
        GradientError: the tensor requires no gradient.
        DTypeError: the hook is not callable, or returns no tensor.
        ShapeError: in backward, if the new gradient has another shape or dtype.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor(2.0, requires_grad=True)
        >>> with x.register_hook(lambda g: g * 10):
        ...     (x * x).backward()
        >>> x.grad
        tensor(40.)
    """
    _check("register_hook", tensor, hook)
    return RemovableHandle(watch(tensor.edge).hooks, hook)  # type: ignore[arg-type]


def register_post_accumulate_grad_hook(
    tensor: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Registers `hook`, which gets the leaf `tensor` after each addition to its `.grad`.

    Args:
        tensor: a leaf that requires a gradient.
        hook: takes the tensor.

    Returns a RemovableHandle.

    Raises:
        GradientError: the tensor requires no gradient, or is not a leaf.
        DTypeError: the hook is not callable.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor(2.0, requires_grad=True)
        >>> with x.register_post_accumulate_grad_hook(lambda x: print(x.grad.item())):
        ...     (x * x).backward()
        4.0
    """
    _check("register_post_accumulate_grad_hook", tensor, hook)
    if not tensor.is_leaf:
        raise GradientError("register_post_accumulate_grad_hook: this tensor was computed, only "
                            "leaves have a gradient that adds up", "use register_hook")
    return RemovableHandle(watch(tensor.edge).accumulated, hook)  # type: ignore[arg-type]


def retain_grad(tensor: Tensor) -> None:
    """Makes `backward` store the gradient of a computed tensor in its `.grad`.

    Raises:
        GradientError: the tensor requires no gradient.

    Example:
        >>> import fusewire as fw
        >>> y = fw.tensor(2.0, requires_grad=True) * 3
        >>> y.retain_grad()
        >>> (y * y).backward()
        >>> y.grad
        tensor(12.)
    """
    _check("retain_grad", tensor, retain_grad)
    if not tensor.is_leaf:
        watch(tensor.edge).retained = weakref.ref(tensor)  # type: ignore[arg-type]


def retains_grad(tensor: Tensor) -> bool:
    """True if `backward` stores the gradient of this computed tensor in its `.grad`."""
    extra = getattr(tensor.edge, "extra", None)
    return extra is not None and extra.retained is not None and extra.retained() is tensor


def _check(name: str, tensor: Tensor, hook: Any) -> None:
    if tensor.edge is None:
        raise GradientError(f"{name}: this tensor of shape {tensor.shape} does not require a "
                            "gradient", "call x.requires_grad_() first")
    if not callable(hook):
        raise DTypeError(f"{name}: takes a function, not {type(hook).__name__}",
                         "as in x.register_hook(lambda g: g * 2)")


def run_tensor_hooks(edge: Entry | Leaf, g: Any) -> Any:
    """The gradient `g` after the hooks of `edge`."""
    extra = getattr(edge, "extra", None)
    if extra is None:
        return g
    for hook in list(extra.hooks.values()):
        g = pointwise.alias(g)  # a hook may change it in place, and other edges may share it
        replacement = hook(g)
        if replacement is not None:
            g = _checked(replacement, g)
    owner = None if extra.retained is None else extra.retained()
    if owner is not None:
        before = owner.grad
        owner.grad = pointwise.alias(g) if before is None else pointwise.add(before, g)
    return g


def _checked(replacement: Any, g: Tensor) -> Tensor:
    if not isinstance(replacement, Tensor):
        raise DTypeError(f"a hook returned {type(replacement).__name__} in the place of a gradient",
                         "it returns a tensor, or None to leave the gradient as it is")
    if replacement._data.shape != g._data.shape or replacement.dtype != g.dtype:
        raise ShapeError(
            f"a hook returned a gradient {replacement.dtype.name} of shape {replacement.shape} in "
            f"the place of {g.dtype.name} of shape {g.shape}", "shape and dtype must stay")
    return replacement


def run_accumulate_hooks(leaf: Leaf, owner: Tensor) -> None:
    """Calls the hooks that wait for a leaf's `.grad`."""
    for hook in list(extra_of(leaf).accumulated.values()):
        hook(owner)
