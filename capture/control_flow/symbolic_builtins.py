"""Changes the code of functions so that some calls of builtins return symbolic values.

`t.item()` returns a symbolic number, but `float`, `int`, `len` and the functions of `math` return
exact floats and ints. A run that depends on such a number fits calls with the same value only. In
the changed code, they return symbolic numbers and sizes. `bool` leaves its test to the `if` around
it, where paths can merge. In the same way, `range`, `enumerate`, `zip` and `reversed` of a `for`
iterate over dynamic sizes (see `symbolic_range`). All instructions keep their offsets.
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
from ..heap.operand_stack import consumer, depths_of, popped
from ..scalars.math_functions import SYMBOLIC_FUNCTIONS, SYMBOLIC_MATH
from ..scalars.symbolic_scalar import SymbolicScalar
from .symbolic_range import BUILTIN_PROXIES

_TRUTH_TESTS = ("POP_JUMP", "TO_BOOL", "UNARY_NOT")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def with_symbolic_builtins(fn: types.FunctionType) -> types.CodeType:
    """The code of a function with symbolic builtins where possible; its own code if it calls none
    of them."""
    return _symbolic_code(fn.__code__, frozenset(_replaced_globals(fn)), fn.__code__.co_filename)


def _replaced_globals(fn: Any) -> Iterator[tuple[str, str]]:
    """The names of globals and builtins that a function may read, each with the key in
    `_REPLACEMENTS` of the value that takes the place of its value."""
    for name in _names_of(fn.__code__):
        if name in fn.__globals__:
            key = _MATH_KEYS.get(id(fn.__globals__[name]))
            if key is not None:
                yield name, key
        elif name in _BUILTINS and fn.__builtins__.get(name) is getattr(builtins, name):
            yield name, name


def _names_of(code: types.CodeType) -> set[str]:
    """The names that code and the functions in it read."""
    return {*code.co_names}.union(*map(_names_of, _nested_code(code)))


def _nested_code(code: types.CodeType) -> list[types.CodeType]:
    """The code of comprehensions, functions and classes in a function."""
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


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
    return x.size if isinstance(x, interpreter.Rows) else len(x)


def symbolic_sum(x: Any, /, start: Any = 0) -> Any:
    """sum(x, start), in one op for the rows of a tensor."""
    rows = x.joined() if isinstance(x, interpreter.Rows) else None
    return sum(x, start) if rows is None else start + rows.sum(axis=0)


_BUILTINS: dict[str, Callable[..., Any]] = {
    "bool": symbolic_bool, "float": symbolic_float, "int": symbolic_int, "len": symbolic_len,
    "sum": symbolic_sum,
    **BUILTIN_PROXIES}
_REPLACEMENTS: dict[str, Any] = {
    **_BUILTINS, "math": SYMBOLIC_MATH,
    **{f"math.{f.__name__}": symbolic for f, symbolic in SYMBOLIC_FUNCTIONS.items()}}
_MATH_KEYS = {id(math): "math", **{id(f): f"math.{f.__name__}" for f in SYMBOLIC_FUNCTIONS}}


# ---- code
class _Load(NamedTuple):
    """An instruction that loads a global to be replaced: its number, and the key of the value."""

    step: int
    key: str


@functools.lru_cache(maxsize=1024)
def _symbolic_code(code: types.CodeType, names: frozenset[tuple[str, str]], file: str
                   ) -> types.CodeType:
    """Code that loads replacements of the globals `names` where it can, each a name and a key in
    `_REPLACEMENTS`; `code` itself if it loads none. `file`: its file, in which equal code may
    differ."""
    inner = {nested: _symbolic_code(nested, names, file) for nested in _nested_code(code)}
    loads = [load for load in _replaceable_loads(code, names) if _has_room(code, load.step)]
    keys = sorted({load.key for load in loads})
    first = len(code.co_consts)
    if first + len(keys) > 255:  # the indices need longer instructions
        return code
    if not loads and all(nested is copy for nested, copy in inner.items()):
        return code
    text = bytearray(code.co_code)
    for load in loads:
        _replace_load(text, code, load.step, first + keys.index(load.key))
    constants = [inner.get(constant, constant) if isinstance(constant, types.CodeType) else constant
                 for constant in code.co_consts]
    return code.replace(co_code=bytes(text),
                        co_consts=(*constants, *[_REPLACEMENTS[key] for key in keys]))


def _replace_load(text: bytearray, code: types.CodeType, n: int, index: int) -> None:
    """Makes instruction `n`, which loads a global, load the constant `index`."""
    step = instructions(code)[n]
    load = bytes([dis.opmap["LOAD_CONST"], index])
    if sys.version_info >= (3, 11) and _pushes_null(step):
        null = bytes([dis.opmap["PUSH_NULL"], 0])
        load = load + null if sys.version_info >= (3, 13) else null + load
    size = _end_of(code, n) - step.offset
    text[step.offset:step.offset + size] = load + bytes([dis.opmap["NOP"], 0]) * (
        (size - len(load)) // 2)


def _pushes_null(step: dis.Instruction) -> bool:
    """True if an instruction that loads a global prepares a call, too."""
    return bool((step.arg or 0) & 1)


def _end_of(code: types.CodeType, n: int) -> int:
    """The offset behind an instruction and its inline caches."""
    steps = instructions(code)
    return steps[n + 1].offset if n + 1 < len(steps) else len(code.co_code)


def _has_room(code: types.CodeType, n: int) -> bool:
    """True if an instruction that loads a global can be replaced in its place."""
    return n == 0 or instructions(code)[n - 1].opname != "EXTENDED_ARG"


# ---- the uses of globals
def _replaceable_loads(code: types.CodeType, names: frozenset[tuple[str, str]]) -> list[_Load]:
    """The instructions that load a global which is only used as the replacement allows: functions
    that are called, and modules whose attribute is read."""
    loads = []
    for name, key in sorted(names):
        if key == "math":
            loads += [_Load(n, key) for n in _attribute_reads_of(code, name)]
            continue
        allows = _ALLOWED_USES.get(key, _always)
        loads += [_Load(n, key) for n, call, slot in _calls_of(code, name)
                  if allows(code, call, slot) or (key == "range" and ("reversed",) * 2 in names
                                                  and _is_reversed(code, call, slot))]
    return loads


def _always(code: types.CodeType, n: int, slot: int) -> bool:
    return True


def _is_reversed(code: types.CodeType, n: int, slot: int) -> bool:
    """True if the value that instruction `n` leaves in a stack slot is what `reversed` iterates
    over in a `for`."""
    m = consumer(code, n, slot)
    return m is not None and any(call == m and _begins_for(code, call, result)
                                 for _, call, result in _calls_of(code, "reversed"))


def _attribute_reads_of(code: types.CodeType, name: str) -> Iterator[int]:
    """The instructions that load a global of which the next instruction reads an attribute."""
    steps = instructions(code)
    for n, step in enumerate(steps[:-1]):
        if step.opname == "LOAD_GLOBAL" and step.argval == name \
                and steps[n + 1].opname in _ATTRIBUTES:
            yield n


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


# The uses of results of builtins that allow a replacement; all other builtins allow all uses.
_ALLOWED_USES: dict[str, Callable[[types.CodeType, int, int], bool]] = {
    "bool": _is_tested, **dict.fromkeys(BUILTIN_PROXIES, _begins_for)}
