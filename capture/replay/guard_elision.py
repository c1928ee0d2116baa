"""Finds guards that need no evaluation, since watched memory proves them.

A path is pinned if it certainly leads to the same object as before. It then starts at an unchanged
object and goes through watched contents. Objects that cannot be watched are checked by identity in
each call.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection
from typing import Any, Protocol

from ...eager.core.tensor import Tensor
from ..guards.guards import Guard
from ..heap.access_path import Path
from ..heap.value_kinds import FIXED, is_plain

Words = list[tuple[int, int]]


class Contents(Protocol):
    """Memory words that prove that the contents of an object are unchanged."""

    @property
    def words(self) -> Words:
        """Addresses, each with the expected word."""

    @property
    def objects(self) -> list[Any]:
        """Objects that must stay alive for the words to be valid."""


class GuardElision:
    """The pinned paths of one call, with the watched words and the identity checks behind them.

    Objects checked by identity are held weakly where possible. Their check runs first, because the
    watched words lie inside them. Checks are in order of access: an owner comes before its parts,
    so no check reads freed memory.
    """

    def __init__(self, read: Callable[[Path], Any], contents: Callable[[Any], Contents | None],
                 changing: Collection[int]) -> None:
        self._read, self._contents, self._changing = read, contents, changing
        self.words: dict[int, int] = {}
        self.identity_checks: dict[Path, bool] = {}  # paths checked by identity; True: may be freed
        self.owned: list[Any] = []  # objects that must stay alive
        self._pinned: dict[Path, bool] = {}
        self._weakly_held: set[int] = set()  # the objects that may be freed, by id
        self._closed = False

    def pinned(self, path: Path) -> bool:
        """True if `path` leads to the same object while the words and identity checks hold."""
        if path not in self._pinned:
            self._pinned[path] = not self._closed and self._pin(path)
        return self._pinned[path]

    def close(self) -> None:
        """Ends the analysis: paths that were not pinned so far are read in each call."""
        self._closed = True

    def _pin(self, path: Path) -> bool:
        if path.parent is None:
            return path.kind not in ("args", "kwargs")
        if path.kind == "call":
            return False  # each call asks the cache
        value = self._read(path)
        owner_pinned = self.pinned(path.parent)
        if owner_pinned and self._is_proved(path, value):
            return True
        if not _has_identity(value) or (
                not owner_pinned and isinstance(value, (dict, list, tuple))):
            return False
        self.identity_checks[path] = _is_weakly_referenceable(value)
        if self.identity_checks[path]:
            self._weakly_held.add(id(value))
        else:
            self.owned.append(value)
        return True

    def _is_proved(self, path: Path, value: Any) -> bool:
        """True if watching the owner proves that the value is the same."""
        assert path.parent is not None
        owner = self._read(path.parent)
        if path.kind == "item":
            is_stored = type(owner) in (dict, list, tuple) and path.parent.kind != "globals" \
                and type(path.key.value) in (str, int)
        else:
            is_stored = path.kind == "cell" or _is_stored(owner, path.key, value)
        return is_stored and self._watch(owner)

    def _watch(self, value: Any) -> bool:
        contents = None if id(value) in self._changing else self._contents(value)
        if contents is None:
            return False
        self.words.update(contents.words)
        self.owned += contents.objects
        if id(value) not in self._weakly_held:
            self.owned.append(value)
        return True

    def omits(self, guard: Guard) -> bool:
        """True if a guard that holds now needs no further evaluation."""
        if not all(map(self.pinned, guard.paths)):
            return False
        value = self._read(guard.path)
        if is_plain(value) and len(guard.paths) == 1:
            return True
        if guard.category == "identity":
            return True
        if guard.category == "type":
            return self._stays_of_type(value)
        is_watchable = guard.category == "contents" or (
            guard.category == "keys" and type(value) is dict and all(map(is_plain, value)))
        return is_watchable and not isinstance(value, _UNWATCHED) and self._watch(value)

    def _stays_of_type(self, value: Any) -> bool:
        """True if an object's class is watched or cannot be assigned."""
        return type(value) in (dict, list, tuple) or isinstance(value, FIXED) \
            or type(value) in _FIXED_TYPES or self._watch(value)


# Types with attributes that are not watched.
_UNWATCHED = (Tensor, types.FunctionType, types.BuiltinFunctionType)
_FIXED_TYPES = (types.FunctionType, types.MethodType, property)


def _has_identity(value: Any) -> bool:
    """True if an object can be checked by identity: plain values and tensors cannot."""
    return not (is_plain(value) or isinstance(value, Tensor))


def _is_weakly_referenceable(value: Any) -> bool:
    """True if an object can be held by a weak reference."""
    return type(value).__weakrefoffset__ != 0 and not isinstance(value, (*FIXED, *_FIXED_TYPES))


def _is_stored(owner: Any, name: str, value: Any) -> bool:
    """True if an attribute is stored in the object or its class, not computed by code."""
    kind = type(owner)
    if isinstance(owner, type):
        return _attribute_lookup(kind) is type.__getattribute__ and not hasattr(kind, name) \
            and getattr(owner, name) is value
    if kind is types.FunctionType:
        return name in ("__defaults__", "__kwdefaults__", "__code__")
    if kind is types.BuiltinFunctionType or _attribute_lookup(kind) is not object.__getattribute__:
        return False
    for cls in kind.__mro__:
        if name in cls.__dict__:
            attribute = cls.__dict__[name]
            break
    else:
        return owner.__dict__.get(name, _ABSENT) is value
    if hasattr(type(attribute), "__get__"):
        return not hasattr(type(attribute), "__set__") \
            and owner.__dict__.get(name, _ABSENT) is value
    return True


def _attribute_lookup(kind: Any) -> Any:
    """The attribute lookup of a class."""
    return kind.__getattribute__


_ABSENT = object()
