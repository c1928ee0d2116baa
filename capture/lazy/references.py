"""Who holds values to come: tensors and entries of the tape, which get the arrays once there."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

from ...eager.core.tape import Entry
from ...eager.core.tensor import Tensor
from .array import LazyArray, computed


class References:
    """The tensors and entries that were given a value to come. They are not kept alive."""

    def __init__(self) -> None:
        self._tensors: list[weakref.ref[Tensor]] = []
        self._entries: list[weakref.ref[Entry]] = []

    def tensor(self, tensor: Tensor) -> None:
        """Notes a tensor."""
        self._tensors.append(weakref.ref(tensor))

    def entry(self, entry: Entry) -> None:
        """Notes an entry of the tape."""
        self._entries.append(weakref.ref(entry))

    def settle(self) -> None:
        """Gives the arrays that are there to those noted so far, and forgets these."""
        for x in _taken(self._tensors):
            x._data = computed(x._data)
        for entry in _taken(self._entries):
            _settle_entry(entry)


def _taken(references: list[weakref.ref[Any]]) -> list[Any]:
    """The living among the references, which are taken off; others may be added meanwhile."""
    count = len(references)
    found = [r() for r in references[:count]]
    del references[:count]
    return [x for x in found if x is not None]


def _settle_entry(entry: Entry) -> None:
    entry.out = computed(entry.out)
    if type(entry.arrays) is tuple:  # what a checkpoint keeps, or None, is no tuple of arrays
        entry.arrays = tuple(map(computed, entry.arrays))


def settle_strays(strays: list[LazyArray]) -> None:
    """Gives their arrays to whoever holds `strays`: neither a tensor nor an entry that was noted.

    Those are few: what a `Function` has saved for its way back, or the tape of another thread. To
    find them Python has to look at all its objects, which takes milliseconds.
    """
    if strays:
        _replace(strays, {id(p): p.step.value for p in strays})


def _replace(old: list[Any], new: dict[int, Any], depth: int = 0) -> None:
    """Puts new[id(x)] in the place of each x of `old` wherever it is held."""
    tuples: list[Any] = []
    made: dict[int, Any] = {}
    for holder in gc.get_referrers(*old):
        if holder is old or isinstance(holder, types.FrameType):
            continue
        if type(holder) is tuple:
            tuples.append(holder)
            made[id(holder)] = tuple([new.get(id(x), x) for x in holder])
        else:
            _put(holder, new)
    if tuples and depth < 4:
        _replace(tuples, made, depth + 1)


def _put(holder: Any, new: dict[int, Any]) -> None:
    if isinstance(holder, (list, dict)):
        for key, x in list(enumerate(holder) if isinstance(holder, list) else holder.items()):
            if id(x) in new:
                holder[key] = new[id(x)]
        return
    for name in _names(holder):
        x = getattr(holder, name, None)
        if id(x) in new:
            setattr(holder, name, new[id(x)])


def _names(holder: Any) -> list[str]:
    """The attributes that an object has of its own, and those of a closure's cell."""
    if isinstance(holder, types.CellType):
        return ["cell_contents"]
    slots = [name for cls in type(holder).__mro__ for name in cls.__dict__.get("__slots__", ())]
    return [*getattr(holder, "__dict__", ()), *slots]
