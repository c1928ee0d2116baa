"""Guards the gradient hooks of tensors from outside: a run depends on them and may not change them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...eager.autograd import engine
from ...eager.core.tape import Leaf

_BACKWARD_FUNCTIONS = (engine.backward, engine.grad, engine.gradients_between)


def hooks_of(edge: Any) -> tuple[Any, ...]:
    """The hooks of a tape edge."""
    extra = getattr(edge, "extra", None)
    return () if extra is None else (*extra.hooks.values(), *extra.accumulated.values())


def computes_gradients(codes: Any) -> bool:
    """True if these code objects, which ran, include a backward pass."""
    return any(function.__code__ in codes for function in _BACKWARD_FUNCTIONS)


def hook_condition(edge: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The predicate that a tensor's edge has the same hooks, and its constants."""
    if type(edge) is Leaf:  # an edge with hooks has another class
        yield "leaf", {"L": Leaf}
    elif edge is not None:
        yield "hooks", {"K": hooks_of(edge)}
