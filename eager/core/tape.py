"""Records which op computed a tensor, and from which tensors, for the backward.

An `Entry` holds arrays, not tensors. Arrays never change, so a later in-place update of a tensor
cannot falsify a gradient, and no reference cycle holds memory.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .op import Op

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled",
           "no_grad", "set_grad_enabled"]


class Entry:
    """One op that ran: inputs and output as arrays, and for each input the edge of its gradient.

    Few have `extra`, see `extra_of`. A subclass overrides `back`.
    """

    __slots__ = ("__weakref__", "arrays", "edges", "extra", "op", "out", "params")
    extra: Extra

    def __init__(
        self, op: Op, params: dict[str, Any], arrays: tuple[Any, ...], edges: tuple[Any, ...],
        out: Any,
    ) -> None:
        self.op = op
        self.params = params
        self.arrays = arrays
        self.edges = edges
        self.out = out

    @property
    def is_freed(self) -> bool:
        """True if a backward has released the arrays."""
        return self.arrays is None

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        """Passes the gradient `g` through this entry; `step` does it for a plain entry."""
        step(self, g, sums, useful, keep)


class Leaf:
    """The end of the backward: gradients are added to the tensor's `.grad`."""

    __slots__ = ("__weakref__", "extra", "tensor")
    extra: Extra
    edges = ()

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)


class WatchedEntry(Entry):
    """An entry whose gradient passes hooks; the class says so, so that others need no test."""

    __slots__ = ()


class WatchedLeaf(Leaf):
    """A leaf whose gradient passes hooks."""

    __slots__ = ()


class Extra:
    """Rare attributes of an edge: hooks on the gradient, and the user's line of the op."""

    __slots__ = ("accumulated", "hooks", "retained", "site")

    def __init__(self) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] = {}  # gradient -> another one, or None
        self.accumulated: dict[int, Callable[[Any], Any]] = {}  # of the leaf, once .grad is set
        self.retained: Any = None  # weak reference to the tensor that retains its gradient
        self.site = ""


def extra_of(edge: Entry | Leaf) -> Extra:
    """The edge's `extra`, a new one if it had none."""
    extra: Extra | None = getattr(edge, "extra", None)
    if extra is None:
        extra = edge.extra = Extra()
    return extra


def watch(edge: Entry | Leaf) -> Extra:
    """The edge's `extra`; from now on the backward calls its hooks."""
    if type(edge) is Entry:
        edge.__class__ = WatchedEntry
    elif type(edge) is Leaf:
        edge.__class__ = WatchedLeaf
    return extra_of(edge)


class _Mode(threading.local):
    enabled = True
    inference = False


MODE = _Mode()


def is_grad_enabled() -> bool:
    """True if this thread records ops on tensors that require gradients."""
    return MODE.enabled


def with_tape(on: bool, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """fn(*args, **kwargs) with the tape on or off; the former state returns afterwards.

    Also after an interrupt at any point: a `with` statement calls `__exit__`, and ctrl-C at the
    start of that call would skip it.
    """
    before, MODE.enabled = MODE.enabled, on and not MODE.inference
    try:
        return fn(*args, **kwargs)
    finally:
        MODE.enabled = before


class TapeScope:
    """A context or decorator in which the tape is on or off."""

    __slots__ = ("before", "enabled")

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.before: list[Any] = []  # a stack, so that one object can be entered inside itself

    def __enter__(self) -> None:
        self.before.append(MODE.enabled)
        MODE.enabled = self.enabled and not MODE.inference

    def __exit__(self, *error: Any) -> None:
        MODE.enabled = self.before.pop()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            return self._around(fn, *args, **kwargs)

        return inside

    def _around(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return with_tape(self.enabled, fn, *args, **kwargs)


class set_grad_enabled(TapeScope):
    """Switches the tape on or off: from now on, or inside a context or a decorated function.

    Args:
        enabled: True records ops, False does not.

    Example:
        >>> import fusewire as fw
        >>> weight = fw.ones(2).requires_grad_()
        >>> with fw.set_grad_enabled(False):
        ...     (weight * 2).requires_grad
        False
    """

    __slots__ = ("_pending",)

    def __init__(self, enabled: bool) -> None:
        super().__init__(enabled)
        super().__enter__()
        self._pending = True  # not entered as a context yet

    def __enter__(self) -> None:
        if self._pending:
            self._pending, MODE.enabled = False, self.enabled and not MODE.inference
        else:
            super().__enter__()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        MODE.enabled = self.before.pop()  # as a decorator it has no effect outside of the function
        return super().__call__(fn)


class _InferenceScope(TapeScope):
    __slots__ = ()

    def __enter__(self) -> None:
        self.before.append((MODE.enabled, MODE.inference))
        MODE.enabled, MODE.inference = (False, True) if self.enabled else (True, False)

    def __exit__(self, *error: Any) -> None:
        MODE.enabled, MODE.inference = self.before.pop()

    def _around(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        with _InferenceScope(self.enabled):  # threads must not share a stack
            return fn(*args, **kwargs)


def no_grad(fn: Callable[..., Any] | None = None) -> Any:
    """A context or decorator in which no op is recorded on the tape.

    Args:
        fn: a function to decorate; None for a context.

    Example:
        >>> import fusewire as fw
        >>> weight = fw.ones(2).requires_grad_()
        >>> with fw.no_grad():
        ...     (weight * 2).requires_grad
        False
    """
    return _scope(TapeScope(False), fn)


def enable_grad(fn: Callable[..., Any] | None = None) -> Any:
    """A context or decorator in which the tape is on, inside of `no_grad` too.

    Args:
        fn: a function to decorate; None for a context.

    Example:
        >>> import fusewire as fw
        >>> weight = fw.ones(2).requires_grad_()
        >>> with fw.no_grad(), fw.enable_grad():
        ...     (weight * 2).requires_grad
        True
    """
    return _scope(TapeScope(True), fn)


def inference_mode(mode: Any = True) -> Any:
    """A context or decorator like `no_grad`, in which `enable_grad` has no effect.

    Its results are usual tensors without a gradient. Arrays never change, so that the results can
    be used on the tape afterwards.

    Args:
        mode: False switches the mode off inside of it; or a function to decorate.

    Example:
        >>> import fusewire as fw
        >>> weight = fw.ones(2).requires_grad_()
        >>> with fw.inference_mode(), fw.enable_grad():
        ...     (weight * 2).requires_grad
        False
    """
    return _scope(_InferenceScope(True), mode) if callable(mode) else _InferenceScope(mode)


def is_inference_mode_enabled() -> bool:
    """True if this thread is inside of `inference_mode`."""
    return MODE.inference


def _scope(scope: TapeScope, fn: Callable[..., Any] | None) -> Any:
    return scope if fn is None else scope(fn)  # @fw.no_grad works like @fw.no_grad()
