"""`for t in range(n)` and `for row in x` over sizes that vary: how far such a loop is, is a number.

While a function is recorded for export, `range` of a number that varies gives a `Range`, and a
tensor whose first size varies gives its rows by number. Each turn asks whether there is another, so
a `for` is a loop like any other; its iterator, which Python keeps on its stack, is state of it.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import operator
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ..eager import interpreter
from .bytecode import instructions, number_at
from .dims import decided, formula
from .formulas import Formula
from .frames import GENERATORS
from .hook import followed
from .numbers import SYMBOLS, Number, formula_of, plain
from .operands import tells_symbols

_RANGE = builtins.range


class Counted:
    """The iterator of a `for`: how far it is, where it ends, and the tensor whose rows it gives."""

    def __init__(self, recorder: Any, limits: tuple[Any, Any, int], tensor: Any = None) -> None:
        self.recorder, self.tensor = recorder, tensor
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
        return iter(counts if self.tensor is None else [self.tensor[i] for i in counts])

    @property
    def is_open(self) -> bool:
        """Whether its frame is still inside of the loop."""
        steps = instructions(self.frame.f_code)
        end = steps[number_at(self.frame.f_code, self.offset)].argval
        return bool(self.offset <= self.frame.f_lasti < end)

    def question(self) -> tuple[Formula, bool]:
        """Whether there is another turn, and the answer in this run."""
        name = "lt" if self.step > 0 else "gt"
        answer = getattr(operator, name)(plain(self.count), plain(self.stop))
        return Formula(name, (formula_of(self.count), self.limit)), answer

    @property
    def surely_begins(self) -> bool:
        """Whether there is a first turn for all sizes."""
        if Number in (type(self.start), type(self.stop)):
            return False
        ahead = formula(self.stop) - formula(self.start)
        return bool(decided("lt", -ahead if self.step > 0 else ahead))

    def __next__(self) -> Any:
        if self.frame is None:
            return next(self._plain)
        if not self.recorder.goes_on(self):
            raise StopIteration
        at, self.count = self.count, self.count + self.step
        return at if self.tensor is None else self.tensor[at]


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


class _Ranges(type):
    """Calls of `range` while functions are recorded for export."""

    def __call__(cls, *limits: Any) -> Any:
        recorder = _recorder()
        if recorder is None or not any(type(n) in SYMBOLS for n in limits) or \
                not all(type(plain(n)) is int for n in limits):
            return _RANGE(*limits)
        start, stop, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
        if type(step) is not int or step == 0:
            return _RANGE(*limits)
        return Range(recorder, start, stop, step)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (_RANGE, Range))


class _Range(metaclass=_Ranges):
    """Stands in the place of Python's `range`."""


def _rows(tensor: Any, frame: Any) -> Counted | None:
    recorder = _recorder()
    if recorder is None or not tensor.ndim or type(tensor.shape[0]) is int:
        return None
    return Counted(recorder, (0, tensor.shape[0], 1), tensor).counting(frame)


_LOCK = threading.Lock()
_recording = 0


@contextlib.contextmanager
def ranges() -> Iterator[None]:
    """A context in which a `for` over sizes that vary is a loop of what is recorded."""
    global _recording
    with _LOCK:
        _recording += 1
        builtins.range, interpreter.rows = _Range, _rows  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        with _LOCK:
            _recording -= 1
            if not _recording:
                builtins.range, interpreter.rows = _RANGE, None  # type: ignore[misc]
