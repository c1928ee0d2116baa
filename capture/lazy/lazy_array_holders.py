"""Tracks the tensors and tape entries that hold lazy arrays, and gives them the computed arrays."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

from ...eager.core.tape import Entry
from ...eager.core.tensor import Tensor
from .lazy_array import LazyArray, value_if_computed


class References:
    """Weak references to the tensors and tape entries that hold lazy arrays."""

    def __init__(self) -> None:
        self._tensors: list[weakref.ref[Tensor]] = []
        self._entries: list[weakref.ref[Entry]] = []

    def add_tensor(self, tensor: Tensor) -> None:
        """Notes a tensor."""
        self._tensors.append(weakref.ref(tensor))

    def add_entry(self, entry: Entry) -> None:
        """Notes an entry of the tape."""
        self._entries.append(weakref.ref(entry))

    def resolve(self) -> None:
        """Gives the computed arrays to all noted tensors and entries, and clears the list."""
        for x in _pop_alive(self._tensors):
            x._data = value_if_computed(x._data)
        for entry in _pop_alive(self._entries):
            _resolve_entry(entry)


def _pop_alive(references: list[weakref.ref[Any]]) -> list[Any]:
    """Removes the references from the list and returns the live objects. Other threads may add
    references meanwhile."""
    count = len(references)
    objects = [r() for r in references[:count]]
    del references[:count]
    return [x for x in objects if x is not None]


def _resolve_entry(entry: Entry) -> None:
    entry.out = value_if_computed(entry.out)
    if type(entry.arrays) is tuple:  # else a checkpoint's record, or None
        entry.arrays = tuple(map(value_if_computed, entry.arrays))


def resolve_strays(strays: list[LazyArray]) -> None:
    """Replaces `strays` by their arrays in holders that were not noted.

    There are few: tensors that a `Function` saved for its backward, or the tape of another thread.
    The search visits all objects of the garbage collector, which takes milliseconds.
    """
    if strays:
        _replace(strays, {id(p): p.step.value for p in strays})


def _replace(old: list[Any], new: dict[int, Any], depth: int = 0) -> None:
    """Replaces each x of `old` by new[id(x)] in all its holders."""
    tuples: list[Any] = []
    new_tuples: dict[int, Any] = {}
    for holder in gc.get_referrers(*old):
        if holder is old or isinstance(holder, types.FrameType):
            continue
        if type(holder) is tuple:
            tuples.append(holder)
            new_tuples[id(holder)] = tuple([new.get(id(x), x) for x in holder])
        else:
            _replace_in(holder, new)
    if tuples and depth < 4:
        _replace(tuples, new_tuples, depth + 1)


def _replace_in(holder: Any, new: dict[int, Any]) -> None:
    if isinstance(holder, (list, dict)):
        for key, x in list(enumerate(holder) if isinstance(holder, list) else holder.items()):
            if id(x) in new:
                holder[key] = new[id(x)]
        return
    for name in _attribute_names(holder):
        x = getattr(holder, name, None)
        if id(x) in new:
            setattr(holder, name, new[id(x)])


def _attribute_names(holder: Any) -> list[str]:
    """The names of an object's own attributes, or of a closure cell's contents."""
    if isinstance(holder, types.CellType):
        return ["cell_contents"]
    slots = [name for cls in type(holder).__mro__ for name in cls.__dict__.get("__slots__", ())]
    return [*getattr(holder, "__dict__", ()), *slots]
