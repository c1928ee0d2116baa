"""The machine state of running Python code: what the frames of the user hold at a decision.

Two visits of one decision with equal state go on in the same way, but for the values of tensors and
of symbols. So a loop needs no look at the code: it is a state that comes again.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.core.tracer import Traced
from ..graph.graph import param_key
from ..heap.code_tracker import followed
from ..heap.introspection import attributes
from ..heap.snapshot import FIXED, is_plain
from ..scalars.symbolic_scalar import SymbolicScalar
from ..sizes.symbolic_dim import Dim
from .operand_stack import only_locals_change

_MOST = 2000  # values of a state; a larger one is not compared
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
Name = tuple[int, str]  # a local variable: number of the frame, and its name


def user_frames(base: Any) -> list[Any]:
    """The frames of followed code, innermost first, that run since `base` did."""
    found = []
    frame: Any = sys._getframe(1)
    while frame is not None and frame is not base:
        if followed(frame.f_code):
            found.append(frame)
        frame = frame.f_back
    return found


def location_of(frames: list[Any]) -> tuple[Any, ...]:
    """Where each of them stands."""
    return tuple((f.f_code, f.f_lasti) for f in frames)


def may_come_again(frames: list[Any], known: Collection[int] = ()) -> bool:
    """Whether all that can differ the next time is in local variables, or in iterators which are
    taken from at these instructions. Only the innermost frame
    matters: those around it stand still until it has ended, but for the callers of a generator."""
    code = frames[0].f_code if frames else None
    return code is not None and not code.co_flags & GENERATORS \
        and only_locals_change(code, frames[0].f_lasti, frozenset(known))


def put_local(frame: Any, name: str, value: Any) -> None:
    """Gives a local variable of a running frame another value."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # where f_locals is a copy
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


class Snapshot:
    """State as one comparable value, with its tensors and numbers apart, in order of discovery."""

    def __init__(self, frames: list[Any], changes: Iterator[tuple[Any, Any]],
                 owned: dict[int, Any], stale: Callable[[SymbolicScalar], bool],
                 names: Sequence[Collection[str] | None] = (),
                 counted: Sequence[Any] = ()) -> None:
        """`names`: the local variables that matter, of each frame; None for all. `counted`: the
        iterators on their stacks whose state is known."""
        self.frames = frames
        self.tensors: list[Tensor] = []
        self.plains: dict[Name, Any] = {}  # ints and floats of local variables
        self.symbols: dict[Name, SymbolicScalar] = {}
        self.equal = True  # whether it can be equal to another one
        self._owned, self._stale = owned, stale
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []  # ids stay taken
        self.locals = [dict(f.f_locals) for f in frames]
        for wanted, found in zip(names, self.locals):
            for name in () if wanted is None else found.keys() - set(wanted):
                del found[name]
        parts = [self._frame(i, names) for i, names in enumerate(self.locals)]
        self.counted = {(frames.index(c.frame), f"for {c.offset}"): c for c in counted}
        parts += [self._iterated(name, c) for name, c in self.counted.items()]
        parts += [(path, self._value(now)) for path, now in changes]
        self.structure = tuple(parts)
        self.arrays = [t._data for t in self.tensors]

    def rebound(self, other: Snapshot) -> bool:
        """Whether a local variable names another object: a sign that its frame has gone on."""
        return any(a.get(name) is not value for a, b in zip(self.locals, other.locals)
                   for name, value in b.items())

    def _frame(self, i: int, names: dict[str, Any]) -> Any:
        found = []
        for name, value in sorted(names.items()):
            if type(value) is SymbolicScalar:
                self.symbols[i, name] = value
                found.append((name, "number"))
            elif type(value) in (int, float):
                self.plains[i, name] = value
                found.append((name, "number"))
            else:
                found.append((name, self._value(value)))
        return tuple(found)

    def _iterated(self, name: Name, counted: Any) -> Any:
        """An iterator of a `for`: how far it is, is a number like those of local variables."""
        if type(counted.count) is SymbolicScalar:
            self.symbols[name] = counted.count
        else:
            self.plains[name] = counted.count
        return name, counted.kind, counted.limit, counted.step, self._value(counted.tensors)

    def put(self, name: Name, value: Any) -> None:
        """Gives the running code another number in the place of this one."""
        if name in self.counted:
            self.counted[name].count = value
        else:
            put_local(self.frames[name[0]], name[1], value)

    def _value(self, value: Any) -> Any:
        self._held.append(value)
        if len(self._held) > _MOST:
            self.equal = False
            return None
        if type(value) is SymbolicScalar:
            self.equal = self.equal and not self._stale(value)
            return "formula", value.formula
        if type(value) is Dim:
            return "size", value.expr
        if is_plain(value):
            return "plain", type(value), _key(value)
        if id(value) in self._seen:
            return "seen", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        if isinstance(value, Tensor):
            return self._tensor(value)
        return self._object(value)

    def _tensor(self, tensor: Tensor) -> Any:
        self.tensors.append(tensor)
        array = tensor._data
        if isinstance(array, Traced):  # a transform stands around the loop
            self.equal = False
            return None
        gradient = None if tensor._grad is None else self._value(tensor._grad)
        return "tensor", array.shape, array.dtype, tensor.edge is None, gradient

    def _object(self, value: Any) -> Any:
        kind = type(value)
        if kind in (list, tuple):
            return kind, tuple(self._value(v) for v in value)
        if kind is dict:
            return kind, tuple((self._key_of(k), self._value(v)) for k, v in value.items())
        if kind in (set, frozenset):
            return kind, frozenset(self._key_of(v) for v in value)
        if hasattr(kind, "__next__"):
            return self._iterator(value)
        if id(value) in self._owned or isinstance(value, (*FIXED, types.CodeType)):
            return "object", id(value)  # its contents are among the changes, if they change
        if kind is types.FunctionType:
            cells = tuple(self._cell(c) for c in value.__closure__ or ())
            return "function", value.__code__, cells
        if kind is types.MethodType:
            return "method", id(value.__func__), self._value(value.__self__)
        if _is_closed(value):
            self.equal = False  # nobody can tell what it holds
            return None
        inside = tuple((n, self._value(v)) for n, v in attributes(value).items())
        return "object", id(value), inside

    def _cell(self, cell: Any) -> Any:
        try:
            return self._value(cell.cell_contents)
        except ValueError:
            return "empty"

    def _iterator(self, value: Any) -> Any:
        """Iterators over lists and ranges tell how far they are; others do not."""
        if type(value).__module__ != "builtins" or isinstance(value, types.GeneratorType):
            self.equal = False
            return None
        try:
            return "iterator", self._value(tuple(value.__reduce__()))
        except TypeError:
            self.equal = False
            return None

    def _key_of(self, key: Any) -> Any:
        return (type(key), _key(key)) if is_plain(key) else id(key)


def _key(value: Any) -> Any:
    return param_key(value) if isinstance(value, float) else \
        repr(value) if isinstance(value, (slice, complex)) else value


def _is_closed(value: Any) -> bool:
    """Whether an object has contents that are no attributes."""
    cls = type(value)
    return not (hasattr(value, "__dict__") or any("__slots__" in c.__dict__ for c in cls.__mro__))
