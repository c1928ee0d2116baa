"""Defines accesses: the steps by which code reads the parts of a value, and its other uses."""

from __future__ import annotations

import types
from typing import Any

ESCAPES, RETURNED, OPERAND, TRUTH = "escapes", "returned", "operand", "truth"
MEMBERS, ELEMENTS, ALL_ATTRIBUTES, UNKNOWN = "members", "elements", "all attributes", "unknown"


class Access:
    """How code uses one value: the steps that it takes from there, and other uses."""

    __slots__ = ("arguments", "calls", "depth", "steps", "stored", "uses")

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.steps: dict[tuple[str, Any], Access] = {}  # by kind and key
        self.stored: dict[tuple[str, Any], None] = {}  # the attributes and items that code assigns
        self.uses: set[str] = set()
        self.calls: list[CallSite] = []  # that call this value
        self.arguments: list[tuple[CallSite, Any]] = []  # that pass it: position or keyword

    def step(self, kind: str, key: Any = None) -> Access:
        """The access of a part of this value."""
        place = kind, constant_key(key)
        if place not in self.steps:
            self.steps[place] = Access(self.depth + 1)
        return self.steps[place]

    def lists_attributes(self) -> bool:
        """True if code reads attributes by computed names, of this value or of parts of it."""
        return ALL_ATTRIBUTES in self.uses or any(a.lists_attributes() for a in self.steps.values())


def constant_key(key: Any) -> Any:
    return (type(key), key) if isinstance(key, (int, float)) else key


def key_of(place: tuple[str, Any]) -> Any:
    """The constant key of a step."""
    key = place[1]
    return key[1] if type(key) is tuple and len(key) == 2 and isinstance(key[0], type) else key


class CallSite:
    """A call in the code: constants among its arguments, and the access of its result."""

    __slots__ = ("constants", "result", "spread")

    def __init__(self) -> None:
        self.constants: dict[Any, Any] = {}  # by position or keyword
        self.spread = False  # arguments are passed by `*` or `**`
        self.result = Access()


class CodeAccesses:
    """The accesses of a code object, by root: "global", "local", "free" or "import", and a name."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.roots: dict[tuple[str, str], Access] = {}
        self.stored_globals: set[str] = set()
        self.stored_names: set[str] = set()  # attributes and globals that the code assigns
        self.lists_attributes = False  # of values that the analysis has lost track of
        self.call_sites: dict[int, CallSite] = {}  # by offset

    def root(self, kind: str, name: str) -> Access:
        """The access of a variable."""
        return self.roots.setdefault((kind, name), Access())
