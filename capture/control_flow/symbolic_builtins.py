"""Traces a copy of a function in which some calls of builtins return symbolic values.

`t.item()` returns a symbolic number, but `float`, `int` and `len` return exact floats and ints. A
run that depends on such a number fits calls with the same value only. In the copy, `float` and
`int` return symbolic numbers where the bytecode shows that the result goes only into arithmetic,
comparisons, local variables, messages, and limits of loops. `len` returns a dynamic size, as
`shape` does. `bool` leaves its test to the `if` around it, where paths can merge. In the same way,
`range`, `enumerate` and `zip` of a `for` iterate over dynamic sizes (see `symbolic_range`). All
instructions have the same offsets in the copy.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...eager import interpreter
from ...eager.core.tensor import Tensor
from ..heap.bytecode import instructions
from ..scalars.symbolic_scalar import SymbolicScalar
from .operand_stack import callee_of, consumer, depths_of, popped
from .symbolic_range import BUILTIN_PROXIES

_TRUTH_TESTS = ("POP_JUMP", "TO_BOOL", "UNARY_NOT")
_TESTS = ("COMPARE_OP", *_TRUTH_TESTS)
_ARITHMETIC = ("BINARY_", "INPLACE_", "UNARY_NEGATIVE", "UNARY_POSITIVE")
_NO_ARITHMETIC = ("BINARY_SUBSCR", "BINARY_SLICE")
_FORMATS = ("FORMAT_", "CONVERT_VALUE")
_CALLS = ("CALL", "CALL_KW", "CALL_FUNCTION", "CALL_METHOD", "CALL_FUNCTION_KW")
_SHOWING = ("print", "str", "repr")  # functions, and methods, that turn numbers into text
_LOGGING = ("debug", "info", "warning", "error", "critical", "log", "format")
_STORES = ("STORE_FAST", "STORE_FAST_LOAD_FAST")


def with_symbolic_builtins(fn: Any) -> Any:
    """A copy of a function, or method, with symbolic builtins where possible; `fn` itself if it
    calls none of them."""
    if type(fn) is types.MethodType:
        function = with_symbolic_builtins(fn.__func__)
        return fn if function is fn.__func__ else types.MethodType(function, fn.__self__)
    if type(fn) is not types.FunctionType:
        return fn
    changes = _symbolic_code(fn.__code__, frozenset(
        name for name in _REPLACEMENTS.keys() & {*fn.__code__.co_names}
        if name not in fn.__globals__ and _builtin_of(fn, name) is getattr(builtins, name)))
    if changes is None:
        return fn
    code = fn.__code__.replace(co_code=changes.text, co_consts=changes.constants)
    copy = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__, copy.__qualname__ = fn.__kwdefaults__, fn.__qualname__
    return copy


def _builtin_of(fn: Any, name: str) -> Any:
    """The builtin that code of a function reads by this name."""
    return fn.__builtins__.get(name)


def _symbolic_number(x: Any) -> SymbolicScalar | None:
    """The symbolic number of a tensor or number during a trace; None for others."""
    if isinstance(x, Tensor) and interpreter.STATE.active is not None and x.ndim == 0:
        x = x.item()
    return x if type(x) is SymbolicScalar else None


def symbolic_float(x: Any = 0.0, /) -> Any:
    """float(x), or a symbolic float."""
    number = _symbolic_number(x)
    if number is None:
        return float(x)
    return number if type(number.value) is float else number + 0.0


def symbolic_int(*args: Any, **kwargs: Any) -> Any:
    """int(...), or a symbolic int."""
    number = _symbolic_number(args[0]) if len(args) == 1 and not kwargs else None
    if number is None:
        return int(*args, **kwargs)
    return number if type(number.value) is int else math.trunc(number)


def symbolic_bool(x: Any = False, /) -> Any:
    """The tensor or symbolic number itself, whose truth is tested next; bool(x) for others."""
    return x if isinstance(x, (Tensor, SymbolicScalar)) else bool(x)


def symbolic_len(x: Any, /) -> Any:
    """len(x), or a symbolic size."""
    if isinstance(x, Tensor) and interpreter.STATE.active is not None and x.ndim:
        return x.shape[0]
    return len(x)


_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "bool": symbolic_bool, "float": symbolic_float, "int": symbolic_int, "len": symbolic_len,
    **BUILTIN_PROXIES}


# ---- code
class _Call(NamedTuple):
    """A call of a builtin that can be replaced: the index of the instruction that loads it."""

    load: int
    name: str


class _Changes(NamedTuple):
    """The instructions and constants of changed code."""

    text: bytes
    constants: tuple[Any, ...]


@functools.lru_cache(maxsize=1024)
def _symbolic_code(code: types.CodeType, names: frozenset[str]) -> _Changes | None:
    """The changes with which code calls the replacements of the builtins `names` where it can; None
    without such calls. Equal code in two files has equal changes."""
    calls = [call for call in _replaceable_calls(code, names) if _has_room(code, call.load)]
    if not calls:
        return None
    called = sorted({call.name for call in calls})
    first = len(code.co_consts)
    if first + len(called) > 255:  # the indices need longer instructions
        return None
    text = bytearray(code.co_code)
    for call in calls:
        step = instructions(code)[call.load]
        load = _load_function(first + called.index(call.name))
        size = _end_of(code, call.load) - step.offset
        nops = bytes([dis.opmap["NOP"], 0]) * ((size - len(load)) // 2)
        text[step.offset:step.offset + size] = load + nops
    functions = tuple([_REPLACEMENTS[name] for name in called])
    return _Changes(bytes(text), (*code.co_consts, *functions))


def _load_function(index: int) -> bytes:
    """Instructions that load the constant with this index to call it."""
    load = bytes([dis.opmap["LOAD_CONST"], index])
    if sys.version_info < (3, 11):
        return load
    null = bytes([dis.opmap["PUSH_NULL"], 0])
    return load + null if sys.version_info >= (3, 13) else null + load


def _end_of(code: types.CodeType, n: int) -> int:
    """The offset behind an instruction and its inline caches."""
    steps = instructions(code)
    return steps[n + 1].offset if n + 1 < len(steps) else len(code.co_code)


def _has_room(code: types.CodeType, n: int) -> bool:
    """True if an instruction that loads a function can be replaced in its place."""
    steps = instructions(code)
    step = steps[n]
    pushes_null = sys.version_info < (3, 11) or bool((step.arg or 0) & 1)
    return pushes_null and (n == 0 or steps[n - 1].opname != "EXTENDED_ARG")


# ---- the uses of results
def _replaceable_calls(code: types.CodeType, names: frozenset[str]) -> list[_Call]:
    """The calls of builtins whose results are only used as the replacements allow."""
    return [_Call(n, name) for name in sorted(names) for n, call, slot in _calls_of(code, name)
            if _ALLOWED_USES.get(name, _begins_for)(code, call, slot)]


def _calls_of(code: types.CodeType, name: str) -> Iterator[tuple[int, int, int]]:
    """The calls of a global: the indices of the instructions that load and call it, and the stack
    slot of the function and of its result."""
    depths = depths_of(code) or {}
    for n, step in enumerate(instructions(code)):
        if step.opname == "LOAD_GLOBAL" and step.argval == name and step.offset in depths:
            slot = depths[step.offset]
            call = consumer(code, n, slot)
            if call is not None and _calls_slot(code, call, slot):
                yield n, call, slot


def _begins_for(code: types.CodeType, n: int, slot: int) -> bool:
    """True if the value that instruction `n` leaves in a stack slot begins a `for`."""
    m = consumer(code, n, slot)
    return m is not None and instructions(code)[m].opname == "GET_ITER"


@functools.lru_cache(maxsize=1024)
def _loops_over_ranges(code: types.CodeType) -> frozenset[int]:
    """The indices of the calls of `range` that begin a `for`."""
    return frozenset(call for _, call, slot in _calls_of(code, "range")
                     if _begins_for(code, call, slot))


def _calls_slot(code: types.CodeType, n: int, slot: int) -> bool:
    """True if an instruction calls the function in a stack slot, which is the lowest that it pops;
    an argument lies above the function."""
    step, depths = instructions(code)[n], depths_of(code) or {}
    return step.opname.startswith("CALL") and depths[step.offset] - popped(step) == slot


def _is_tested(code: types.CodeType, n: int, slot: int) -> bool:
    """True if the next use of the value that instruction `n` leaves in a stack slot tests its
    truth."""
    m = consumer(code, n, slot)
    return m is not None and instructions(code)[m].opname.startswith(_TRUTH_TESTS)


def _only_compared(code: types.CodeType, n: int, slot: int,
                   variables: frozenset[str] = frozenset()) -> bool:
    """True if the value that instruction `n` leaves in a stack slot is only computed with and
    compared."""
    m = consumer(code, n, slot)
    if m is None:
        return False
    step = instructions(code)[m]
    if step.opname.startswith(_TESTS) or m in _loops_over_ranges(code) or _is_shown(code, m, slot):
        return True
    if step.opname.startswith(_ARITHMETIC) and step.opname not in _NO_ARITHMETIC:
        return _only_compared(code, m, slot, variables)
    if step.opname not in _STORES:
        return False
    name = step.argval if isinstance(step.argval, str) else step.argval[0]
    return name in variables or _variable_is_compared(code, name, variables | {name})


def _is_shown(code: types.CodeType, n: int, slot: int) -> bool:
    """True if an instruction makes text of the value in a stack slot, or prints or logs it."""
    step = instructions(code)[n]
    if step.opname.startswith(_FORMATS):
        return True
    base = depths_of(code)[step.offset] - popped(step)  # type: ignore[index]
    callee = callee_of(code, n, base) if step.opname in _CALLS and slot > base else None
    if callee is None:
        return False
    load = instructions(code)[callee]
    return load.argval in (_SHOWING if load.opname == "LOAD_GLOBAL" else
                           _LOGGING if load.opname in ("LOAD_METHOD", "LOAD_ATTR") else ())


def _variable_is_compared(code: types.CodeType, name: str, variables: frozenset[str]) -> bool:
    """True if all reads of a local variable are computed with and compared."""
    if name in code.co_cellvars:
        return False
    depths = depths_of(code) or {}
    for n, step in enumerate(instructions(code)):
        for slot in _slots_read_into(step, name, depths.get(step.offset, 0)):
            if not _only_compared(code, n, slot, variables):
                return False
    return True


def _slots_read_into(step: dis.Instruction, name: str, depth: int) -> list[int]:
    """The stack slots into which an instruction loads a local variable, from this stack depth."""
    if not step.opname.startswith("LOAD_FAST") and step.opname != "STORE_FAST_LOAD_FAST":
        return []
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    first = depth if step.opname.startswith("LOAD") else depth - 2
    return [first + i for i, read in enumerate(names)
            if read == name and (i or step.opname.startswith("LOAD"))]


# The uses of the results of builtins with which their calls are replaced; `_begins_for` for others.
_ALLOWED_USES: dict[str, Callable[[types.CodeType, int, int], bool]] = {
    "bool": _is_tested, "float": _only_compared, "int": _only_compared,
    "len": lambda code, n, slot: True}
