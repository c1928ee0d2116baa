"""Defines access paths: the steps from a call to a value, by which a replay reads the value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_MODULE_DICTIONARIES = ("_parameters", "_modules", "_buffers")  # shown as attributes


@dataclass(frozen=True, eq=False)
class Path:
    """A root, or a step from a parent path: attribute, item, closure cell, or the result of a call.

    Roots are the args and kwargs of the call, the function itself, the globals of a module (key:
    the id of the dictionary), an object held by the trace (key: its id), or a class (key: the
    class, the `Members` of a class or module, or a `KnownObject`).
    """

    kind: str
    key: Any = None
    parent: Path | None = None
    name: str = ""  # of a closure variable; not compared
    _hash: int = field(init=False, repr=False)  # cached: traces look up thousands of paths

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

    def call(self, arguments: Arguments) -> Path:
        """The path of the result of a cached function, which calls with equal arguments return."""
        return Path("call", arguments, self)

    @property
    def is_argument(self) -> bool:
        """True if it leads to an argument of the call or to an element of one, without an attribute
        on the way."""
        ancestor = self
        while ancestor.parent is not None and ancestor.kind != "attr":
            ancestor = ancestor.parent
        return ancestor.kind in ("args", "kwargs")

    def __str__(self) -> str:
        return describe(self)


class Arguments:
    """The plain arguments of a call, compared by type and value; objects show their identity."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arguments) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return ", ".join([*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())])


def _same_key(a: Any, b: Any) -> bool:
    """True if two keys are equal; classes are compared by identity, as `==` may be user code."""
    return a is b or (not isinstance(a, type) and bool(a == b))


class Members:
    """The dictionary of a class or module, read without calling descriptors."""

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


class KnownObject:
    """An object that a guard holds (a key of a dictionary), as the root of paths."""

    __slots__ = ("__self__",)

    def __init__(self, value: Any) -> None:
        self.__self__ = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnownObject) and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return id(self.__self__)

    def __str__(self) -> str:
        return f"a key of class {type(self.__self__).__name__}"


def item(owner: Any, key: Any) -> Any:
    """The item of a container; raises KeyError for a missing key of a `defaultdict`, too."""
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
    """The path as users would write it: `x`, `self.weight`, `global K`."""
    if path.kind == "class":
        is_wrapper = isinstance(path.key, (Members, KnownObject))
        return str(path.key) if is_wrapper else f"class {path.key.__qualname__}"
    if path.parent is None:
        return {"args": "arguments", "kwargs": "keyword arguments", "function": "the function",
                "globals": "globals", "object": "random generator"}[path.kind]
    parent = path.parent
    if path.kind == "item":
        if parent.kind == "args":
            return f"argument {path.key!r}"
        if parent.kind == "kwargs":
            return f"argument {path.key.value}"
        if parent.kind == "globals":
            return f"global {path.key.value}"
        if type(parent.key) is Members:
            return f"{describe(parent)}.{path.key.value}"
        if parent.kind == "attr" and parent.key in _MODULE_DICTIONARIES:
            return f"{describe(parent.parent)}.{path.key.value}"  # type: ignore[arg-type]
        return f"{describe(parent)}[{path.key!r}]"
    if path.kind == "call":
        return f"{describe(parent)}({path.key})"
    if path.kind == "cell":
        name = f"closure variable {path.name or path.key}"
        return name if parent.kind == "function" else f"{name} of {describe(parent)}"
    if path.key == "__self__":
        return "self" if parent.kind == "function" else describe(parent)
    return f"{describe(parent)}.{path.key}"


def steps(path: Path) -> list[Path]:
    """The path and its ancestors, root first."""
    ancestors: list[Path] = []
    current: Path | None = path
    while current is not None:
        ancestors.append(current)
        current = current.parent
    return ancestors[::-1]
