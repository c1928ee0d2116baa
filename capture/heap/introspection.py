"""Reads the contents of classes, modules, functions and objects without running user code."""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from ...eager.arrays import devices
from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from .access_path import Members, Path

_ROOT = __name__.partition(".")[0]
_EXAMPLES = f"{_ROOT}.export.demo"  # written as a user would
_LIBRARY = frozenset((*sys.stdlib_module_names, "numpy", "ml_dtypes", _ROOT)) - {"__main__"}
_WITH_STATE = (functools.cached_property, functools.partialmethod, functools.singledispatchmethod)
EMPTY = object()  # the contents of an empty closure cell


def is_users(name: Any) -> bool:
    """True if a module belongs to the user: not to the standard library, NumPy, a device's library
    or fusewire."""
    first = str(name).partition(".")[0]
    return (first not in _LIBRARY and first not in devices.LIBRARY_MODULES) \
        or str(name).startswith(_EXAMPLES)


def cells(function: Any) -> tuple[Any, ...]:
    """The contents of a function's closure cells."""
    contents = []
    for cell in function.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:
            contents.append(EMPTY)
    return tuple(contents)


def attributes(value: Any) -> dict[str, Any]:
    """The instance attributes of an object: its dictionary and its slots, or only the names in
    `__captured__` of its class. For classes see `own_members`."""
    if isinstance(value, type):
        return {}
    only = getattr(type(value), "__captured__", None)
    if only is not None:
        return {name: getattr(value, name) for name in only}
    fields = dict(dictionary(value) or {})
    for cls in type(value).__mro__:
        for name, member in cls.__dict__.items():
            if isinstance(member, types.MemberDescriptorType) and not _is_dunder(name):
                try:
                    fields[name] = member.__get__(value)
                except AttributeError:
                    continue
    if isinstance(value, BaseException):
        fields["args"] = value.args
    return fields


def dictionary(value: Any) -> dict[str, Any] | None:
    """The `__dict__` of an object; None if it has none. It does not call a `__getattr__`."""
    try:
        fields = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return fields if isinstance(fields, dict) else None


def own_count(value: Any, held: Any) -> int | None:
    """The number of the attributes `held` in an object's `__dict__`; None if it has none."""
    cls = type(value)
    if not isinstance(held, dict) or dictionary(value) is None or hasattr(cls, "__captured__"):
        return None
    slots = sum(isinstance(getattr(cls, n, None), types.MemberDescriptorType) for n in held)
    return len(held) - slots - isinstance(value, BaseException)


def own_members(cls: type) -> dict[str, Any]:
    """The attributes that a user's class defines itself; none for classes of libraries."""
    if not is_users(cls.__module__) or issubclass(cls, enum.Enum):
        return {}
    return {name: value for name, value in cls.__dict__.items() if not is_hidden(name)}


def is_hidden(name: str) -> bool:
    """True for names of class members that `own_members` leaves out."""
    return _is_dunder(name) or name.startswith("_abc_")


def lookup(cls: type, name: str) -> tuple[Any, Any]:
    """The class that defines an attribute, and the attribute; (None, None) if there is none."""
    for owner in cls.__mro__:
        if name in owner.__dict__:
            return owner, owner.__dict__[name]
    return None, None


def of_instance(cls: type) -> dict[str, Any]:
    """The class attributes other than functions that instances read, by name."""
    class_attributes: dict[str, Any] = {}
    if hasattr(cls, "__captured__"):
        return class_attributes
    for c in cls.__mro__:
        if c.__module__ != "builtins":
            for name, value in c.__dict__.items():
                if not _is_dunder(name) and not hasattr(type(value), "__get__") and (
                        is_users(c.__module__) or type(value).__module__ == "builtins"
                        or isinstance(value, Tensor)):
                    class_attributes.setdefault(name, value)
    return class_attributes


def of_class(cls: type) -> Iterator[tuple[Path, Any]]:
    """(path, value) for the readable members of a user's class: values, functions, descriptors."""
    seen: set[str] = set()
    for c in cls.__mro__:
        for name, value in c.__dict__.items():
            if name not in seen:
                seen.add(name)
                yield from member_of(cls, c, name, value)


def member_of(cls: type, owner: type, name: str, value: Any) -> Iterator[tuple[Path, Any]]:
    """(path, value) of a member that `owner` defines, as instances of `cls` read it; nothing if
    only a library can change it."""
    plain = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    plain = plain.fget if isinstance(plain, property) else plain
    if isinstance(plain, types.FunctionType):
        if not is_ours(plain.__code__) and is_users(owner.__module__):
            function = value if isinstance(value, property) else getattr(cls, name)
            yield Path("class", cls).attr(name), function
    elif name not in own_members(owner):
        return
    elif not hasattr(type(value), "__get__"):
        yield Path("class", cls).attr(name), value
    elif is_users(type(value).__module__) or isinstance(value, _WITH_STATE):
        yield Path("class", Members(owner)).item(name), value


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
