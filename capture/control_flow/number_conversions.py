"""Keeps `float(t)` and `int(t)` symbolic during a trace, where code only computes and compares.

`t.item()` returns a symbolic number, but `float` and `int` return exact floats and ints. A run that
depends on such a number fits calls with the same value only. So a trace replaces the two names in
the globals of user modules. The replacement looks at its caller: if the result goes only into
arithmetic, comparisons, and local variables, it is symbolic. Otherwise it is what Python gives.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import math
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ...eager import interpreter
from ...eager.core.tensor import Tensor
from ..heap.bytecode import instruction_index_at, instructions, is_jump
from ..scalars.symbolic_scalar import SymbolicScalar
from .operand_stack import depths_of, popped

_LOCK = threading.Lock()
_patches: Counter[tuple[int, str]] = Counter()  # by id of the globals, and name
_TESTS = ("COMPARE_OP", "POP_JUMP", "TO_BOOL", "UNARY_NOT")
_ARITHMETIC = ("BINARY_", "INPLACE_", "UNARY_NEGATIVE", "UNARY_POSITIVE")
_NO_ARITHMETIC = ("BINARY_SUBSCR", "BINARY_SLICE")
_STORES = ("STORE_FAST", "STORE_FAST_LOAD_FAST")


class ConversionPatches:
    """The modules in which one trace has replaced `float` and `int`."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], dict[str, Any]] = {}

    def add(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """Replaces the names in the globals of code that needs it."""
        if not compared_calls(code):
            return
        for name in PROXIES.keys() & set(code.co_names):
            key = id(scope), name
            if key not in self._names and (name not in scope or scope[name] is PROXIES[name]):
                self._replace(name, scope)

    def _replace(self, name: str, scope: dict[str, Any]) -> None:
        with _LOCK:
            self._names[id(scope), name] = scope
            _patches[id(scope), name] += 1
            scope[name] = PROXIES[name]

    def remove(self) -> None:
        """Restores all modules."""
        while self._names:
            key, scope = self._names.popitem()
            with _LOCK:
                _patches[key] -= 1
                if not _patches[key] and scope.get(key[1]) is PROXIES[key[1]]:
                    del scope[key[1]]

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """A context in which the modules are as they were before."""
        names = dict(self._names)
        self.remove()
        try:
            yield
        finally:
            for (_, name), scope in names.items():
                self._replace(name, scope)


def _symbolic(convert: Callable[..., Any], x: Any, frame: Any) -> SymbolicScalar | None:
    """The symbolic number of a tensor or number, if the caller only compares the result."""
    if type(x) is not SymbolicScalar and not (
            isinstance(x, Tensor) and interpreter.STATE.active is not None and x.ndim == 0):
        return None
    calls = compared_calls(frame.f_code)
    if not calls or instructions(frame.f_code)[
            instruction_index_at(frame.f_code, frame.f_lasti)].offset not in calls:
        return None
    number = x.item() if isinstance(x, Tensor) else x
    return number if type(number) is SymbolicScalar else None


def traced_float(x: Any = 0.0, /) -> Any:
    """float(x), or a symbolic float."""
    number = _symbolic(float, x, sys._getframe(1))
    if number is None:
        return float(x)
    return number if type(number.value) is float else number + 0.0


def traced_int(*args: Any, **kwargs: Any) -> Any:
    """int(...), or a symbolic int."""
    number = _symbolic(int, args[0], sys._getframe(1)) if len(args) == 1 and not kwargs else None
    if number is None:
        return int(*args, **kwargs)
    return number if type(number.value) is int else math.trunc(number)


PROXIES: dict[str, Callable[..., Any]] = {"float": traced_float, "int": traced_int}


# ---- the uses of results
@functools.lru_cache(maxsize=4096)
def compared_calls(code: types.CodeType) -> frozenset[int]:
    """The offsets of the calls of `float` and `int` whose results are only computed with and
    compared."""
    depths = depths_of(code)
    if depths is None or PROXIES.keys().isdisjoint(code.co_names):
        return frozenset()
    calls = []
    for n, step in enumerate(instructions(code)):
        if step.opname == "LOAD_GLOBAL" and step.argval in PROXIES and step.offset in depths:
            call = _consumer(code, n, depths[step.offset])
            if call is not None and instructions(code)[call].opname.startswith("CALL"):
                calls.append((call, depths[step.offset]))
    return frozenset(instructions(code)[call].offset for call, slot in calls
                     if _only_compared(code, call, slot, frozenset()))


def _consumer(code: types.CodeType, n: int, slot: int) -> int | None:
    """The index of the instruction that pops the stack slot which instruction `n` has filled; None
    if there is a jump before it."""
    depths = depths_of(code) or {}
    for m, step in enumerate(instructions(code)[n + 1:], n + 1):
        if step.offset not in depths:
            return None
        if depths[step.offset] - popped(step) <= slot:
            return m
        if is_jump(step):
            return None
    return None


def _only_compared(code: types.CodeType, n: int, slot: int, variables: frozenset[str]) -> bool:
    """True if the value that instruction `n` leaves in a stack slot is only computed with and
    compared."""
    m = _consumer(code, n, slot)
    if m is None:
        return False
    step = instructions(code)[m]
    if step.opname.startswith(_TESTS):
        return True
    if step.opname.startswith(_ARITHMETIC) and step.opname not in _NO_ARITHMETIC:
        return _only_compared(code, m, slot, variables)
    if step.opname not in _STORES:
        return False
    name = step.argval if isinstance(step.argval, str) else step.argval[0]
    return name in variables or _variable_is_compared(code, name, variables | {name})


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
