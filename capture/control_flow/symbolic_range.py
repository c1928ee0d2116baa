"""Traces `for t in range(n)` and `for row in x` over dynamic sizes as loops.

During a trace, `range` of a dynamic number returns a `SymbolicRange` (see `symbolic_builtins` and,
for export, `builtin_patching`), and tensors with a dynamic first size yield their rows by index, in
`enumerate`, `zip` and `reversed` as well. Each iteration decides if there is another one, so a
`for` becomes a loop like any other. The position of its iterator, which lies on Python's stack, is
part of the loop's state.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...eager import interpreter
from ...eager.core.tensor import Tensor
from ..heap.bytecode import instruction_index_at, instructions
from ..heap.code_tracker import followed
from ..heap.operand_stack import tells_symbols_apart
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import SYMBOLS, SymbolicScalar, formula_of, plain_value
from ..sizes.symbolic_dim import decided, size_expr_of
from .frame_state import GENERATORS

_RANGE, _ENUMERATE, _ZIP, _REVERSED = range, enumerate, zip, reversed


class _ForIterator:
    """The iterator of a `for`, which knows the frame and the instruction that takes its elements.
    """

    tensors: tuple[Any, ...]  # the values of its iterations
    frame: Any = None  # the frame of the `for`
    offset = 0  # of the instruction that takes the next element

    def begins_for(self, frame: Any) -> bool:
        """True if the frame begins a `for` over this iterator now."""
        offset = _for_offset(frame) if self.frame is None else None
        if offset is None:
            return False
        self.frame, self.offset = frame, offset
        return True

    @property
    def is_in_loop(self) -> bool:
        """True if the frame is inside the loop."""
        steps = instructions(self.frame.f_code)
        end = steps[instruction_index_at(self.frame.f_code, self.offset)].argval
        return bool(self.offset <= self.frame.f_lasti < end)


class PositionedIterator(_ForIterator):
    """The iterator of a `for` whose length does not vary. Python hides the position of its own
    iterators; paths of a branch can merge in a later iteration if their positions are equal."""

    def __init__(self, tracer: Any, plain: Iterator[Any], iterated: tuple[Any, ...]) -> None:
        self.tracer, self.tensors, self.count, self._plain = tracer, iterated, 0, plain

    def __iter__(self) -> Iterator[Any]:
        return self.begin_for(sys._getframe(1)) or self

    def begin_for(self, frame: Any) -> PositionedIterator | None:
        """This iterator if the frame begins a `for` over it now, else None."""
        if not self.begins_for(frame):
            return None
        self.tracer.merger.note_iterator(self)
        return self

    def __next__(self) -> Any:
        element = next(self._plain)
        self.count += 1
        return element


class SymbolicIterator(_ForIterator):
    """The iterator of a `for` over a dynamic size: its position (`count`), its limits, and the
    function that makes the element at a position."""

    def __init__(self, tracer: Any, limits: tuple[Any, Any, int], tensors: tuple[Any, ...] = (),
                 element: Callable[[Any], Any] = lambda at: at, kind: Any = "range") -> None:
        self.tracer, self.tensors, self.element, self.kind = tracer, tensors, element, kind
        self.start, self.stop, self.step = limits
        self.count = tracer.symbol(self.start)
        self.limit = formula_of(self.stop)
        self.peeled_at: int | None = None  # length of the path at its peeled iteration
        self.is_finished = False

    def __iter__(self) -> Iterator[Any]:
        return self.begin_for(sys._getframe(1)) or self._plain

    def begin_for(self, frame: Any) -> SymbolicIterator | None:
        """This iterator if the frame begins a `for` over it now, else None."""
        return self if self.begins_for(frame) else None

    @functools.cached_property
    def _plain(self) -> Iterator[Any]:
        """All elements; specializes the sizes."""
        counts = _RANGE(*map(operator.index, (self.start, self.stop, self.step)))
        return map(self.element, counts)

    def condition(self) -> tuple[ScalarExpr, bool]:
        """The loop condition as an expression, and its outcome in this run."""
        name = "lt" if self.step > 0 else "gt"
        outcome = getattr(operator, name)(plain_value(self.count), plain_value(self.stop))
        return ScalarExpr(name, (formula_of(self.count), self.limit)), outcome

    @property
    def has_first_iteration(self) -> bool:
        """True if the loop has a first iteration for all sizes."""
        if SymbolicScalar in (type(self.start), type(self.stop)):
            return False
        ahead = size_expr_of(self.stop) - size_expr_of(self.start)
        return bool(decided("lt", -ahead if self.step > 0 else ahead))

    def __next__(self) -> Any:
        if self.frame is None:
            return next(self._plain)
        if not self.tracer.loop_continues(self):
            self.is_finished = True
            raise StopIteration
        at, self.count = self.count, self.count + self.step
        return self.element(at)


def _for_offset(frame: Any) -> int | None:
    """The offset of FOR_ITER if the frame begins a `for` now; None if it does anything else, or
    if the values that the loop carries cannot be determined."""
    code = frame.f_code
    if not followed(code) or code.co_flags & GENERATORS or tells_symbols_apart(code):
        return None
    steps, n = instructions(code), instruction_index_at(code, frame.f_lasti)
    if steps[n].opname != "GET_ITER" or steps[n + 1].opname not in ("FOR_ITER", "EXTENDED_ARG"):
        return None
    return next((s.offset for s in steps[n + 1:n + 4] if s.opname == "FOR_ITER"), None)


class SymbolicRange:
    """A range with dynamic limits. Every use other than a `for` makes it a plain range."""

    def __init__(self, tracer: Any, start: Any, stop: Any, step: int) -> None:
        self._active_tracer, self._limits = tracer, (start, stop, step)

    @property
    def plain(self) -> range:
        """The range with the sizes of this run; specializes them."""
        return _RANGE(*map(operator.index, self._limits))

    def __iter__(self) -> Iterator[int]:
        counted = SymbolicIterator(self._active_tracer, self._limits)
        return counted.begin_for(sys._getframe(1)) or iter(self.plain)

    def __reversed__(self) -> Iterator[int]:
        start, stop, step = self._limits
        sign = 1 if step > 0 else -1
        last = stop - step if step == sign else start + (stop - start - sign) // step * step
        return SymbolicIterator(self._active_tracer, (last, start - step, -step))

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: Any) -> Any:
        return self.plain[index]

    def __contains__(self, value: Any) -> bool:
        return value in self.plain

    def __eq__(self, other: object) -> bool:
        return self.plain == (other.plain if isinstance(other, SymbolicRange) else other)

    def __hash__(self) -> int:
        return hash(self.plain)

    def __repr__(self) -> str:
        return repr(self.plain)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.plain, name)


def _active_tracer() -> Any:
    """The tracer that is active in this thread, if it traces loops over dynamic sizes, or None."""
    active: Any = interpreter.STATE.active
    return active if getattr(active, "counts", False) and active.listening else None


def _range(tracer: Any, *limits: Any) -> SymbolicRange | None:
    """The `SymbolicRange` for dynamic limits; None for plain ones."""
    if not any(type(n) in SYMBOLS for n in limits) or \
            not all(type(plain_value(n)) is int for n in limits):
        return None
    start, stop, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
    if type(step) is not int or step == 0:
        return None
    return SymbolicRange(tracer, start, stop, step)


def _dynamic_size(x: Any) -> Any:
    """The first size of a tensor if it is dynamic, else None."""
    size = x.shape[0] if isinstance(x, Tensor) and x.ndim else None
    return size if type(size) in SYMBOLS else None


def _positioned(tracer: Any, plain: Iterator[Any], *iterated: Any) -> PositionedIterator | None:
    """An iterator with a position; None if paths do not merge in this run."""
    return None if tracer.merger is None else PositionedIterator(tracer, plain, iterated)


def _rows_of(x: Any) -> Any:
    """The tensor that holds the rows of a sequence; other objects unchanged."""
    joined = x.joined() if isinstance(x, interpreter.Rows) else None
    return x if joined is None else joined


def _enumerate(tracer: Any, x: Any, start: Any = 0) -> _ForIterator | None:
    x = _rows_of(x)
    size = _dynamic_size(x)
    if size is None or type(start) is not int:
        return _positioned(tracer, _ENUMERATE(x, start), x, start)
    return SymbolicIterator(
        tracer, (0, size, 1), (x,), lambda at: (start + at, x[at]), ("enumerate", start))


def _zip(tracer: Any, *xs: Any, strict: bool = False) -> _ForIterator | None:
    xs = tuple(map(_rows_of, xs))
    sizes = list(map(_dynamic_size, xs))
    if not sizes or None in sizes or any(size_expr_of(n) != size_expr_of(sizes[0]) for n in sizes):
        return None if strict else _positioned(tracer, _ZIP(*xs), *xs)
    return SymbolicIterator(tracer, (0, sizes[0], 1), xs, lambda at: tuple([x[at] for x in xs]),
                            "zip")


def _reversed(tracer: Any, x: Any) -> Iterator[Any] | None:
    if isinstance(x, SymbolicRange):
        return reversed(x)
    x = _rows_of(x)
    size = _dynamic_size(x)
    if size is None:
        return _positioned(tracer, _REVERSED(x), x)
    return SymbolicIterator(tracer, (size - 1, -1, -1), (x,), lambda at: x[at], "reversed")


class _BuiltinProxy(type):
    """The class that replaces a builtin class during a trace. Calls on dynamic values
    make a symbolic object; all others call the builtin."""

    plain: type
    symbolic_type: type
    make_symbolic: Callable[..., Any]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        tracer = _active_tracer()
        result = None
        if tracer is not None and args:
            result = cls.make_symbolic(tracer, *args, **options)
        return cls.plain(*args, **options) if result is None else result

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (cls.plain, cls.symbolic_type))


def _proxy(plain: type, symbolic_type: type, make_symbolic: Callable[..., Any]) -> Any:
    return _BuiltinProxy(plain.__name__, (), {"plain": plain, "symbolic_type": symbolic_type,
                                              "make_symbolic": staticmethod(make_symbolic)})


# Replacements for builtins during a trace, by name.
BUILTIN_PROXIES: Mapping[str, Any] = {
    "range": _proxy(_RANGE, SymbolicRange, _range),
    "enumerate": _proxy(_ENUMERATE, _ForIterator, _enumerate),
    "zip": _proxy(_ZIP, _ForIterator, _zip),
    "reversed": _proxy(_REVERSED, _ForIterator, _reversed),
}


def iterated(x: Any, plain: Callable[[], Iterator[Any]], frame: Any) -> Iterator[Any]:
    """An iterator over the rows of a tensor, or over the elements of a container, whose position is
    known, if the frame begins a `for` over them; else plain()."""
    tracer = _active_tracer()
    if tracer is None:
        return plain()
    if _dynamic_size(x) is not None:
        symbolic = SymbolicIterator(tracer, (0, x.shape[0], 1), (x,), lambda at: x[at], "rows")
        return symbolic.begin_for(frame) or plain()
    positioned = _positioned(tracer, plain(), x)
    return (positioned and positioned.begin_for(frame)) or plain()
