"""Guards attributes that were missing: a trace is invalid once code would find them.

The code that ran determines the names: strings in code that calls `hasattr` or `getattr`, and all
names if some code handles exceptions.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ..heap.access_path import Path, describe
from ..heap.bytecode import instructions
from ..heap.code_tracker import is_python
from ..heap.introspection import attributes, is_users
from ..heap.snapshot import HeapSnapshot
from .guards import Guard

_LOOKUPS = {"hasattr", "getattr"}


def find_missing_attributes(state: HeapSnapshot, read_values: dict[Path, Any]) -> Iterator[Guard]:
    """Guards that attributes which code may have found missing are still missing."""
    names = _looked_up_names(code for code in state.codes
                             if not is_ours(code) and not is_python(code.co_filename))
    if not names:
        return
    aliases = dict(state.aliases)
    classes: dict[type, None] = {}
    for path, value in read_values.items():
        if path in aliases or isinstance(value, Tensor):
            continue
        own: type = value if isinstance(value, type) else type(value)
        meta: type = type(own)
        classes |= dict.fromkeys(c for c in (*own.__mro__, *meta.__mro__) if _is_mutable_class(c))
        if own is not value:
            yield from _object_guards(state, path, value, names)
    for cls in classes:
        yield from _dictionary_guards(Path("class", cls), names - vars(cls).keys())


def _looked_up_names(codes: Iterable[types.CodeType]) -> set[str]:
    ran = list(codes)
    asking = [code for code in ran if not _LOOKUPS.isdisjoint(code.co_names)]
    names = {text for code in asking for text in _strings_in(code.co_consts)}
    if any(map(_handles_errors, ran)):
        names.update(name for code in ran for name in code.co_names)
    return {name for name in names if not name.startswith("__")}


def _strings_in(constants: tuple[Any, ...]) -> Iterator[str]:
    for constant in constants:
        if type(constant) is str:
            yield constant
        elif type(constant) is tuple:
            yield from _strings_in(constant)


@functools.lru_cache(maxsize=4096)
def _handles_errors(code: types.CodeType) -> bool:
    """True if code may continue after an exception."""
    table = getattr(code, "co_exceptiontable", None)  # since Python 3.11
    return bool(table) if table is not None else \
        any(step.opname.startswith("SETUP_") for step in instructions(code))


def _object_guards(state: HeapSnapshot, path: Path, value: Any, names: set[str]) -> Iterator[Guard]:
    if hasattr(type(value), "__captured__"):
        return
    held = state.fields.get(path, state.held.get(path))
    missing = names - attributes(value).keys() - set(held if isinstance(held, dict) else ())
    if _has_dictionary(value):
        yield from _dictionary_guards(path, missing - value.__dict__.keys())
    slots = [name for name in sorted(missing) if _is_slot(type(value), name)]
    for name in slots:
        yield Guard(path, "empty slot", {"K": name},
                    f"{describe(path)} has no {name}")


def _dictionary_guards(path: Path, missing: set[str]) -> Iterator[Guard]:
    if missing:
        yield Guard(path, "no attributes", {"K": tuple(sorted(missing))},
                    f"{describe(path)} has no {' or '.join(sorted(missing))}", "contents")


def _is_mutable_class(cls: type) -> bool:
    """True if attributes may be added to a class."""
    return is_users(cls.__module__)


def _has_dictionary(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return is_users(value.__name__)
    return isinstance(getattr(value, "__dict__", None), dict)


def _is_slot(cls: type, name: str) -> bool:
    member = next((c.__dict__[name] for c in cls.__mro__ if name in c.__dict__), None)
    return isinstance(member, types.MemberDescriptorType)
