"""Hooks on the gradients of tensors from outside: a run depends on them, and cannot change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...eager.autograd import engine
from ...eager.core.tape import Leaf

_WAYS_BACK = (engine.backward, engine.grad, engine.gradients_between)


def hooks_of(edge: Any) -> tuple[Any, ...]:
    """The hooks that wait at an edge."""
    extra = getattr(edge, "extra", None)
    return () if extra is None else (*extra.hooks.values(), *extra.accumulated.values())


def goes_back(codes: Any) -> bool:
    """Whether a gradient was computed, if these are the code objects that ran."""
    return any(way.__code__ in codes for way in _WAYS_BACK)


def condition(edge: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The condition that the same hooks wait at the edge of a tensor, and its constants."""
    if type(edge) is Leaf:  # of this class while nobody has asked for hooks
        yield "leaf", {"L": Leaf}
    elif edge is not None:
        yield "hooks", {"K": hooks_of(edge)}
