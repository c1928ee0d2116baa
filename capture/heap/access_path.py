"""Paths: how a value was reached from the function, so that a replay can read it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_OF_MODULES = ("_parameters", "_modules", "_buffers")  # what modules hold under plain names


@dataclass(frozen=True, eq=False)
class Path:
    """A root, or a step from another path: attribute, item, or closure cell.

    Roots: args and kwargs of the call, the function itself, the globals of a module (key: the
    dictionary's id), an object held by the recording (key: its id), or a class (key: the class;
    `Members` of a class or module; or a `Known` object).
    """

    kind: str
    key: Any = None
    parent: Path | None = None
    name: str = ""  # of a closure variable, which does not tell paths apart
    _hash: int = field(init=False, repr=False)  # recordings have thousands in tables

    def __post_init__(self) -> None:
        key = id(self.key) if isinstance(self.key, type) else self.key
        object.__setattr__(self, "_hash", hash((self.kind, key, self.parent)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or type(other) is not Path:
            return self is other
        return self._hash == other._hash and self.kind == other.kind \
            and _same_key(self.key, other.key) and self.parent == other.parent

    def attr(self, name: str) -> Path:
        return Path("attr", name, self)

    def item(self, key: Any) -> Path:
        return Path("item", Key(key), self)

    def cell(self, index: int, name: str = "") -> Path:
        return Path("cell", index, self, name)

    @property
    def is_given(self) -> bool:
        """Whether it leads to an argument of the call, or to an element of one: not to what an
        object holds."""
        above = self
        while above.parent is not None and above.kind != "attr":
            above = above.parent
        return above.kind in ("args", "kwargs")

    def __str__(self) -> str:
        return describe(self)


def _same_key(a: Any, b: Any) -> bool:
    """Classes are compared by identity: their `==` may be the user's code."""
    return a is b or (not isinstance(a, type) and bool(a == b))


class Members:
    """What a class or module itself holds, by name: read raw, so that no descriptor is asked."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Members) and self.owner is other.owner

    def __hash__(self) -> int:
        return id(self.owner)

    def __getitem__(self, name: str) -> Any:
        return self.owner.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.owner, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self.owner, name)

    def __contains__(self, name: str) -> bool:
        return name in self.owner.__dict__

    def __str__(self) -> str:
        return getattr(self.owner, "__qualname__", None) or str(self.owner.__name__)


class Known:
    """An object that a guard holds already (a key of a dictionary), as the start of paths."""

    __slots__ = ("__self__",)

    def __init__(self, value: Any) -> None:
        self.__self__ = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return id(self.__self__)

    def __str__(self) -> str:
        return f"a key of class {type(self.__self__).__name__}"


def item(owner: Any, key: Any) -> Any:
    """The item of a container; one that is missing is not made, as `defaultdict` does."""
    if hasattr(type(owner), "__missing__") and key not in owner:
        raise KeyError(key)
    return owner[key]


class Key:
    """A key of an item, compared by type and value, so that 1 and True are different keys."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key) or type(self.value) is not type(other.value):
            return False
        return self.value is other.value or (_plain(self.value) and self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value) if _plain(self.value) else id(self.value)

    def __repr__(self) -> str:
        return repr(self.value) if _plain(self.value) else f"<{type(self.value).__name__}>"


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bytes, bool, type(None)))


def describe(path: Path) -> str:
    """The path in the user's words: `x`, `self.weight`, `global K`."""
    if path.kind == "class":
        own = isinstance(path.key, (Members, Known))
        return str(path.key) if own else f"class {path.key.__qualname__}"
    if path.parent is None:
        return {"args": "arguments", "kwargs": "keyword arguments", "function": "the function",
                "globals": "globals", "object": "random generator"}[path.kind]
    above = path.parent
    if path.kind == "item":
        if above.kind == "args":
            return f"argument {path.key!r}"
        if above.kind == "kwargs":
            return f"argument {path.key.value}"
        if above.kind == "globals":
            return f"global {path.key.value}"
        if type(above.key) is Members:
            return f"{describe(above)}.{path.key.value}"
        if above.kind == "attr" and above.key in _OF_MODULES:
            return f"{describe(above.parent)}.{path.key.value}"  # type: ignore[arg-type]
        return f"{describe(above)}[{path.key!r}]"
    if path.kind == "cell":
        name = f"closure variable {path.name or path.key}"
        return name if above.kind == "function" else f"{name} of {describe(above)}"
    if path.key == "__self__":
        return "self" if above.kind == "function" else describe(above)
    return f"{describe(above)}.{path.key}"


def steps(path: Path) -> list[Path]:
    """The path's ancestors from the root down, itself last."""
    out: list[Path] = []
    at: Path | None = path
    while at is not None:
        out.append(at)
        at = at.parent
    return out[::-1]
