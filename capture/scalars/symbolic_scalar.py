"""Python numbers that a replay computes anew: `Number` behaves as an int or float and remembers how
it follows from what was read.

A `Number` is not a float, since a subclass would leak its value without a word (`math.sqrt`, `%f`).
Arithmetic gives further `Number`s. A comparison is a decision of the recorded run. A use that only
a plain number can serve makes its exact value such a decision, so that it is never frozen unseen.
"""

from __future__ import annotations

import operator
from typing import Any, Protocol

import numpy as np

from ...eager.arrays.dtypes import as_dtype, float32, float64, int32, int64
from ...eager.interpreter import Symbol
from ..sizes.symbolic_dim import Dim
from .scalar_expr import OPERATORS, ScalarExpr, of_number


class Deciding(Protocol):
    """Whoever records: is told of questions that Python asks of numbers."""

    listening: bool  # whether what is asked now is part of the recorded run

    @property
    def iteration(self) -> int:
        """Goes up when a turn of a loop begins: numbers of earlier turns may be stale."""

    def uses(self, number: Number) -> None:
        """A number takes part in something."""

    def decide(self, subject: Any, kind: str, outcome: Any) -> Any:
        """A question about a value was answered; the answer to go on with."""

    def tensor_of(self, number: Number, dtype: Any) -> Any:
        """The tensor of a number, None where the dtype cannot hold it."""

    def index_of(self, number: Number) -> Any:
        """What stands for a number in an index: itself, or its tensor."""


def formula_of(x: Any) -> ScalarExpr | None:
    """The formula of a number, or of what stands for one; None for anything else."""
    if type(x) is Number:
        x.recorder.uses(x)
        return x.formula
    if type(x) is Dim:
        return ScalarExpr("size", (x.expr,))
    if type(x) in (int, float, bool, complex):
        return of_number(x)
    return None


def plain(x: Any) -> Any:
    """The number that `x` stands for; anything else as it is."""
    return x.value if type(x) is Number or type(x) is Dim else x


def plainly(x: Any) -> Any:
    """The plain number that `x` stands for, whose exact value the run depends on from now on."""
    return x.leak() if type(x) is Number else operator.index(x) if type(x) is Dim else x


def _operation(name: str, swap: bool = False) -> Any:
    def method(self: Number, *others: Any) -> Any:
        self.recorder.uses(self)
        formulas = [formula_of(x) for x in others]
        if any(f is None for f in formulas):
            return self._with_other(name, others[0], swap)
        operands = (self.value, *map(plain, others))
        try:
            value = OPERATORS[name](*(operands[::-1] if swap else operands))
        except Exception:  # an error is the answer to these very values
            for x in (self, *others):
                plainly(x)
            raise
        if not self.recorder.listening:
            return value
        parts: tuple[Any, ...] = (self.formula, *formulas)
        return self._made(ScalarExpr(name, parts[::-1] if swap else parts), value)

    return method


def _question(name: str) -> Any:
    def method(self: Number, other: Any) -> Any:
        self.recorder.uses(self)
        formula = formula_of(other)
        if formula is None:
            return OPERATORS[name](self.leak(), other) if _is_number(other) else NotImplemented
        answer = OPERATORS[name](self.value, plain(other))
        return self.recorder.decide(ScalarExpr(name, (self.formula, formula)), "bool", answer)

    return method


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.generic))


# By type of a number: the dtype that it has as a tensor, and those that hold it the same way.
_HELD: dict[type, tuple[Any, tuple[Any, ...]]] = {
    float: (float32, (float32, float64)), int: (int64, (int64, int32, float32, float64))}


class Number(Symbol):
    """An int or float to all who look, with its formula and the value at hand."""

    __slots__ = ("__weakref__", "formula", "iteration", "recorder", "value")

    def __init__(self, formula: ScalarExpr, value: Any, recorder: Deciding) -> None:
        self.formula, self.value, self.recorder = formula, value, recorder
        self.iteration = recorder.iteration

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(x, float) holds
        return type(self.value)

    def _made(self, formula: ScalarExpr, value: Any) -> Any:
        if type(value) is tuple:  # of divmod
            return tuple(self._made(ScalarExpr("getitem", (formula, of_number(i))), v)
                         for i, v in enumerate(value))
        return Number(formula, value, self.recorder)

    def _with_other(self, name: str, other: Any, swap: bool) -> Any:
        """The operator with what is no plain number: NumPy's numbers, and sequences to repeat."""
        if not _is_number(other) and not isinstance(other, (str, bytes, list, tuple, np.ndarray)):
            return NotImplemented
        own = self.leak()
        return OPERATORS[name](other, own) if swap else OPERATORS[name](own, other)

    def leak(self) -> Any:
        """The plain number: its exact value becomes a decision of the recorded run."""
        self.recorder.uses(self)
        self.recorder.decide(self.formula, "value", self.value)
        return self.value

    __add__, __radd__ = _operation("add"), _operation("add", swap=True)
    __sub__, __rsub__ = _operation("sub"), _operation("sub", swap=True)
    __mul__, __rmul__ = _operation("mul"), _operation("mul", swap=True)
    __truediv__, __rtruediv__ = _operation("truediv"), _operation("truediv", swap=True)
    __floordiv__, __rfloordiv__ = _operation("floordiv"), _operation("floordiv", swap=True)
    __mod__, __rmod__ = _operation("mod"), _operation("mod", swap=True)
    __divmod__, __rdivmod__ = _operation("divmod"), _operation("divmod", swap=True)
    __rpow__ = _operation("pow", swap=True)
    __and__, __rand__ = _operation("and"), _operation("and", swap=True)
    __or__, __ror__ = _operation("or"), _operation("or", swap=True)
    __xor__, __rxor__ = _operation("xor"), _operation("xor", swap=True)
    __lshift__, __rlshift__ = _operation("lshift"), _operation("lshift", swap=True)
    __rshift__, __rrshift__ = _operation("rshift"), _operation("rshift", swap=True)
    __neg__, __pos__, __abs__ = _operation("neg"), _operation("pos"), _operation("abs")
    __invert__, __trunc__ = _operation("invert"), _operation("trunc")
    __floor__, __ceil__ = _operation("floor"), _operation("ceil")
    _rounded, _power = _operation("round"), _operation("pow")
    __eq__, __ne__ = _question("eq"), _question("ne")
    __lt__, __le__ = _question("lt"), _question("le")
    __gt__, __ge__ = _question("gt"), _question("ge")

    def __pow__(self, power: Any, modulo: Any = None) -> Any:
        return self._power(power) if modulo is None else pow(self.leak(), power, modulo)

    def __round__(self, digits: Any = None) -> Any:
        return self._rounded() if digits is None else self._rounded(digits)

    def __bool__(self) -> bool:
        self.recorder.uses(self)
        answer = bool(self.value)
        zero = of_number(type(self.value)(0))
        return bool(self.recorder.decide(ScalarExpr("ne", (self.formula, zero)), "bool", answer))

    __cos__ = _operation("cos")

    def __tensor__(self, dtype: Any = None) -> Any:
        """The tensor of this number; None for dtypes that NumPy brings it to in its own way."""
        default, held = _HELD.get(type(self.value), (None, ()))
        wanted = default if dtype is None else as_dtype(dtype)
        if wanted not in held or not self.recorder.listening:
            return None
        if default is int64 and wanted.kind == "f":  # as Python does: by way of float64
            made = self.recorder.tensor_of(self, int64)
            return None if made is None else made.astype(float64).astype(wanted)
        return self.recorder.tensor_of(self, wanted)

    def as_index(self) -> Any:
        return self.recorder.index_of(self) if self.recorder.listening else self

    # ---- what only a plain number can serve
    def __hash__(self) -> int:
        return hash(self.leak())

    def __index__(self) -> int:
        return operator.index(self.leak())

    def __int__(self) -> int:
        return int(self.leak())

    def __float__(self) -> float:
        return float(self.leak())

    def __complex__(self) -> complex:
        return complex(self.leak())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*map(plainly, inputs), **options)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.leak(), dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        special = name.startswith("__") and name.endswith("__")
        if special or not hasattr(type(self.value), name):
            raise AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}",
                                 name=name, obj=self)
        return getattr(self.leak(), name)

    def conjugate(self) -> Number:
        """Itself: an int or a float."""
        return self

    @property
    def real(self) -> Number:
        return self

    @property
    def imag(self) -> Any:
        return type(self.value)(0)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    def __reduce__(self) -> Any:
        value = self.leak()
        return type(value), (value,)

    def __format__(self, spec: str) -> str:
        return format(self.leak(), spec)

    def __repr__(self) -> str:
        return repr(self.leak())


SYMBOLS = (Number, Dim)  # what stands for a plain number while a run is recorded
