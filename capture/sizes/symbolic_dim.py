"""Sizes that may vary: `Dim` behaves as an int and remembers how it follows from the named sizes.

A `Dim` is not an int, since a subclass of int would leak its value without a word
(`math.sqrt(n)`, `range(n)`). Arithmetic gives further `Dim`s. A comparison that holds for all sizes
is just answered; any other is answered for the sizes at hand, and noted as a condition. A use that
only a plain number can serve fixes the size, and is noted with the user's line.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ...eager.errors import GraphError, user_line
from .size_expr import Expr, constant, symbol


class Condition(NamedTuple):
    """A comparison that was made: whether `expr` == 0 ("eq") or < 0 ("lt"), on a user's line."""

    relation: str
    expr: Expr
    outcome: bool
    line: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it comes out the same for these sizes."""
        value = self.expr.value(sizes)
        return (value == 0 if self.relation == "eq" else value < 0) is self.outcome

    def follows_from(self, other: Condition) -> bool:
        """Whether it holds wherever `other` does."""
        if other.relation != "lt" or self is other:
            return False
        apart = self.expr - other.expr if not other.outcome else other.expr - self.expr
        low = apart.low()
        if low is None:
            return False
        if self.relation == "lt":
            return self.outcome is other.outcome and low >= 0
        return not self.outcome and low > 0

    def __str__(self) -> str:
        left = Expr({m: c for m, c in self.expr.terms if c > 0})
        right = Expr({m: -c for m, c in self.expr.terms if c < 0})
        if self.expr.remainder() is not None:
            left, right = self.expr, constant(0)
        sign = {"eq": ("!=", "=="), "lt": (">=", "<")}[self.relation][self.outcome]
        return f"{left} {sign} {right}"


class Fixed(NamedTuple):
    """A size that was handed to Python as a plain number: which, its value, how, and where."""

    expr: Expr
    value: int
    how: str
    line: str


class Listening:
    """See `Sizes.listening`. No generator: recorders enter it while they watch what code runs."""

    __slots__ = ("_before", "_live", "_sizes")

    def __init__(self, sizes: Sizes, live: bool) -> None:
        self._sizes, self._live, self._before = sizes, live, False

    def __enter__(self) -> None:
        self._before, self._sizes.live = self._sizes.live, self._live

    def __exit__(self, *error: object) -> None:
        self._sizes.live = self._before


class Noted:
    """The named sizes of one run, and what the run asked of them."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)
        self.live = False
        self.measured: set[str] = set()  # sizes that were found while the function ran
        self.answers: dict[tuple[str, Expr], bool] = {}  # to questions about these
        self.conditions: dict[tuple[str, Expr], Condition] = {}
        self.fixed: list[Fixed] = []
        self.shown: list[Fixed] = []  # made into text, which is rarely computed with


_T = TypeVar("_T")


class _Present(Generic[_T]):
    """An attribute of the run that `Sizes` stands for at present, in this thread."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, sizes: Sizes, owner: type) -> _T:
        return getattr(sizes.noted, self._name)  # type: ignore[no-any-return]

    def __set__(self, sizes: Sizes, value: _T) -> None:
        setattr(sizes.noted, self._name, value)


class Sizes:
    """The named sizes of a function, those of its last run, and what that run asked of them.

    While `live`, questions are noted. Afterwards they are answered from what was noted, and `Dim`s
    are equal and hash by their formulas, as the parts of a graph must; only an order that a pass
    asks for is a new condition.
    """

    values, live, measured = _Present[dict[str, int]](), _Present[bool](), _Present[set[str]]()
    answers = _Present[dict[tuple[str, Expr], bool]]()
    conditions = _Present[dict[tuple[str, Expr], Condition]]()
    fixed, shown = _Present[list[Fixed]](), _Present[list[Fixed]]()

    def __init__(self, values: Mapping[str, int]) -> None:
        self._last, self._resumed = Noted(values), threading.local()
        self.number: Callable[[Dim], Any] | None = None  # a size as a Python number of a recording
        self.asked: Callable[[str, Expr, int], None] | None = None  # is told what was asked of
        # measured sizes: "eq" or "lt" and the answer, or the "value" that left for Python
        self.fixes: Callable[[], None] | None = None  # is told that a size becomes a plain number
        self.closed = False  # whether none may: the run has ended, and its graph holds for all

    def begin(self, values: Mapping[str, int]) -> None:
        """Forgets what was asked: another run begins, with these sizes."""
        live = self._last.live
        self._last = Noted(values)
        self._last.live = live

    @property
    def noted(self) -> Noted:
        """The last run, or the one that this thread has resumed."""
        return getattr(self._resumed, "noted", None) or self._last

    @contextlib.contextmanager
    def resumed(self, noted: Noted) -> Iterator[None]:
        """A context in which questions get the answers of an earlier run. Other threads, which
        may record another run, keep theirs."""
        before = getattr(self._resumed, "noted", None)
        self._resumed.noted = noted
        try:
            yield
        finally:
            self._resumed.noted = before

    def named(self, name: str) -> Any:
        """The size called `name`."""
        return self.make(symbol(name))

    def measure(self, name: str, value: int) -> Any:
        """The size called `name`, which was just found to be `value`; it may be 0."""
        self.values[name] = value
        self.measured.add(name)
        return self.make(symbol(name, 0))

    def is_measured(self, expr: Expr) -> bool:
        """Whether it depends on a size that was measured."""
        return bool(self.measured) and not self.measured.isdisjoint(expr.symbols())

    def make(self, expr: Expr) -> Any:
        """The size that `expr` gives: an int where it is the same for all sizes."""
        number = expr.number
        return Dim(expr, self) if number is None else number

    def listening(self, live: bool = True) -> Listening:
        """A context in which what is asked of sizes is noted, or is not."""
        return Listening(self, live)

    def decide(self, relation: str, expr: Expr) -> bool:
        """Whether `expr` is 0 ("eq") or below 0 ("lt")."""
        if expr.leading < 0:  # one form of each question: n < 8 is not 8 <= n
            if relation == "lt":
                return not self.decide("lt", -expr - constant(1))
            expr = -expr
        expr = expr.reduced() if relation == "eq" else expr
        known = decided(relation, expr)
        if known is not None:
            return known
        bound = expr.bound() if relation == "lt" else None
        if bound is not None:  # n // 2 < 3 is n < 6
            return self.decide("lt", bound[0] - constant(bound[1]))
        if self.is_measured(expr):
            return self._ask(relation, expr)
        noted = self.conditions.get((relation, expr))
        if noted is not None:
            return noted.outcome
        if relation == "eq" and not self.live:
            return False  # as formulas are told apart
        value = expr.value(self.values)
        outcome = value == 0 if relation == "eq" else value < 0
        self.conditions[relation, expr] = Condition(relation, expr, outcome, user_line())
        return outcome

    def _ask(self, relation: str, expr: Expr) -> bool:
        """The answer for measured sizes: part of the way that a run takes, no condition of it."""
        noted = self.answers.get((relation, expr))
        if noted is not None or (relation == "eq" and not self.live):
            return bool(noted)
        if self.asked is None:
            raise GraphError(f"{expr} is used after the run that found this size has ended")
        value = expr.value(self.values)
        outcome = self.answers[relation, expr] = value == 0 if relation == "eq" else value < 0
        self.asked(relation, expr, outcome)
        return outcome

    def leak(self, dim: Dim, how: str) -> int:
        """The plain number, noted as one that Python has got hold of."""
        if self.live and self.is_measured(dim.expr):
            assert self.asked is not None
            self.asked("value", dim.expr, dim.value)
        elif self.live:
            if self.fixes is not None:
                self.fixes()
            self.fixed.append(Fixed(dim.expr, dim.value, how, user_line()))
        elif self.closed:
            raise GraphError(f"the size {dim.expr} was to be fixed to {dim.value} by {how}, after "
                             "the run")
        return dim.value


def decided(relation: str, expr: Expr) -> bool | None:
    """The answer where it is the same for all sizes."""
    low, high = expr.low(), expr.high()
    if relation == "eq":
        if low == high == 0:
            return True
        return False if (low or 0) > 0 or (high is not None and high < 0) else None
    if high is not None and high < 0:
        return True
    return False if low is not None and low >= 0 else None


def _binary(name: str, fn: Callable[[Expr, Expr], Expr], swap: bool = False) -> Any:
    def method(self: Dim, other: Any) -> Any:
        exact = self.sizes.live and self.sizes.number is not None  # n + 1.0 is a float
        expr = _expr(other, whole=name in ("add", "sub") and not exact)
        if expr is None:
            return _with_number(self, other, name, swap)
        a, b = (expr, self.expr) if swap else (self.expr, expr)
        if name in ("floordiv", "mod") and self.sizes.decide("eq", b):
            raise ZeroDivisionError("integer division or modulo by zero")
        return self.sizes.make(fn(a, b))

    return method


def _expr(x: Any, whole: bool = False) -> Expr | None:
    """The formula of a size or a whole number; with `whole`, of a float without fraction too."""
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


def _with_number(dim: Dim, other: Any, name: str, swap: bool) -> Any:
    """The operator on plain numbers, which fixes the size; what is not a number has its own way."""
    if type(other) is not Dim and not isinstance(other, (int, *_PLAIN)):
        return NotImplemented
    if dim.sizes.live and dim.sizes.number is not None:
        own, given = dim.sizes.number(dim), dim.sizes.number(other) if type(other) is Dim else other
        return _OPERATORS[name](given, own) if swap else _OPERATORS[name](own, given)
    kind = type(other).__name__ if type(other) is not Dim else "size"
    sign = _SIGNS.get(name, name)
    plain = dim.sizes.leak(dim, f"{kind} {sign} size" if swap else f"size {sign} {kind}")
    other = other.value if type(other) is Dim else other
    return _OPERATORS[name](other, plain) if swap else _OPERATORS[name](plain, other)


def _leaving(name: str, swap: bool = False) -> Any:
    def method(self: Dim, other: Any) -> Any:
        return _with_number(self, other, name, swap)

    return method


def _compared(relation: str, negated: bool, swap: bool) -> Any:
    """A comparison, as a question about the sign of a difference."""
    def method(self: Dim, other: Any) -> Any:
        expr = _expr(other)
        if expr is None:
            if not isinstance(other, (float, np.floating)):
                return NotImplemented
            if self.sizes.live and self.sizes.number is not None:
                return _ASKED[relation, negated, swap](self.sizes.number(self), other)
            own = self.sizes.leak(self, "a comparison with a float") if self.sizes.live \
                else self.value
            a, b = own, float(other)
            found = a == b if relation == "eq" else (b < a if swap else a < b)
            return found is not negated
        difference = expr - self.expr if swap else self.expr - expr
        return self.sizes.decide(relation, difference) is not negated

    return method


_ASKED: dict[tuple[str, bool, bool], Callable[[Any, Any], Any]] = {
    ("eq", False, False): operator.eq, ("eq", True, False): operator.ne,
    ("lt", False, False): operator.lt, ("lt", True, False): operator.ge,
    ("lt", False, True): operator.gt, ("lt", True, True): operator.le,
}


class Dim:
    """A size that may vary: an int to all who look, with its formula and the value at hand."""

    __slots__ = ("expr", "sizes")

    def __init__(self, expr: Expr, sizes: Sizes) -> None:
        self.expr, self.sizes = expr, sizes

    @property
    def value(self) -> int:
        """The size at hand."""
        return self.expr.value(self.sizes.values)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(n, int) holds
        return int

    def _shown(self) -> int:
        """The size at hand, to be made into text."""
        if self.sizes.is_measured(self.expr):
            return self.sizes.leak(self, "text")
        self.sizes.shown.append(Fixed(self.expr, self.value, "text", user_line()))
        return self.value

    __add__ = __radd__ = _binary("add", lambda a, b: a + b)
    __mul__ = __rmul__ = _binary("mul", lambda a, b: a * b)
    __sub__, __rsub__ = (_binary("sub", lambda a, b: a - b, swap) for swap in (False, True))
    __floordiv__, __rfloordiv__ = (_binary("floordiv", lambda a, b: a // b, s)
                                   for s in (False, True))
    __mod__, __rmod__ = (_binary("mod", lambda a, b: a % b, swap) for swap in (False, True))
    __truediv__, __rtruediv__ = (_leaving("truediv", swap) for swap in (False, True))
    __and__ = __rand__ = _leaving("and")
    __or__ = __ror__ = _leaving("or")
    __xor__ = __rxor__ = _leaving("xor")
    __lshift__, __rlshift__ = (_leaving("lshift", swap) for swap in (False, True))
    __rshift__, __rrshift__ = (_leaving("rshift", swap) for swap in (False, True))
    __rpow__ = _leaving("pow", True)

    def __pow__(self, power: Any, modulo: Any = None) -> Any:
        if type(power) is int and power >= 0 and modulo is None:
            return self.sizes.make(self.expr ** power)
        return _with_number(self, power, "pow", False)

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

    __eq__ = _compared("eq", False, False)
    __ne__ = _compared("eq", True, False)
    __lt__ = _compared("lt", False, False)
    __ge__ = _compared("lt", True, False)
    __gt__ = _compared("lt", False, True)
    __le__ = _compared("lt", True, True)

    def __hash__(self) -> int:
        """By the value for the user's dictionaries, by the formula for the parts of a graph."""
        if self.sizes.live:
            return hash(self.sizes.leak(self, "a dictionary key"))
        return hash(self.expr)

    # ---- what only a plain number can serve
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
        """int's own methods, which fix the size when they are called."""
        if name.startswith("__") or not callable(getattr(int, name, None)):
            raise AttributeError(f"'int' object has no attribute {name!r}", name=name, obj=self)
        return lambda *args: getattr(self.sizes.leak(self, f".{name}()"), name)(*args)

    def conjugate(self) -> Dim:
        """Itself: an int."""
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
        return format(self._shown(), spec) if spec else str(self)

    def __repr__(self) -> str:
        """The value while the function runs, for people; the formula in a graph."""
        if not self.sizes.live:
            return str(self.expr)
        return str(self._shown())


def concrete(value: Any) -> Any:
    """`value` with each size in it, in tuples too, replaced by the number at hand."""
    if type(value) is Dim:
        return value.value
    if type(value) is tuple:
        found = tuple(map(concrete, value))
        return value if all(a is b for a, b in zip(found, value)) else found
    return value


def formula(value: Any) -> Expr:
    """The formula of a size, which may be a plain int."""
    return value.expr if type(value) is Dim else constant(int(value))
