"""The tape: what was computed from what, kept for the way back.

An `Entry` holds arrays, not tensors: arrays never change, so later in-place updates of a tensor
cannot falsify a gradient, and no reference cycle keeps memory alive.
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

    `extra` is set for few: see `extra_of`. A subclass goes its own way back, by `back`.
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

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        """Takes a gradient through this entry; `step` does so for a plain one."""
        step(self, g, sums, useful, keep)


class Leaf:
    """The end of the way back: gradients are added to the tensor's `.grad`."""

    __slots__ = ("__weakref__", "extra", "tensor")
    extra: Extra
    edges = ()

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)


class WatchedEntry(Entry):
    """An entry whose gradient passes hooks. The class tells, so that others need not be asked."""

    __slots__ = ()


class WatchedLeaf(Leaf):
    """A leaf whose gradient passes hooks."""

    __slots__ = ()


class Extra:
    """What is kept for few edges: hooks on the gradient, and where the user made the entry."""

    __slots__ = ("accumulated", "hooks", "retained", "site")

    def __init__(self) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] = {}  # gradient -> another one, or None
        self.accumulated: dict[int, Callable[[Any], Any]] = {}  # of the leaf, once .grad is set
        self.retained: Any = None  # weak reference to the tensor that keeps its gradient
        self.site = ""


def extra_of(edge: Entry | Leaf) -> Extra:
    """The edge's `extra`, made where there is none."""
    found: Extra | None = getattr(edge, "extra", None)
    if found is None:
        found = edge.extra = Extra()
    return found


def watch(edge: Entry | Leaf) -> Extra:
    """The edge's `extra`; from now on the way back looks at its hooks."""
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
    """Whether ops on tensors that require gradients are noted on the tape, in this thread."""
    return MODE.enabled


def with_tape(on: bool, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """fn(*args, **kwargs) with the tape on or off, which is as it was after it, wherever that is
    interrupted: a context is left by a call, and ctrl-C as it begins leaves it open."""
    before, MODE.enabled = MODE.enabled, on and not MODE.inference
    try:
        return fn(*args, **kwargs)
    finally:
        MODE.enabled = before


class TapeScope:
    """A context, also usable as a decorator, in which the tape is on or off."""

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
    """Switches the tape on or off: from here on, or as a context or decorator in there only."""

    __slots__ = ("_made",)

    def __init__(self, enabled: bool) -> None:
        super().__init__(enabled)
        super().__enter__()
        self._made = True  # and not entered yet

    def __enter__(self) -> None:
        if self._made:
            self._made, MODE.enabled = False, self.enabled and not MODE.inference
        else:
            super().__enter__()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        MODE.enabled = self.before.pop()  # as a decorator it changes nothing where it stands
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
    """A context or decorator in which nothing is noted on the tape.

    >>> import fusewire as fw
    >>> weight = fw.ones(2).requires_grad_()
    >>> with fw.no_grad():
    ...     (weight * 2).requires_grad
    False
    """
    return _scope(TapeScope(False), fn)


def enable_grad(fn: Callable[..., Any] | None = None) -> Any:
    """A context or decorator in which the tape is on, inside of `no_grad` too."""
    return _scope(TapeScope(True), fn)


def inference_mode(mode: Any = True) -> Any:
    """A context or decorator like `no_grad`, in which `enable_grad` has no effect.

    What is made in it are usual tensors without a gradient: since arrays never change, they can be
    used on the tape afterwards.

    >>> import fusewire as fw
    >>> weight = fw.ones(2).requires_grad_()
    >>> with fw.inference_mode(), fw.enable_grad():
    ...     (weight * 2).requires_grad
    False
    """
    return _scope(_InferenceScope(True), mode) if callable(mode) else _InferenceScope(mode)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside of `inference_mode`."""
    return MODE.inference


def _scope(scope: TapeScope, fn: Callable[..., Any] | None) -> Any:
    return scope if fn is None else scope(fn)  # @fw.no_grad works like @fw.no_grad()
