"""Containers that a function only adds to: what they hold decides nothing, so it is no condition.

`losses.append(loss)` would otherwise be recorded anew each time, for another length. A container is
taken to be unread if every load of the name that leads to it, in all code that ran, is followed at
once by `.append(`, `.extend(` or `.add(`, or is what an item is stored in. Whatever looks different
in the bytecode of some version of Python counts as reading.
"""

from __future__ import annotations

import types
from collections import deque
from typing import Any, NamedTuple

from ...eager.core.tensor import Tensor
from ...eager.errors import is_ours
from ..heap.access_path import Members, Path, steps
from ..heap.bytecode import instructions, reads_by_name
from ..heap.snapshot import HeapSnapshot
from .tracer import Tracer

_ADDING: dict[type, tuple[str, ...]] = {
    list: ("append", "extend"), deque: ("append", "extend"), set: ("add", "update"), dict: (),
}  # how items are added; to a dictionary by `d[k] = v`
_ALL_NAMES = {"locals", "globals", "eval", "exec"}
_SIMPLE = ("LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_SMALL_INT")
_NO_WORK = ("CACHE", "EXTENDED_ARG", "PRECALL", "RESUME", "NOP")


class AppendStep(NamedTuple):
    """An instruction that matters, one per name even where the interpreter joins two of them."""

    op: str
    value: Any


def find_added(recorder: Tracer) -> None:
    """Notes which changed containers were only added to, and forgets what stood in them."""
    state = recorder.state
    if any(not is_ours(code) and _reads_unseen(code) for code in state.codes):
        return
    for path, before, now in list(state.changes()):
        if type(state.values[path]) in _ADDING and _is_unread(recorder, path):
            state.added.add(path)
            _forget(state, [path.item(key) for key in _replaced(state.values[path], before, now)])


def _reads_unseen(code: types.CodeType) -> bool:
    """Whether code may read what it does not name."""
    return reads_by_name(code) or not _ALL_NAMES.isdisjoint(code.co_names)


def _is_unread(recorder: Tracer, path: Path) -> bool:
    state, value = recorder.state, recorder.state.values[path]
    if isinstance(value, deque) and value.maxlen is not None:
        return False
    name, keys = _name(state, path)
    if name is None or any(first == path for _, first in state.aliases):
        return False
    if any(_is_below(p, path) for p in recorder.sources) or any(
            _is_below(first, path) and not isinstance(state.values[first], Tensor)
            for _, first in state.aliases):
        return False
    uses = [use for code in state.codes for use in _uses(code, name, keys, _ADDING[type(value)])]
    return bool(uses) and all(uses)


def _is_below(path: Path, above: Path) -> bool:
    return path != above and above in steps(path)


def _replaced(container: Any, before: Any, now: Any) -> list[Any]:
    """All places of a list; the keys of a dictionary that hold something else now."""
    if isinstance(container, set):
        return []
    new = dict(now) if isinstance(container, dict) else {}
    return [key for key, value in before if key not in new or new[key] is not value]


def _forget(state: HeapSnapshot, places: list[Path]) -> None:
    """What stood in a place that was not read is nowhere: something else may stand there later."""
    gone = set(places)
    lost = {p: state.values.pop(p) for p in list(state.values) if not gone.isdisjoint(steps(p))}
    for other, first in state.aliases:
        if other not in lost and first in lost:  # a tensor that can be reached in another way
            state.paths[id(lost[first])] = other
            state.held.setdefault(other, state.held[first])
            state.edges.setdefault(other, state.edges[first])
            state.hooks.setdefault(other, state.hooks[first])
    for path, value in lost.items():
        for table in (state.held, state.fields, state.edges, state.hooks):
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
            return _with_default(state.values[above.parent], key), keys  # type: ignore[index]
        keys.insert(0, key)
        path = above
    return None, keys


def _parameter(state: HeapSnapshot, position: int) -> str | None:
    """The name of a positional parameter of the function that is recorded."""
    fn = state.values.get(Path("function"))
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    position += isinstance(fn, types.MethodType)
    if code is None or position >= code.co_argcount:
        return None
    return code.co_varnames[position]  # type: ignore[no-any-return]


def _with_default(function: Any, index: int) -> str:
    code = function.__code__
    first = code.co_argcount - len(function.__defaults__)
    return code.co_varnames[first + index]  # type: ignore[no-any-return]


def _uses(code: types.CodeType, name: str, keys: list[Any], adding: tuple[str, ...]) -> list[bool]:
    """Whether each load of `name` in a code object adds to what `keys` lead to and does no more."""
    found = _instructions(code)
    return [_only_adds(found, i, keys, adding) for i, (op, value) in enumerate(found)
            if value == name and op.startswith("LOAD_") and not _makes_closure(code, op, name)]


def _instructions(code: types.CodeType) -> list[AppendStep]:
    found: list[AppendStep] = []
    for i in instructions(code):
        if i.opname in _NO_WORK:
            continue
        if isinstance(i.argval, tuple) and "_FAST_" in i.opname:  # two instructions joined
            kinds = ["LOAD_FAST" if part.startswith("LOAD") else "STORE_FAST"
                     for part in i.opname.replace("_FAST", "").split("_") if part in _JOINED]
            found.extend(map(AppendStep, kinds, i.argval))
        else:
            found.append(AppendStep(i.opname, i.argval))
    return found


_JOINED = ("LOAD", "STORE")


def _makes_closure(code: types.CodeType, op: str, name: str) -> bool:
    """Whether a load hands a variable, not its value, to a function made inside."""
    shared = name in code.co_cellvars or name in code.co_freevars
    return op == "LOAD_CLOSURE" or (op == "LOAD_FAST" and shared and name not in code.co_varnames)


def _only_adds(found: list[AppendStep], at: int, keys: list[Any], adding: tuple[str, ...]) -> bool:
    at += 1
    for key in keys:
        constant, subscript = found[at:at + 2]
        if not (constant.op == "LOAD_CONST" and subscript.op == "BINARY_SUBSCR"):
            return False
        if type(constant.value) is not type(key) or constant.value != key:
            return True  # another element
        at += 2
    after = found[at]
    if after.op in ("LOAD_METHOD", "LOAD_ATTR"):
        return after.value in adding
    return not adding and _is_stored_in(found[at:])


def _is_stored_in(found: list[AppendStep]) -> bool:
    """Whether what was loaded before becomes the container of `container[key] = value`."""
    above = 0  # how many values lie on it
    for op, value in found:
        if op == "STORE_SUBSCR":
            return above == 1
        if op in _SIMPLE:
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
