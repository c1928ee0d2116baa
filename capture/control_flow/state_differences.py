"""Compares two states of running code that have one structure: which values differ?"""

from __future__ import annotations

from typing import Any

from ..scalars.scalar_expr import ScalarConstant
from ..sizes.symbolic_dim import Dim
from .frame_state import FrameState, Name


def different(before: FrameState, state: FrameState) -> set[int | Name]:
    """The indices of tensors and the names of plain numbers that have changed."""
    differing: set[int | Name] = {name for name, value in state.plains.items()
                                  if not same_number(before.plains.get(name), value)}
    return differing.union(i for i, (a, b) in enumerate(zip(before.arrays, state.arrays))
                           if a is not b)


def changed_variable(before: FrameState, state: FrameState) -> str:
    """The local variable whose value has changed in kind; empty if none has."""
    frames = len(state.frames)
    for one, two in zip(before.structure[:frames], state.structure[:frames]):
        for name, value in two:
            if (name, value) not in one:
                return str(name)
    return ""


def same_number(a: Any, b: Any) -> bool:
    """True if two plain numbers or sizes are the same."""
    if type(a) is Dim or type(b) is Dim:
        return type(a) is type(b) and bool(a.expr == b.expr)
    return type(a) is type(b) and ScalarConstant(a) == ScalarConstant(b)
