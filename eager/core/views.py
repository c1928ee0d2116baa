"""Marks tensors that are views by PyTorch's rules and raises where a write to one would be lost.

Tensors never share elements here: a write to a view changes the view alone. Programs written for
PyTorch or NumPy expect its base to change as well. So each view has a weak reference to its base,
and a write in place is an error while the base, or a base of the base, is alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar
from weakref import ref

from ..errors import ViewError
from .tape import Leaf

T = TypeVar("T")


def view_of(x: Any, out: T) -> T:
    """`out`, a new tensor, marked as a view of `x`."""
    out._base = ref(x) if x._base is None else linked(x)  # type: ignore[attr-defined]
    return out


def linked(x: Any) -> Any:
    """The `_base` of a view of the view `x`: references to `x` and to the bases of `x`."""
    base = x._base
    if type(base) is tuple and base[0]() is None:
        base = base[1]  # skips dead tensors, so that a chain of views stays short
    return ref(x), base


def bases_of(x: Any) -> Iterator[Any]:
    """The bases of `x` that are alive, nearest first."""
    base = x._base
    while base is not None:
        seen, base = (base[0](), base[1]) if type(base) is tuple else (base(), None)
        if seen is not None:
            yield seen


def check_replay(x: Any) -> None:
    """`check_write` for a tensor that a replay changes; parameters get their step as in eager."""
    if not isinstance(x.edge, Leaf):
        check_write(x)


def check_write(x: Any) -> None:
    """Raises ViewError if `x` is a view of a tensor that is alive."""
    for seen in bases_of(x):
        raise ViewError(
            f"a write in place to a tensor of shape {x.shape} would be lost: it is a view of a "
            f"tensor of shape {seen.shape} that is still in use, which would not change",
            "write to that tensor itself: x[0] = value, x[0] += value, x.copy_(value); or if it "
            "should stay as it is, make a new tensor: y = y + value, or copy first: "
            "y = fw.asarray(y, copy=True)")
