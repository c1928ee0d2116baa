"""Symbolic Python numbers, which a replay computes again.

`SymbolicScalar` behaves as an int or float and holds its expression over the numbers that the call
reads. It is not a float: C code would silently read the value of a subclass (`math.sqrt`, `%f`).
Arithmetic returns further symbolic scalars. A comparison is a branch of the trace. A use that needs
a plain number becomes a branch on the exact value, so that the value is always checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...eager.arrays.dtypes import as_dtype, float32, float64, int32, int64
from ...eager.interpreter import Symbol
from ..sizes.symbolic_dim import Dim
from .scalar_expr import OPERATORS, ScalarExpr, of_number
from .stand_in import StandIn


class DecisionRecorder(Protocol):
    """The part of a tracer that records questions about numbers."""

    listening: bool  # True while questions belong to the traced call

    @property
    def iteration(self) -> int:
        """A count that grows with each loop iteration: numbers of earlier ones may be stale."""

    def uses(self, number: SymbolicScalar) -> None:
        """Notes that a number is used."""

    def decide(self, subject: Any, kind: str, outcome: Any) -> Any:
        """Records the answer to a question about a value; returns the answer to use."""

    def tensor_of(self, number: SymbolicScalar, dtype: Any) -> Any:
        """The tensor of a number; None if the dtype cannot hold it."""

    def size_of(self, number: SymbolicScalar) -> Any:
        """The symbolic size that a whole number is; the number itself if it cannot be one."""

    def is_stale(self, number: SymbolicScalar) -> bool:
        """True for a number of an earlier iteration of a loop."""

    def text_of(self, number: SymbolicScalar, spec: str | None) -> str | None:
        """The text of a number for a message: by `format` with `spec`, or by `repr`. None if code
        may look into the text."""


_BITS = ("and", "or", "xor")  # of two bools a bool that is no decision


def formula_of(x: Any) -> ScalarExpr | None:
    """The expression of a plain or symbolic number; None for other objects."""
    if type(x) is SymbolicScalar:
        x.tracer.uses(x)
        return x.formula
    if type(x) is Dim:
        return ScalarExpr("size", (x.expr,))
    if type(x) in (int, float, bool, complex):
        return of_number(x)
    return None


def plain_value(x: Any) -> Any:
    """The plain number of a symbolic one, and the object for which another one stands; other
    objects unchanged."""
    kind = type(x)
    return x.value if kind is SymbolicScalar or kind is Dim or issubclass(kind, StandIn) else x


def leaked_value(x: Any) -> Any:
    """The plain number of a symbolic one, on whose exact value the trace depends from now on."""
    return x.leak() if type(x) is SymbolicScalar else operator.index(x) if type(x) is Dim else x


def _operator(name: str, swap: bool = False) -> Any:
    def method(self: SymbolicScalar, *others: Any) -> Any:
        self.tracer.uses(self)
        if any(formula_of(x) is None for x in others):
            return self._plain_operation(name, others[0], swap)
        operands = (self, *others)
        return _computed(self, name, operands[::-1] if swap else operands)

    return method


def _computed(number: SymbolicScalar, name: str, operands: Sequence[Any]) -> Any:
    """The result of an operator for plain and symbolic operands, among them `number`."""
    try:
        value = OPERATORS[name](*map(plain_value, operands))
    except Exception:  # the error depends on these exact values
        for x in operands:
            leaked_value(x)
        raise
    if not number.tracer.listening:
        return value
    formula = ScalarExpr(name, tuple(map(formula_of, operands)))
    if type(value) is bool and name not in _BITS:
        return number.tracer.decide(formula, "bool", value)
    return number._derived(formula, value)


def apply_operator(name: str, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The result of the operator `name`, which is symbolic if an operand is.

    `function`: the operator as Python's code calls it, for operands that are no numbers."""
    symbolic = [_as_scalar(x) for x in operands]
    number = next((x for x in symbolic if type(x) is SymbolicScalar), None)
    if number is None or any(formula_of(x) is None for x in symbolic):
        return function(*operands)
    return _computed(number, name, symbolic)


def _as_scalar(x: Any) -> Any:
    """A symbolic size as a symbolic number, where the trace has such numbers."""
    if type(x) is Dim and x.sizes.live and x.sizes.number is not None:
        return x.sizes.number(x)
    return x


def _comparison(name: str) -> Any:
    def method(self: SymbolicScalar, other: Any) -> Any:
        self.tracer.uses(self)
        formula = formula_of(other)
        if formula is None:
            return OPERATORS[name](self.leak(), other) if _is_number(other) else NotImplemented
        answer = OPERATORS[name](self.value, plain_value(other))
        return self.tracer.decide(ScalarExpr(name, (self.formula, formula)), "bool", answer)

    return method


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.generic))


# By type of a number: its dtype as a tensor, and the dtypes that convert it in the same way.
_TENSOR_DTYPES: dict[type, tuple[Any, tuple[Any, ...]]] = {
    float: (float32, (float32, float64)), int: (int64, (int64, int32, float32, float64))}


class SymbolicScalar(Symbol):
    """A symbolic number: behaves as an int or float, and holds its expression and its value."""

    __slots__ = ("__weakref__", "formula", "iteration", "tracer", "value")

    def __init__(self, formula: ScalarExpr, value: Any, tracer: DecisionRecorder) -> None:
        self.formula, self.value, self.tracer = formula, value, tracer
        self.iteration = tracer.iteration

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(x, float) holds
        return type(self.value)

    def _derived(self, formula: ScalarExpr, value: Any) -> Any:
        if type(value) is tuple:  # of divmod
            return tuple(self._derived(ScalarExpr("getitem", (formula, of_number(i))), v)
                         for i, v in enumerate(value))
        return SymbolicScalar(formula, value, self.tracer)

    def _plain_operation(self, name: str, other: Any, swap: bool) -> Any:
        """The operator with a NumPy number, array or sequence, which reads the plain number."""
        if not _is_number(other) and not isinstance(other, (str, bytes, list, tuple, np.ndarray)):
            return NotImplemented
        value = self.leak()
        return OPERATORS[name](other, value) if swap else OPERATORS[name](value, other)

    def leak(self) -> Any:
        """The plain number. The trace branches on its exact value."""
        self.tracer.uses(self)
        self.tracer.decide(self.formula, "value", self.value)
        return self.value

    __add__, __radd__ = _operator("add"), _operator("add", swap=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swap=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", swap=True)
    __truediv__, __rtruediv__ = _operator("truediv"), _operator("truediv", swap=True)
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _operator("floordiv", swap=True)
    __mod__, __rmod__ = _operator("mod"), _operator("mod", swap=True)
    __divmod__, __rdivmod__ = _operator("divmod"), _operator("divmod", swap=True)
    __rpow__ = _operator("pow", swap=True)
    __and__, __rand__ = _operator("and"), _operator("and", swap=True)
    __or__, __ror__ = _operator("or"), _operator("or", swap=True)
    __xor__, __rxor__ = _operator("xor"), _operator("xor", swap=True)
    __lshift__, __rlshift__ = _operator("lshift"), _operator("lshift", swap=True)
    __rshift__, __rrshift__ = _operator("rshift"), _operator("rshift", swap=True)
    __neg__, __pos__, __abs__ = _operator("neg"), _operator("pos"), _operator("abs")
    __invert__, __trunc__ = _operator("invert"), _operator("trunc")
    __floor__, __ceil__ = _operator("floor"), _operator("ceil")
    _rounded, _power = _operator("round"), _operator("pow")
    __eq__, __ne__ = _comparison("eq"), _comparison("ne")
    __lt__, __le__ = _comparison("lt"), _comparison("le")
    __gt__, __ge__ = _comparison("gt"), _comparison("ge")

    def __pow__(self, power: Any, modulo: Any = None) -> Any:
        return self._power(power) if modulo is None else pow(self.leak(), power, modulo)

    def __round__(self, digits: Any = None) -> Any:
        return self._rounded() if digits is None else self._rounded(digits)

    def __bool__(self) -> bool:
        self.tracer.uses(self)
        answer = bool(self.value)
        zero = of_number(type(self.value)(0))
        return bool(self.tracer.decide(ScalarExpr("ne", (self.formula, zero)), "bool", answer))

    __cos__ = _operator("cos")

    def __tensor__(self, dtype: Any = None) -> Any:
        """The tensor of this number; None for dtypes that need NumPy's own conversion."""
        default, exact_dtypes = _TENSOR_DTYPES.get(type(self.value), (None, ()))
        target = default if dtype is None else as_dtype(dtype)
        if target not in exact_dtypes or not self.tracer.listening:
            return None
        if default is int64 and target.kind == "f":  # like Python, through float64
            exact = self.tracer.tensor_of(self, int64)
            return None if exact is None else exact.astype(float64).astype(target)
        return self.tracer.tensor_of(self, target)

    @property
    def is_stale(self) -> bool:
        return self.tracer.is_stale(self)

    def as_index(self, size: Any) -> Any:
        count = plain_value(size)
        if type(self.value) is not int or not self.tracer.listening or \
                not -count <= self.value < count:  # the plain number gives the better message
            return self
        return self.tracer.tensor_of(self, int64)

    def as_size(self) -> Any:
        self.tracer.uses(self)
        return self.tracer.size_of(self) \
            if type(self.value) is int and self.tracer.listening else self

    # ---- uses that need a plain number
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
        return getattr(ufunc, method)(*map(leaked_value, inputs), **options)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.leak(), dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        special = name.startswith("__") and name.endswith("__")
        if special or not hasattr(type(self.value), name):
            raise AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}",
                                 name=name, obj=self)
        return getattr(self.leak(), name)

    def conjugate(self) -> SymbolicScalar:
        """The number itself: it is real."""
        return self

    @property
    def real(self) -> SymbolicScalar:
        return self

    @property
    def imag(self) -> Any:
        return type(self.value)(0)

    def __copy__(self) -> SymbolicScalar:
        return self

    def __deepcopy__(self, memo: Any) -> SymbolicScalar:
        return self

    def __reduce__(self) -> Any:
        value = self.leak()
        return type(value), (value,)

    def __format__(self, spec: str) -> str:
        text = self.tracer.text_of(self, spec)
        return format(self.leak(), spec) if text is None else text

    def __repr__(self) -> str:
        text = self.tracer.text_of(self, None)
        return repr(self.leak()) if text is None else text


SYMBOLS = (SymbolicScalar, Dim)  # stand-ins for plain numbers while a call is traced
