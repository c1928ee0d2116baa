"""Symbolic sizes: `Dim` behaves as an int and holds its expression over the named sizes.

A `Dim` is not an int: C code would silently read the value of a subclass of int (`math.sqrt(n)`,
`range(n)`). Arithmetic returns further `Dim`s. A comparison with the same answer for all sizes
adds nothing; any other is answered for the sizes of the traced call and becomes a condition, which
guards check. A use that needs a plain number fixes the size, and the user's line is recorded.
"""

from __future__ import annotations

import contextlib
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from ...eager.errors import GraphError, user_line
from .size_condition import FixedSize, SizeCondition
from .size_expr import SizeExpr, constant, symbol


class RecordingScope:
    """The context of `ShapeEnv.recording`. A tracer would see the frame of a generator."""

    __slots__ = ("_before", "_live", "_sizes")

    def __init__(self, sizes: ShapeEnv, live: bool) -> None:
        self._sizes, self._live, self._before = sizes, live, False

    def __enter__(self) -> None:
        self._before, self._sizes.live = self._sizes.live, self._live

    def __exit__(self, *error: object) -> None:
        self._sizes.live = self._before


class SizeRecord:
    """The named sizes of one traced call, and the questions that it asked about them."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)
        self.live = False
        self.measured: set[str] = set()  # names of data-dependent sizes
        self.answers: dict[tuple[str, SizeExpr], bool] = {}  # of data-dependent sizes
        self.conditions: dict[tuple[str, SizeExpr], SizeCondition] = {}
        self.fixed: list[FixedSize] = []
        self.printed: list[FixedSize] = []  # sizes that were formatted as text


_T = TypeVar("_T")


class _Current(Generic[_T]):
    """Forwards an attribute of `ShapeEnv` to the current record of this thread."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, sizes: ShapeEnv, owner: type) -> _T:
        return getattr(sizes.record, self._name)  # type: ignore[no-any-return]

    def __set__(self, sizes: ShapeEnv, value: _T) -> None:
        setattr(sizes.record, self._name, value)


class ShapeEnv:
    """The named sizes of a function, and the record of its last traced call.

    While `live`, comparisons become conditions. Afterwards the recorded conditions answer them, and
    `Dim`s compare and hash by their expressions, as graph nodes require. A pass that asks for an
    order that was never asked for still adds a condition.
    """

    values, live, measured = _Current[dict[str, int]](), _Current[bool](), _Current[set[str]]()
    answers = _Current[dict[tuple[str, SizeExpr], bool]]()
    conditions = _Current[dict[tuple[str, SizeExpr], SizeCondition]]()
    fixed, printed = _Current[list[FixedSize]](), _Current[list[FixedSize]]()

    def __init__(self, values: Mapping[str, int]) -> None:
        self._last, self._resumed = SizeRecord(values), threading.local()
        self.number: Callable[[Dim], Any] | None = None  # wraps a size as a symbolic scalar
        # Called with each question about data-dependent sizes: "eq" or "lt" and the answer, or
        # "value" and the number that Python reads.
        self.on_question: Callable[[str, SizeExpr, int], None] | None = None
        # True for a frame of user code that compares sizes in the condition of a loop.
        self.is_loop_test: Callable[[Any], bool] | None = None
        # The text of a size in a message, by `format` with a specification or by `repr`; None if
        # code may look into it. Without this function the text is that of the traced call.
        self.on_text: Callable[[Dim, str | None], str | None] | None = None
        self.on_fix: Callable[[], None] | None = None  # called before a size becomes a plain number
        # Called with a tensor, its reshape, and a size, of which 0 or 1 decides whether the reshape
        # is a view. Without this function the size is guarded.
        self.on_reshape: Callable[[Any, Any, Dim], None] | None = None
        self.closed = False  # True if no size may be fixed: the graph holds for all sizes

    def begin(self, values: Mapping[str, int]) -> None:
        """Starts the record of another call, with these sizes."""
        live = self._last.live
        self._last = SizeRecord(values)
        self._last.live = live

    @property
    def record(self) -> SizeRecord:
        """The record of the last call, or the one that this thread has resumed."""
        return getattr(self._resumed, "record", None) or self._last

    @contextlib.contextmanager
    def resumed(self, record: SizeRecord) -> Iterator[None]:
        """A context in which this thread's questions get the answers of an earlier call."""
        before = getattr(self._resumed, "record", None)
        self._resumed.record = record
        try:
            yield
        finally:
            self._resumed.record = before

    def named(self, name: str) -> Any:
        """The size called `name`."""
        return self.make(symbol(name))

    def measure(self, name: str, value: int) -> Any:
        """The data-dependent size called `name`, with its value in this call; it may be 0."""
        self.values[name] = value
        self.measured.add(name)
        return self.make(symbol(name, 0))

    def is_measured(self, expr: SizeExpr) -> bool:
        """True if an expression depends on a data-dependent size."""
        return bool(self.measured) and not self.measured.isdisjoint(expr.symbols())

    def make(self, expr: SizeExpr) -> Any:
        """The size with this expression: an int if the expression is constant, else a `Dim`."""
        number = expr.number
        return Dim(expr, self) if number is None else number

    def recording(self, live: bool = True) -> RecordingScope:
        """A context in which questions about sizes are recorded, or with `live` false are not."""
        return RecordingScope(self, live)

    def decide(self, relation: str, expr: SizeExpr) -> bool:
        """True if `expr` is 0 ("eq") or negative ("lt")."""
        if expr.leading < 0:  # one form of each question: n < 8 is not 8 <= n
            if relation == "lt":
                return not self.decide("lt", -expr - constant(1))
            expr = -expr
        expr = expr.reduced() if relation == "eq" else expr
        constant_answer = decided(relation, expr)
        if constant_answer is not None:
            return constant_answer
        bound = expr.bound() if relation == "lt" else None
        if bound is not None:  # n // 2 < 3 is n < 6
            return self.decide("lt", bound[0] - constant(bound[1]))
        if self.is_measured(expr):
            return self._ask(relation, expr)
        condition = self.conditions.get((relation, expr))
        if condition is not None:
            return condition.outcome
        if relation == "eq" and not self.live:
            return False  # different expressions are different sizes
        value = expr.value(self.values)
        outcome = value == 0 if relation == "eq" else value < 0
        self.conditions[relation, expr] = SizeCondition(relation, expr, outcome, user_line())
        return outcome

    def _ask(self, relation: str, expr: SizeExpr) -> bool:
        """The answer for data-dependent sizes: a branch of the trace, not a condition of it."""
        answer = self.answers.get((relation, expr))
        if answer is not None or (relation == "eq" and not self.live):
            return bool(answer)
        if self.on_question is None:
            raise GraphError(f"the data-dependent size {expr} is read after the call has ended")
        value = expr.value(self.values)
        outcome = self.answers[relation, expr] = value == 0 if relation == "eq" else value < 0
        self.on_question(relation, expr, outcome)
        return outcome

    def leak(self, dim: Dim, how: str) -> int:
        """The plain number, recorded as one that Python has read."""
        if self.live and self.is_measured(dim.expr):
            assert self.on_question is not None
            self.on_question("value", dim.expr, dim.value)
        elif self.live:
            if self.on_fix is not None:
                self.on_fix()
            self.fixed.append(FixedSize(dim.expr, dim.value, how, user_line()))
        elif self.closed:
            raise GraphError(f"{how} would fix the size {dim.expr} to {dim.value} after the traced "
                             "call has ended")
        return dim.value


def decided(relation: str, expr: SizeExpr) -> bool | None:
    """The answer if it is the same for all sizes, else None."""
    low, high = expr.low(), expr.high()
    if relation == "eq":
        if low == high == 0:
            return True
        return False if (low or 0) > 0 or (high is not None and high < 0) else None
    if high is not None and high < 0:
        return True
    return False if low is not None and low >= 0 else None


def _operator(name: str, fn: Callable[[SizeExpr, SizeExpr], SizeExpr],
              swap: bool = False) -> Any:
    def method(self: Dim, other: Any) -> Any:
        exact = self.sizes.live and self.sizes.number is not None  # n + 1.0 is a float
        expr = _expr(other, whole=name in ("add", "sub") and not exact)
        if expr is None:
            return _plain_operation(self, other, name, swap)
        a, b = (expr, self.expr) if swap else (self.expr, expr)
        if name in ("floordiv", "mod") and self.sizes.decide("eq", b):
            raise ZeroDivisionError("integer division or modulo by zero")
        return self.sizes.make(fn(a, b))

    return method


def _expr(x: Any, whole: bool = False) -> SizeExpr | None:
    """The expression of a size or an integer; with `whole`, of a float without fraction too."""
    if type(x) is Dim:
        return x.expr
    if isinstance(x, (int, np.integer)) or (whole and type(x) is float and x.is_integer()):
        return constant(int(x))
    return None


_PLAIN = (float, complex, np.generic, np.ndarray, list, tuple, str, bytes)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "truediv": lambda a, b: a / b,
    "pow": lambda a, b: a ** b, "divmod": divmod, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
}
_UFUNCS: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.equal: operator.eq,
    np.not_equal: operator.ne, np.less: operator.lt, np.less_equal: operator.le,
    np.greater: operator.gt, np.greater_equal: operator.ge,
}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/",
          "pow": "**", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}


def _plain_operation(dim: Dim, other: Any, name: str, swap: bool) -> Any:
    """The operator applied to plain numbers, which fixes the size; NotImplemented for others."""
    if type(other) is not Dim and not isinstance(other, (int, *_PLAIN)):
        return NotImplemented
    if dim.sizes.live and dim.sizes.number is not None:
        symbolic = dim.sizes.number(dim)
        operand = dim.sizes.number(other) if type(other) is Dim else other
        return _OPERATORS[name](operand, symbolic) if swap else _OPERATORS[name](symbolic, operand)
    kind = type(other).__name__ if type(other) is not Dim else "size"
    sign = _SIGNS.get(name, name)
    plain = dim.sizes.leak(dim, f"{kind} {sign} size" if swap else f"size {sign} {kind}")
    other = other.value if type(other) is Dim else other
    return _OPERATORS[name](other, plain) if swap else _OPERATORS[name](plain, other)


def _leaking_operator(name: str, swap: bool = False) -> Any:
    def method(self: Dim, other: Any) -> Any:
        return _plain_operation(self, other, name, swap)

    return method


def _comparison(relation: str, negated: bool, swap: bool) -> Any:
    """A comparison operator, which asks for the sign of the difference."""
    def method(self: Dim, other: Any) -> Any:
        expr = _expr(other)
        if expr is None:
            if not isinstance(other, (float, np.floating)):
                return NotImplemented
            if self.sizes.live and self.sizes.number is not None:
                return _COMPARISONS[relation, negated, swap](self.sizes.number(self), other)
            if self.sizes.live:
                own, b = self.sizes.leak(self, "a comparison with a float"), float(other)
                answer = own == b if relation == "eq" else (b < own if swap else own < b)
                return answer is not negated
            if relation == "eq" and not float(other).is_integer():
                return negated  # no size has a fraction
            if not math.isfinite(other):
                return (other < 0 if swap else other > 0) is not negated
            expr = constant(math.floor(other) if swap else math.ceil(other))
        sizes = self.sizes
        if sizes.live and sizes.number is not None and sizes.is_loop_test is not None \
                and sizes.is_loop_test(sys._getframe(1)):
            return _COMPARISONS[relation, negated, swap](sizes.number(self), other)
        difference = expr - self.expr if swap else self.expr - expr
        return self.sizes.decide(relation, difference) is not negated

    return method


_COMPARISONS: dict[tuple[str, bool, bool], Callable[[Any, Any], Any]] = {
    ("eq", False, False): operator.eq, ("eq", True, False): operator.ne,
    ("lt", False, False): operator.lt, ("lt", True, False): operator.ge,
    ("lt", False, True): operator.gt, ("lt", True, True): operator.le,
}


class Dim:
    """A symbolic size: behaves as an int, and holds its expression."""

    __slots__ = ("expr", "sizes")

    def __init__(self, expr: SizeExpr, sizes: ShapeEnv) -> None:
        self.expr, self.sizes = expr, sizes

    @property
    def value(self) -> int:
        """The size in the traced call."""
        return self.expr.value(self.sizes.values)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(n, int) holds
        return int

    def _text(self, spec: str | None) -> str:
        """The text of the size in the traced call, or a placeholder in a message."""
        sizes = self.sizes
        text = None if sizes.on_text is None or not sizes.live else sizes.on_text(self, spec)
        if text is not None:
            return text
        if sizes.is_measured(self.expr) or sizes.on_text is not None:
            number = sizes.leak(self, "text")
        else:
            sizes.printed.append(FixedSize(self.expr, self.value, "text", user_line()))
            number = self.value
        return repr(number) if spec is None else format(number, spec)

    __add__ = __radd__ = _operator("add", lambda a, b: a + b)
    __mul__ = __rmul__ = _operator("mul", lambda a, b: a * b)
    __sub__, __rsub__ = (_operator("sub", lambda a, b: a - b, swap)
                         for swap in (False, True))
    __floordiv__, __rfloordiv__ = (_operator("floordiv", lambda a, b: a // b, s)
                                   for s in (False, True))
    __mod__, __rmod__ = (_operator("mod", lambda a, b: a % b, swap)
                         for swap in (False, True))
    __truediv__, __rtruediv__ = (_leaking_operator("truediv", swap) for swap in (False, True))
    __and__ = __rand__ = _leaking_operator("and")
    __or__ = __ror__ = _leaking_operator("or")
    __xor__ = __rxor__ = _leaking_operator("xor")
    __lshift__, __rlshift__ = (_leaking_operator("lshift", swap) for swap in (False, True))
    __rshift__, __rrshift__ = (_leaking_operator("rshift", swap) for swap in (False, True))
    __rpow__ = _leaking_operator("pow", True)

    def __pow__(self, power: Any, modulo: Any = None) -> Any:
        if type(power) is int and power >= 0 and modulo is None:
            return self.sizes.make(self.expr ** power)
        return _plain_operation(self, power, "pow", False)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self.sizes.make(-self.expr)

    def __pos__(self) -> Dim:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __invert__(self) -> Any:
        return -self - 1

    def __bool__(self) -> bool:
        return not self.sizes.decide("eq", self.expr)

    def guard_reshape(self, x: Any, out: Any) -> None:
        """Guards whether the size is 0 or 1, on which depends if `out` is a view of `x`."""
        if self.sizes.on_reshape is None:
            bool(self < 2)  # a condition of the trace
        else:
            self.sizes.on_reshape(x, out, self)

    __eq__ = _comparison("eq", False, False)
    __ne__ = _comparison("eq", True, False)
    __lt__ = _comparison("lt", False, False)
    __ge__ = _comparison("lt", True, False)
    __gt__ = _comparison("lt", False, True)
    __le__ = _comparison("lt", True, True)

    def __hash__(self) -> int:
        """The hash of the value while user code runs; the hash of the expression in a graph."""
        if self.sizes.live:
            return hash(self.sizes.leak(self, "a dictionary key"))
        return hash(self.expr)

    # ---- uses that need a plain number
    def __index__(self) -> int:
        return self.sizes.leak(self, "a use that needs a plain int, such as range(n) or len(x)")

    def __int__(self) -> int:
        return self.sizes.leak(self, "int()")

    def __float__(self) -> float:
        return float(self.sizes.leak(self, "a use that needs a plain float, such as math.sqrt(n)"))

    def __complex__(self) -> complex:
        return complex(self.sizes.leak(self, "complex()"))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc in _UFUNCS and all(type(x) is Dim or isinstance(x, np.integer) for x in inputs):
            return _UFUNCS[ufunc](*[x if type(x) is Dim else int(x) for x in inputs])
        return getattr(ufunc, method)(*map(self._for_numpy, inputs), **options)

    def _for_numpy(self, x: Any) -> Any:
        return self.sizes.leak(x, "a function of NumPy's") if type(x) is Dim else x

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.sizes.leak(self, "a NumPy array made from it"), dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        """A method of int, which fixes the size when it is called."""
        if name.startswith("__") or not callable(getattr(int, name, None)):
            raise AttributeError(f"'int' object has no attribute {name!r}", name=name, obj=self)
        return lambda *args: getattr(self.sizes.leak(self, f".{name}()"), name)(*args)

    def conjugate(self) -> Dim:
        """The size itself, as for any int."""
        return self

    @property
    def real(self) -> Dim:
        return self

    numerator = real

    @property
    def imag(self) -> int:
        return 0

    @property
    def denominator(self) -> int:
        return 1

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None else round(self.__int__(), digits)

    def __trunc__(self) -> Dim:
        return self

    __floor__ = __ceil__ = __trunc__

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    def __reduce__(self) -> Any:
        return int, (self.sizes.leak(self, "pickle"),)

    def __format__(self, spec: str) -> str:
        return self._text(spec) if spec else str(self)

    def __repr__(self) -> str:
        """The value while user code runs; the expression in a graph."""
        if not self.sizes.live:
            return str(self.expr)
        return self._text(None)


def concrete(value: Any) -> Any:
    """`value` with each size, in tuples too, replaced by its number in the traced call."""
    if type(value) is Dim:
        return value.value
    if type(value) is tuple:
        numbers = tuple(map(concrete, value))
        return value if all(a is b for a, b in zip(numbers, value)) else numbers
    return value


def typical(size: Any) -> int:
    """A number that stands for a size in an estimate: the largest size if that is known, else the
    size in the traced call."""
    high = size.expr.high() if type(size) is Dim else None
    return int(size) if type(size) is not Dim else size.value if high is None else high


def size_expr_of(value: Any) -> SizeExpr:
    """The expression of a size, which may be a plain int."""
    return value.expr if type(value) is Dim else constant(int(value))
