"""`for t in range(n)` and `for row in x` over sizes that vary: how far such a loop is, is a number.

While a function is recorded for export, `range` of a number that varies gives a `Range` (see
`lending.py`), and tensors whose first size varies give their rows by number, in `enumerate` and
`zip` as well. Each turn asks whether there is another, so a `for` is a loop like any other; its
iterator, which Python keeps on its stack, is state of it.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...eager import interpreter
from ...eager.core.tensor import Tensor
from ..heap.bytecode import instructions, number_at
from ..heap.code_tracker import followed
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import SYMBOLS, SymbolicScalar, formula_of, plain_value
from ..sizes.symbolic_dim import decided, size_expr_of
from .frame_state import GENERATORS
from .operand_stack import tells_symbols

_RANGE, _ENUMERATE, _ZIP = range, enumerate, zip


class Counted:
    """The iterator of a `for`: how far it is, where it ends, and what it makes of these numbers
    and the tensors whose rows it gives."""

    def __init__(self, recorder: Any, limits: tuple[Any, Any, int], tensors: tuple[Any, ...] = (),
                 element: Callable[[Any], Any] = lambda at: at, kind: Any = "range") -> None:
        self.recorder, self.tensors, self.element, self.kind = recorder, tensors, element, kind
        self.start, self.stop, self.step = limits
        self.count = recorder.symbol(self.start)
        self.limit = formula_of(self.stop)
        self.frame: Any = None  # whose `for` it is
        self.offset = 0  # of the instruction that takes the next element
        self.begun: int | None = None  # how long the path was when its first turn was told apart

    def __iter__(self) -> Iterator[Any]:
        return self.counting(sys._getframe(1)) or self._plain

    def counting(self, frame: Any) -> Counted | None:
        """Itself, where a frame begins a `for` over it now; None where it does anything else."""
        offset = _for_in(frame) if self.frame is None else None
        if offset is None:
            return None
        self.frame, self.offset = frame, offset
        return self

    @functools.cached_property
    def _plain(self) -> Iterator[Any]:
        """All elements, of sizes that are fixed by that."""
        counts = _RANGE(*map(operator.index, (self.start, self.stop, self.step)))
        return map(self.element, counts)

    @property
    def is_open(self) -> bool:
        """Whether its frame is still inside of the loop."""
        steps = instructions(self.frame.f_code)
        end = steps[number_at(self.frame.f_code, self.offset)].argval
        return bool(self.offset <= self.frame.f_lasti < end)

    def question(self) -> tuple[ScalarExpr, bool]:
        """Whether there is another turn, and the answer in this run."""
        name = "lt" if self.step > 0 else "gt"
        answer = getattr(operator, name)(plain_value(self.count), plain_value(self.stop))
        return ScalarExpr(name, (formula_of(self.count), self.limit)), answer

    @property
    def surely_begins(self) -> bool:
        """Whether there is a first turn for all sizes."""
        if SymbolicScalar in (type(self.start), type(self.stop)):
            return False
        ahead = size_expr_of(self.stop) - size_expr_of(self.start)
        return bool(decided("lt", -ahead if self.step > 0 else ahead))

    def __next__(self) -> Any:
        if self.frame is None:
            return next(self._plain)
        if not self.recorder.goes_on(self):
            raise StopIteration
        at, self.count = self.count, self.count + self.step
        return self.element(at)


def _for_in(frame: Any) -> int | None:
    """Where a frame takes the elements of a `for` that begins now; None where it does anything
    else, or what the loop carries could not be told."""
    code = frame.f_code
    if not followed(code) or code.co_flags & GENERATORS or tells_symbols(code):
        return None
    steps, n = instructions(code), number_at(code, frame.f_lasti)
    if steps[n].opname != "GET_ITER" or steps[n + 1].opname not in ("FOR_ITER", "EXTENDED_ARG"):
        return None
    return next((s.offset for s in steps[n + 1:n + 4] if s.opname == "FOR_ITER"), None)


class Range:
    """A range whose limits vary. All but a `for` over it makes it a plain one."""

    def __init__(self, recorder: Any, start: Any, stop: Any, step: int) -> None:
        self._recorder, self._limits = recorder, (start, stop, step)

    @property
    def plain(self) -> range:
        """It with the sizes at hand, which are fixed by that."""
        return _RANGE(*map(operator.index, self._limits))

    def __iter__(self) -> Iterator[int]:
        counted = Counted(self._recorder, self._limits)
        return counted.counting(sys._getframe(1)) or iter(self.plain)

    def __reversed__(self) -> Iterator[int]:
        start, stop, step = self._limits
        if abs(step) != 1:
            return reversed(self.plain)
        return Counted(self._recorder, (stop - step, start - step, -step))

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: Any) -> Any:
        return self.plain[index]

    def __contains__(self, value: Any) -> bool:
        return value in self.plain

    def __eq__(self, other: object) -> bool:
        return self.plain == (other.plain if isinstance(other, Range) else other)

    def __hash__(self) -> int:
        return hash(self.plain)

    def __repr__(self) -> str:
        return repr(self.plain)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.plain, name)


def _recorder() -> Any:
    """Who records a function for export in this thread; None for nobody."""
    active: Any = interpreter.STATE.active
    return active if getattr(active, "counts", False) and active.listening else None


def _range(recorder: Any, *limits: Any) -> Range | None:
    """What `range` gives for numbers that vary; None for plain ones."""
    if not any(type(n) in SYMBOLS for n in limits) or \
            not all(type(plain_value(n)) is int for n in limits):
        return None
    start, stop, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
    if type(step) is not int or step == 0:
        return None
    return Range(recorder, start, stop, step)


def _size(x: Any) -> Any:
    """The first size of a tensor, where it varies."""
    size = x.shape[0] if isinstance(x, Tensor) and x.ndim else None
    return size if type(size) in SYMBOLS else None


def _enumerate(recorder: Any, x: Any, start: Any = 0) -> Counted | None:
    size = _size(x)
    return None if size is None or type(start) is not int else Counted(
        recorder, (0, size, 1), (x,), lambda at: (start + at, x[at]), ("enumerate", start))


def _zip(recorder: Any, *xs: Any, strict: bool = False) -> Counted | None:
    sizes = list(map(_size, xs))
    if not sizes or None in sizes or any(size_expr_of(n) != size_expr_of(sizes[0]) for n in sizes):
        return None
    return Counted(recorder, (0, sizes[0], 1), xs, lambda at: tuple([x[at] for x in xs]), "zip")


class _Standing(type):
    """A class of Python's while functions are recorded for export: what it makes of what varies."""

    plain: type
    also: type
    made: Callable[..., Any]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        recorder = _recorder()
        found = None
        if recorder is not None and args:
            found = cls.made(recorder, *args, **options)
        return cls.plain(*args, **options) if found is None else found

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (cls.plain, cls.also))


def _standing(plain: type, also: type, made: Callable[..., Any]) -> Any:
    return _Standing(plain.__name__, (), {"plain": plain, "also": also,
                                          "made": staticmethod(made)})


# What these names of Python's mean while functions are recorded for export.
STANDING: Mapping[str, Any] = {
    "range": _standing(_RANGE, Range, _range),
    "enumerate": _standing(_ENUMERATE, Counted, _enumerate),
    "zip": _standing(_ZIP, Counted, _zip),
}


def rows(x: Any, frame: Any) -> Counted | None:
    """The rows of a tensor whose first size varies, where a frame begins a `for` over them."""
    recorder = _recorder()
    size = None if recorder is None else _size(x)
    if size is None:
        return None
    return Counted(recorder, (0, size, 1), (x,), lambda at: x[at], "rows").counting(frame)
