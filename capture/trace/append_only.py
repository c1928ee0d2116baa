"""Finds containers that a function only adds to, which need no guard on their length.

With such a guard, `losses.append(loss)` would be traced anew on each call. A container is
append-only if every load of the name that leads to it, in all code that ran, is followed at once by
`.append(`, `.extend(` or `.add(`, or by a store of an item into it. Any other bytecode is a read.
"""

from __future__ import annotations

import sys
import types
from collections import deque
from typing import Any, NamedTuple

from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ..heap.access_path import Members, Path, steps
from ..heap.bytecode import instructions, reads_by_name
from ..heap.snapshot import HeapSnapshot
from .tracer import Tracer

_ADD_METHODS: dict[type, tuple[str, ...]] = {
    list: ("append", "extend"), deque: ("append", "extend"), set: ("add", "update"), dict: (),
}  # a dictionary is extended by `d[k] = v`
_READS_ANY_NAME = {"locals", "globals", "eval", "exec"}
_PUSHES_ONE = ("LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME",
               "LOAD_SMALL_INT")
_IGNORED_OPS = ("CACHE", "EXTENDED_ARG", "PRECALL", "RESUME", "NOP")


class AppendStep(NamedTuple):
    """An instruction with at most one name: fused instructions are split."""

    op: str
    value: Any


def find_append_only(tracer: Tracer) -> None:
    """Marks the changed containers that are append-only, and forgets their earlier contents."""
    state = tracer.state
    if any(not is_ours(code) and _reads_unnamed(code) for code in state.codes):
        return
    for path, before, now in list(state.changes()):
        if type(state.values[path]) in _ADD_METHODS and _is_unread(tracer, path):
            state.append_only.add(path)
            _forget(state, [path.item(key) for key in _replaced(state.values[path], before, now)])


def _reads_unnamed(code: types.CodeType) -> bool:
    """True if code may read names that do not stand in it."""
    return reads_by_name(code) or not _READS_ANY_NAME.isdisjoint(code.co_names)


def _is_unread(tracer: Tracer, path: Path) -> bool:
    state, value = tracer.state, tracer.state.values[path]
    if isinstance(value, deque) and value.maxlen is not None:
        return False
    name, keys = _name(state, path)
    if name is None or any(first == path for _, first in state.aliases):
        return False
    if any(_is_below(p, path) for p in tracer.sources) or any(
            _is_below(first, path) and not isinstance(state.values[first], Tensor)
            for _, first in state.aliases):
        return False
    attribute = _is_attribute(state, path)
    uses = [use for code in state.codes for use in _uses(code, name, keys,
                                                         _ADD_METHODS[type(value)], attribute)]
    return bool(uses) and all(uses)


def _is_attribute(state: HeapSnapshot, path: Path) -> bool:
    """True if only loads of attributes lead to a path: the attribute, or an item of it, of an
    object that is no module."""
    while path.kind == "item" and path.parent is not None:
        path = path.parent
    owner = None if path.parent is None else state.values.get(path.parent)
    return path.kind == "attr" and not isinstance(owner, types.ModuleType)


def _is_below(path: Path, above: Path) -> bool:
    return path != above and above in steps(path)


def _replaced(container: Any, before: Any, now: Any) -> list[Any]:
    """The keys of a container whose elements may have changed: all keys of a list, the keys of a
    dictionary with another value."""
    if isinstance(container, set):
        return []
    new = dict(now) if isinstance(container, dict) else {}
    return [key for key, value in before if key not in new or new[key] is not value]


def _forget(state: HeapSnapshot, paths: list[Path]) -> None:
    """Forgets values that were not read: other values may stand at these paths in later calls."""
    forgotten = set(paths)
    lost = {p: state.values.pop(p) for p in list(state.values)
            if not forgotten.isdisjoint(steps(p))}
    for other, first in state.aliases:
        if other not in lost and first in lost:  # a tensor that another path reaches
            state.paths[id(lost[first])] = other
            state.held.setdefault(other, state.held[first])
            state.bases.setdefault(other, state.bases[first])
            state.edges.setdefault(other, state.edges[first])
            state.hooks.setdefault(other, state.hooks[first])
    for path, value in lost.items():
        for table in (state.held, state.items, state.tested, state.fields, state.bases,
                      state.edges, state.hooks):
            table.pop(path, None)
        if state.paths.get(id(value)) == path:
            del state.paths[id(value)]
    state.aliases[:] = [(other, state.paths[id(state.values[other])])
                        for other, first in state.aliases if other not in lost]
    state.aliases[:] = [(other, first) for other, first in state.aliases if other != first]


def _name(state: HeapSnapshot, path: Path) -> tuple[str | None, list[Any]]:
    """The name in the code that leads to a path, and the keys that follow it."""
    keys: list[Any] = []
    while path.parent is not None:
        above = path.parent
        if path.kind == "attr":
            return path.key, keys
        if path.kind == "cell":
            return state.values[above].__code__.co_freevars[path.key], keys
        key = path.key.value
        if above.kind == "globals" or above.kind == "kwargs" or type(above.key) is Members:
            return key, keys
        if above.kind == "args":
            return _parameter(state, key), keys
        if above.key == "__defaults__":
            return _default_parameter(state.values[above.parent], key), keys  # type: ignore[index]
        keys.insert(0, key)
        path = above
    return None, keys


def _parameter(state: HeapSnapshot, position: int) -> str | None:
    """The name of a positional parameter of the traced function."""
    fn = state.values.get(Path("function"))
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    position += isinstance(fn, types.MethodType)
    if code is None or position >= code.co_argcount:
        return None
    return code.co_varnames[position]  # type: ignore[no-any-return]


def _default_parameter(function: Any, index: int) -> str:
    code = function.__code__
    first = code.co_argcount - len(function.__defaults__)
    return code.co_varnames[first + index]  # type: ignore[no-any-return]


def _uses(code: types.CodeType, name: str, keys: list[Any], adding: tuple[str, ...],
          attribute: bool) -> list[bool]:
    """For each load of `name` in a code object: True if it only adds to the item at `keys`.

    `attribute`: only loads of attributes count. A method that is called is no container. In our own
    code, attributes of globals such as `math.log` are none: our globals are no objects of a user.
    """
    code_steps = _instructions(code)
    ours = is_ours(code)
    return [_only_adds(code_steps, i, keys, adding) for i, (op, value) in enumerate(code_steps)
            if value == name and op.startswith("LOAD_") and not _makes_closure(code, op, name)
            and not (attribute and op in _NOT_READ)
            and not (attribute and ours and code_steps[i - 1].op == "LOAD_GLOBAL")]


_NOT_READ = {"LOAD_METHOD", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW",
             "LOAD_FAST_AND_CLEAR", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE"}


def _instructions(code: types.CodeType) -> list[AppendStep]:
    code_steps: list[AppendStep] = []
    for i in instructions(code):
        if i.opname in _IGNORED_OPS:
            continue
        if isinstance(i.argval, tuple) and "_FAST_" in i.opname:  # two instructions joined
            kinds = ["LOAD_FAST" if part.startswith("LOAD") else "STORE_FAST"
                     for part in i.opname.replace("_FAST", "").split("_") if part in _JOINED]
            code_steps.extend(map(AppendStep, kinds, i.argval))
        else:
            called = i.opname == "LOAD_ATTR" and _FLAGS_METHODS and (i.arg or 0) & 1
            code_steps.append(AppendStep("LOAD_METHOD" if called else i.opname, i.argval))
    return code_steps


_JOINED = ("LOAD", "STORE")
_FLAGS_METHODS = sys.version_info >= (3, 12)  # LOAD_ATTR has a flag for a method that is called


def _makes_closure(code: types.CodeType, op: str, name: str) -> bool:
    """True if a load passes a variable, not its value, to an inner function."""
    shared = name in code.co_cellvars or name in code.co_freevars
    return op == "LOAD_CLOSURE" or (op == "LOAD_FAST" and shared and name not in code.co_varnames)


def _only_adds(code_steps: list[AppendStep], at: int, keys: list[Any],
               adding: tuple[str, ...]) -> bool:
    at += 1
    for key in keys:
        constant, subscript = code_steps[at:at + 2]
        if not (constant.op == "LOAD_CONST" and subscript.op == "BINARY_SUBSCR"):
            return False
        if type(constant.value) is not type(key) or constant.value != key:
            return True  # another element
        at += 2
    after = code_steps[at]
    if after.op in ("LOAD_METHOD", "LOAD_ATTR"):
        return after.value in adding
    return not adding and _is_stored_in(code_steps[at:])


def _is_stored_in(code_steps: list[AppendStep]) -> bool:
    """True if the value loaded before becomes the container of `container[key] = value`."""
    above = 0  # number of values above it on the stack
    for op, value in code_steps:
        if op == "STORE_SUBSCR":
            return above == 1
        if op in _PUSHES_ONE:
            above += 1
        elif op == "BUILD_STRING":
            above += 1 - value
        elif op == "FORMAT_VALUE":
            above -= value[1]
        elif op not in ("FORMAT_SIMPLE", "CONVERT_VALUE"):
            return False
        if above < 1:
            return False
    return False
