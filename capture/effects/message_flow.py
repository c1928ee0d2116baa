"""Finds out from bytecode whether a text goes into messages only: into calls with an effect.

`f"{loss:.3f}"` calls `__format__`, which has to return a real string. A replay can compute that
string again only where it knows every use of it. So the code is followed from the instruction that
formats to all instructions that take the text: they may join texts, store them in local variables,
pass them to a Python function that does the same, and call functions with an effect. If anything
else may take the text, the answer is no.
"""

from __future__ import annotations

import dis
import string
import sys
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...eager.errors import is_our_file
from ..heap.bytecode import instruction_index_at, instructions
from ..heap.introspection import dictionary, lookup
from ..heap.operand_stack import callee_of, consumer, depths_of, popped, writer
from .interception import InterceptedFunction, InterceptedStream

_MAX_DEPTH = 8  # of calls and variables that a text goes through
_CALLS = {"CALL", "CALL_FUNCTION", "CALL_METHOD"}
_CALLS_BY_NAME = {"CALL_KW", "CALL_FUNCTION_KW"}
_SLOTS_OF_CALLEE = 1 if sys.version_info < (3, 11) else 2
_METHOD_LOADS = ("LOAD_METHOD", "LOAD_ATTR")
_READS_LOCALS = {"locals", "vars", "dir", "eval", "exec", "_getframe"}
_FORMATS = {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"}
_CONVERSION, _SPEC = 3, 4  # in the argument of FORMAT_VALUE
# Our functions between user code and a number.
_FORMATTERS = ("__format__", "__repr__", "text", "_text", "text_of", "reads_values")


class _Scope(NamedTuple):
    """The variables that code reads."""

    variables: Mapping[str, Any]
    globals: Mapping[str, Any]
    builtins: Mapping[str, Any]


def goes_into_messages(by_repr: bool) -> bool:
    """True if the text that user code formats now goes into messages only. `by_repr`: the text is
    that of `repr`, which formatting with a specification changes."""
    frame: Any = sys._getframe(2)
    while frame is not None and is_our_file(frame.f_code.co_filename):
        if frame.f_code.co_name not in _FORMATTERS:
            return False
        frame = frame.f_back
    if frame is None:
        return False
    code, scope = frame.f_code, _Scope(frame.f_locals, frame.f_globals, frame.f_builtins)
    n = instruction_index_at(code, frame.f_lasti)
    if instructions(code)[n].offset not in (depths_of(code) or {}):
        return False
    return _formats(code, n, scope, by_repr) and _is_message(code, n, _result_slot(code, n), scope)


def _result_slot(code: types.CodeType, n: int) -> int:
    step = instructions(code)[n]
    return (depths_of(code) or {})[step.offset] - popped(step)


def _formats(code: types.CodeType, n: int, scope: _Scope, by_repr: bool) -> bool:
    """True if an instruction formats values and does nothing else with their text."""
    step = instructions(code)[n]
    if step.opname in _FORMATS:
        flags = (step.arg or 0) if step.opname == "FORMAT_VALUE" else 0
        has_spec = bool(flags & _SPEC) or step.opname == "FORMAT_WITH_SPEC"
        return not has_spec or not (by_repr or flags & _CONVERSION)
    if step.opname not in _CALLS:
        return False
    base = _result_slot(code, n)
    callee = writer(code, n, base)
    if callee is not None and _is_format_of_constant(code, callee, base):
        return True
    return _value(code, callee_of(code, n, base), scope) in (str, repr) and \
        (step.arg == 1)


def _is_format_of_constant(code: types.CodeType, n: int, slot: int) -> bool:
    """True if an instruction loads `"...".format` of a constant without nested fields."""
    step = instructions(code)[n]
    owner = writer(code, n, slot)
    if step.opname not in _METHOD_LOADS or step.argval != "format" or owner is None:
        return False
    text = instructions(code)[owner].argval
    if instructions(code)[owner].opname != "LOAD_CONST" or not isinstance(text, str):
        return False
    return all(not spec or "{" not in spec for _, _, spec, _ in string.Formatter().parse(text))


def _is_message(code: types.CodeType, n: int, slot: int, scope: _Scope,
                seen: frozenset[Any] = frozenset()) -> bool:
    """True if the text that instruction `n` leaves in a stack slot goes into messages only."""
    m = consumer(code, n, slot)
    if m is None:
        return False
    step = instructions(code)[m]
    if step.opname == "POP_TOP":
        return True
    if step.opname == "BUILD_STRING" or _copies_text(step) or _joins_texts(code, m):
        return _is_message(code, m, _result_slot(code, m), scope, seen)
    if step.opname == "STORE_FAST":
        return step.argval not in code.co_cellvars and \
            _variable_is_message(code, step.argval, scope, seen)
    return (step.opname in _CALLS or step.opname in _CALLS_BY_NAME) \
        and _call_is_message(code, m, slot, scope, seen)


def _copies_text(step: dis.Instruction) -> bool:
    """True if an instruction formats a text without changing it."""
    return (step.opname == "FORMAT_VALUE" and not step.arg) or step.opname == "FORMAT_SIMPLE"


def _joins_texts(code: types.CodeType, n: int) -> bool:
    """True if an instruction adds two values that certainly are texts."""
    step = instructions(code)[n]
    if step.opname not in ("BINARY_ADD", "INPLACE_ADD") and not (
            step.opname == "BINARY_OP" and step.argrepr in ("+", "+=")):
        return False
    base = _result_slot(code, n)
    return all(_makes_text(code, writer(code, n, slot)) for slot in (base, base + 1))


def _makes_text(code: types.CodeType, n: int | None) -> bool:
    if n is None:
        return False
    step = instructions(code)[n]
    if step.opname == "LOAD_CONST":
        return isinstance(step.argval, str)
    if step.opname == "CALL" or step.opname == "CALL_FUNCTION":
        callee = callee_of(code, n, _result_slot(code, n))
        return callee is not None and instructions(code)[callee].opname == "LOAD_GLOBAL" \
            and instructions(code)[callee].argval in ("str", "repr")
    return step.opname == "BUILD_STRING" or step.opname in _FORMATS or _joins_texts(code, n)


def _variable_is_message(code: types.CodeType, name: str, scope: _Scope,
                         seen: frozenset[Any]) -> bool:
    """True if all reads of a local variable go into messages only."""
    if (code, name) in seen:
        return True
    if len(seen) >= _MAX_DEPTH or depths_of(code) is None or _READS_LOCALS & {*code.co_names}:
        return False
    depths = depths_of(code) or {}
    for n, step in enumerate(instructions(code)):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if name not in names or "FAST" not in step.opname or step.opname == "STORE_FAST":
            continue
        if step.opname != "LOAD_FAST" or step.offset not in depths or not _is_message(
                code, n, depths[step.offset], scope, seen | {(code, name)}):
            return False
    return True


def _call_is_message(code: types.CodeType, n: int, slot: int, scope: _Scope,
                     seen: frozenset[Any]) -> bool:
    """True if a call only puts its argument in a stack slot into messages."""
    step, base = instructions(code)[n], _result_slot(code, n)
    place = slot - base - _SLOTS_OF_CALLEE
    if step.opname == "CALL_METHOD":
        place = slot - base - 2
    if place < 0:
        return False
    at = callee_of(code, n, base)
    callee = _value(code, at, scope)
    if isinstance(callee, InterceptedFunction):
        return callee.takes_messages
    by_name = step.opname in _CALLS_BY_NAME or instructions(code)[n - 1].opname == "KW_NAMES" \
        or instructions(code)[n - 2].opname == "KW_NAMES"
    if by_name or type(callee) is not types.FunctionType:
        return False
    receiver = _receiver(code, at, scope)
    return _parameter_is_message(callee, place, receiver, seen)


def _parameter_is_message(function: types.FunctionType, place: int, receiver: list[Any],
                          seen: frozenset[Any]) -> bool:
    """True if a Python function puts its positional argument into messages only."""
    code, place = function.__code__, place + len(receiver)
    if is_our_file(code.co_filename) or place >= code.co_argcount:
        return False
    variables = dict(zip(code.co_varnames, receiver))
    scope = _Scope(variables, function.__globals__, getattr(function, "__builtins__", {}))
    name = code.co_varnames[place]
    return name not in code.co_cellvars and _variable_is_message(code, name, scope, seen)


# ---- callees
def _value(code: types.CodeType, n: int | None, scope: _Scope) -> Any:
    """The value that an instruction loads; None if it cannot be told without running code."""
    if n is None:
        return None
    step = instructions(code)[n]
    name = step.argval
    if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        return scope.globals.get(name, scope.builtins.get(name))
    if step.opname in ("LOAD_FAST", "LOAD_DEREF"):
        return scope.variables.get(name)
    if step.opname in _METHOD_LOADS:
        return _attribute(_owner(code, n, scope), name)
    return None


def _owner(code: types.CodeType, n: int, scope: _Scope) -> Any:
    """The object of which an instruction loads an attribute."""
    step = instructions(code)[n]
    slot = (depths_of(code) or {}).get(step.offset, 0) - 1
    return _value(code, writer(code, n, slot), scope)


def _receiver(code: types.CodeType, n: int | None, scope: _Scope) -> list[Any]:
    """The object to which a method is bound that an instruction loads, if there is one."""
    if n is None or instructions(code)[n].opname not in _METHOD_LOADS:
        return []
    owner = _owner(code, n, scope)
    if isinstance(owner, (types.ModuleType, type)):
        return []
    own = dictionary(owner) or {}
    return [] if instructions(code)[n].argval in own else [owner]


def _attribute(owner: Any, name: str) -> Any:
    """An attribute, found without running code; None if that is not possible."""
    if owner is None:
        return None
    if isinstance(owner, InterceptedStream):
        return owner.methods.get(name)
    if isinstance(owner, types.ModuleType):
        return vars(owner).get(name)
    if lookup(type(owner), "__getattribute__")[0] is not object:
        return None
    cls, member = lookup(type(owner), name)
    if cls is not None and hasattr(type(member), "__set__"):
        return None  # a property, for example
    own = dictionary(owner) or {}
    return own.get(name, member)
