"""Ops on one element at a time: a scalar formula, its derivative, its ONNX name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..dispatch import apply, function_of_one, function_of_two
from ..dtypes import SCALARS, DType
from ..errors import DTypeError, GradientError
from ..op import Op, define, each
from ..shapes import TensorType, broadcast
from ..tensor import Tensor, as_tensor, tensor

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

# what an op takes: kinds of NumPy dtypes, and their names in an error
TAKES = {
    "any": ("biufc", "all dtypes"),
    "float": ("fc", "floating point numbers"),
    "real float": ("f", "real floating point numbers"),
    "real": ("biuf", "real numbers and bool"),
    "numeric": ("iufc", "numbers"),
    "real numeric": ("iuf", "real numbers"),
    "bits": ("biu", "integers and bool"),
    "whole": ("iu", "integers"),
    "bool": ("b", "bool"),
}
OPERANDS = (Tensor, *SCALARS, np.ndarray, np.generic)  # what may stand beside a tensor


def dtype_of_operands(types: tuple[Any, ...]) -> DType:
    """The dtype that the operands share; a leading bool is the condition of `where`."""
    found = [t.dtype for t in types if isinstance(t, TensorType)]
    return found[-1]  # type: ignore[no-any-return]


def _result_rule(name: str, gives: str) -> Callable[..., TensorType]:
    def result(*types: Any, **params: Any) -> TensorType:
        shape = broadcast(name, *[t.shape for t in types if isinstance(t, TensorType)])
        if gives == "param":
            return TensorType(shape, params["dtype"])
        dtype = dtypes.bool if gives == "bool" else dtype_of_operands(types)
        if gives == "real":
            dtype = dtypes.real_of(dtype)
        return TensorType(shape, dtype)

    return result


def prepare(name: str, xs: tuple[Any, ...], takes: str) -> tuple[Any, ...]:
    """`xs` as tensors of one dtype that the op takes, and Python scalars that adapt to it."""
    operands = [operand(name, x) for x in xs]
    dtype: Any = None
    for x in operands:
        if isinstance(x, Tensor):
            dtype = x.dtype if dtype is None else dtypes.promote(dtype, x.dtype)
    if dtype is None:
        operands[0] = tensor(operands[0])
        dtype = operands[0].dtype
    for x in operands:
        if not isinstance(x, Tensor):
            dtype = dtypes.promote_scalar(dtype, x)
    dtype = _accept(name, dtype, takes)
    return tuple([_to(x, dtype) for x in operands])


def operand(name: str, x: Any) -> Any:
    """`x` as a tensor or a Python scalar; NumPy's arrays become tensors, its scalars Python's."""
    if isinstance(x, np.generic):
        x = x.item()
    return x if isinstance(x, SCALARS) else as_tensor(name, x)


def _to(x: Any, dtype: DType) -> Any:
    if isinstance(x, Tensor):
        return cast(x, dtype)
    return bool(x) if dtype.kind == "b" else x


def _accept(name: str, dtype: DType, takes: str) -> DType:
    if takes == "bool":
        return dtypes.bool
    kinds, names = TAKES[takes]
    if takes.endswith("float") and dtypes.kind(dtype) in "biu":
        return dtypes.DEFAULT_FLOAT
    if dtypes.kind(dtype) not in kinds:
        raise DTypeError(f"{name}: takes {names}, not {dtype.name}",
                         "cast the operands first, as with x.astype(fw.float32)")
    return dtype


def pointwise(
    name: str, formula: Callable[..., Any], *vjp: Any, takes: str = "any", gives: str = "same",
    impl: Callable[..., Any] | None = None, onnx: str = "", **why: str,
) -> Callable[..., Tensor]:
    """Declares a pointwise op and returns its function of tensors and numbers.

    takes: a key of TAKES; "float" and "real float" cast integers to float32, "bool" casts all.
    gives: same as the operands, real (the parts of complex numbers) or bool. `why` holds reasons
    for facts left out.
    """
    if not vjp and (gives == "bool" or takes in ("bits", "whole", "bool")):
        why.setdefault("vjp", "its result is not a floating point number")
    if not vjp and "vjp" not in why:
        raise KeyError(f"op {name!r} has no vjp and no reason")
    op = define(Op(name, "pointwise", _result_rule(name, gives), impl or formula, formula,
                   each(*vjp) if vjp else None, onnx, why))
    function: Any
    if formula.__code__.co_argcount == 2:
        function = function_of_one(
            op, TAKES[takes][0], lambda x: apply(op, prepare(name, (x,), takes)))
    else:
        function = function_of_two(
            op, TAKES[takes][0], lambda x, y: apply(op, _pair(name, x, y, takes)))
    function.__name__ = function.__qualname__ = name
    function.op, function.takes = op, takes
    return function  # type: ignore[no-any-return]


def operator_of(function: Any) -> Callable[[Any, Any], Any]:
    """A pointwise function of two as Python's operators want it: NotImplemented for strangers."""
    op, takes = function.op, function.takes

    def otherwise(x: Any, y: Any) -> Any:
        if not isinstance(y, OPERANDS):
            return NotImplemented
        return apply(op, _pair(op.name, x, y, takes))

    return function_of_two(op, TAKES[takes][0], otherwise)


def _pair(name: str, x: Any, y: Any, takes: str) -> tuple[Any, Any]:
    """`prepare` of two; a number beside a float tensor needs no search for a common dtype."""
    first, number = (x, y) if isinstance(x, Tensor) else (y, x)
    if (type(number) is float or type(number) is int) and isinstance(first, Tensor) \
            and first.data.dtype.kind == "f" and "f" in TAKES[takes][0]:
        return x, y
    x, y = prepare(name, (x, y), takes)
    return x, y


def _sign_of(x: Tensor) -> Tensor:
    return sign(x.detach())


def _cast_vjp(g: Tensor, out: Tensor, x: Tensor, dtype: DType) -> Tensor:
    if dtype.kind == "c":
        raise GradientError("cast: gradients through complex numbers are not built",
                            "compute with real and imaginary parts as two tensors, or x.detach()")
    return cast(g, x.dtype)


cast_op = define(Op(
    "cast", "pointwise", _result_rule("cast", "param"), lambda k, x, dtype: k.cast(x, dtype),
    lambda k, x, dtype: k.cast(x, dtype), each(_cast_vjp), "Cast"))


def cast(x: Tensor, dtype: DType) -> Tensor:
    """`x` in another dtype; `x` itself where it has that dtype already."""
    if x.data.dtype == dtype:
        return x
    # integers have no gradient: what is cast to them is off the tape
    return apply(cast_op, (x if dtypes.kind(dtype) in "fc" else x.detach(),), {"dtype": dtype})


def astype(x: Tensor, dtype: Any) -> Tensor:
    """`x` in another dtype, as a tensor of its own; a float drops its fraction as an integer.

    >>> import fusewire as fw
    >>> fw.tensor([-1.5, 2.5]).astype(fw.int64)
    tensor([-1,  2])
    """
    x, wanted = as_tensor("astype", x), dtypes.as_dtype(dtype)
    return alias(x) if x.dtype == wanted else cast(x, wanted)


alias = pointwise("alias", lambda k, x: x, lambda g, out, x: g, impl=lambda k, x: x.view(),
                  onnx="Identity")

# ---- arithmetic
add = pointwise("add", lambda k, x, y: x + y,
                lambda g, out, x, y: g, lambda g, out, x, y: g, onnx="Add")
subtract = pointwise("subtract", lambda k, x, y: x - y, lambda g, out, x, y: g,
                     lambda g, out, x, y: -g, takes="numeric", onnx="Sub")
multiply = pointwise("multiply", lambda k, x, y: x * y, lambda g, out, x, y: g * y,
                     lambda g, out, x, y: g * x, onnx="Mul")
divide = pointwise("divide", lambda k, x, y: x / y, lambda g, out, x, y: g / y,
                   lambda g, out, x, y: -g * (out / y), takes="float", onnx="Div")
negative = pointwise("negative", lambda k, x: -x, lambda g, out, x: -g, takes="numeric", onnx="Neg")
abs = pointwise("abs", lambda k, x: k.abs(x), lambda g, out, x: g * _sign_of(x), takes="numeric",
                gives="real", onnx="Abs")
sign = pointwise("sign", lambda k, x: k.sign(x), lambda g, out, x: g * 0.0, takes="numeric",
                 onnx="Sign")
floor_divide = pointwise("floor_divide", lambda k, x, y: k.floor_divide(x, y),
                         lambda g, out, x, y: g * 0.0, lambda g, out, x, y: g * 0.0,
                         takes="real numeric")
remainder = pointwise("remainder", lambda k, x, y: k.remainder(x, y), lambda g, out, x, y: g,
                      lambda g, out, x, y: -g * floor_divide(x, y), takes="real numeric")


def _pow_base_vjp(g: Tensor, out: Tensor, x: Any, y: Any) -> Tensor:
    """g * y * x ** (y - 1), and 0 for y = 0, where 0 ** -1 would make it nan."""
    if not isinstance(y, Tensor):
        return g * (pow(x, y - 1) * y) if y != 0 else g * 0.0
    return g * where(equal(y, 0), 0.0, y * pow(x, y - 1))


def _pow_exponent_vjp(g: Tensor, out: Tensor, x: Any, y: Any) -> Tensor:
    """g * out * log(x), and 0 for x = 0: 0 ** y does not change with a positive y."""
    if not isinstance(x, Tensor):
        return g * (out * (math.log(x) if x > 0 else 0.0 if x == 0 else math.nan))
    zero = equal(x, 0)
    return g * where(zero, 0.0, out * log(where(zero, 1.0, x)))


def _pow(k: Any, x: Any, y: Any) -> Any:
    """x ** y; a whole number to a negative power is 0, but for 1 and -1."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype
    if dtype.kind != "i":
        return k.pow(x, y)
    unit = k.where(y % 2 == 0, x * x, x) if isinstance(y, int) else k.where(y & 1 == 0, x * x, x)
    inverse = k.where((x == 1) | (x == -1), unit, 0)
    if isinstance(y, int):
        return k.pow(x, y) if y >= 0 else inverse
    return k.where(y < 0, inverse, k.pow(x, k.maximum(y, 0)))


pow = pointwise("pow", _pow, _pow_base_vjp, _pow_exponent_vjp,
                takes="numeric", onnx="Pow")
square = pointwise("square", lambda k, x: x * x, lambda g, out, x: g * (x * 2), takes="numeric")
reciprocal = pointwise("reciprocal", lambda k, x: 1 / x, lambda g, out, x: -g * (out * out),
                       takes="float", onnx="Reciprocal")
maximum = pointwise("maximum", lambda k, x, y: k.maximum(x, y),
                    lambda g, out, x, y: _share(g, x, y), lambda g, out, x, y: _share(g, y, x),
                    takes="real", onnx="Max")
minimum = pointwise("minimum", lambda k, x, y: k.minimum(x, y),
                    lambda g, out, x, y: _share(g, y, x), lambda g, out, x, y: _share(g, x, y),
                    takes="real", onnx="Min")


def _share(g: Tensor, x: Any, y: Any) -> Tensor:
    """The part of `g` that goes to x where the larger of x and y counts: ties are halved."""
    return where(equal(x, y), g * 0.5, where(greater(x, y), g, 0.0))


# ---- roots, exponentials, logarithms
sqrt = pointwise("sqrt", lambda k, x: k.sqrt(x), lambda g, out, x: g / (out * 2), takes="float",
                 onnx="Sqrt")
rsqrt = pointwise("rsqrt", lambda k, x: 1 / k.sqrt(x),
                  lambda g, out, x: g * (out * out * out * -0.5), takes="float")
exp = pointwise("exp", lambda k, x: k.exp(x), lambda g, out, x: g * out, takes="float", onnx="Exp")
exp2 = pointwise("exp2", lambda k, x: k.exp2(x), lambda g, out, x: g * (out * math.log(2.0)),
                 takes="float")
expm1 = pointwise("expm1", lambda k, x: k.expm1(x), lambda g, out, x: g * (out + 1), takes="float")
log = pointwise("log", lambda k, x: k.log(x), lambda g, out, x: g / x, takes="float", onnx="Log")
log1p = pointwise("log1p", lambda k, x: k.log1p(x), lambda g, out, x: g / (x + 1), takes="float")
log2 = pointwise("log2", lambda k, x: k.log2(x), lambda g, out, x: g / (x * math.log(2.0)),
                 takes="float")
log10 = pointwise("log10", lambda k, x: k.log10(x), lambda g, out, x: g / (x * math.log(10.0)),
                  takes="float")
hypot = pointwise("hypot", lambda k, x, y: k.hypot(x, y), lambda g, out, x, y: g * (x / out),
                  lambda g, out, x, y: g * (y / out), takes="real float")

# ---- trigonometry
sin = pointwise("sin", lambda k, x: k.sin(x),
                lambda g, out, x: g * cos(x),  # type: ignore[has-type]
                takes="float", onnx="Sin")
cos = pointwise("cos", lambda k, x: k.cos(x), lambda g, out, x: -g * sin(x), takes="float",
                onnx="Cos")
tan = pointwise("tan", lambda k, x: k.tan(x), lambda g, out, x: g * (out * out + 1),
                takes="float", onnx="Tan")
asin = pointwise("asin", lambda k, x: k.asin(x), lambda g, out, x: g * rsqrt(1 - x * x),
                 takes="float", onnx="Asin")
acos = pointwise("acos", lambda k, x: k.acos(x), lambda g, out, x: -g * rsqrt(1 - x * x),
                 takes="float", onnx="Acos")
atan = pointwise("atan", lambda k, x: k.atan(x), lambda g, out, x: g / (x * x + 1),
                 takes="float", onnx="Atan")
atan2 = pointwise("atan2", lambda k, x, y: k.atan2(x, y),
                  lambda g, out, x, y: g * (y / (x * x + y * y)),
                  lambda g, out, x, y: -g * (x / (x * x + y * y)), takes="real float")
sinh = pointwise("sinh", lambda k, x: k.sinh(x),
                 lambda g, out, x: g * cosh(x),  # type: ignore[has-type]
                 takes="float", onnx="Sinh")
cosh = pointwise("cosh", lambda k, x: k.cosh(x), lambda g, out, x: g * sinh(x), takes="float",
                 onnx="Cosh")
tanh = pointwise("tanh", lambda k, x: k.tanh(x), lambda g, out, x: g * (1 - out * out),
                 takes="float", onnx="Tanh")
asinh = pointwise("asinh", lambda k, x: k.asinh(x), lambda g, out, x: g * rsqrt(x * x + 1),
                  takes="float", onnx="Asinh")
acosh = pointwise("acosh", lambda k, x: k.acosh(x), lambda g, out, x: g * rsqrt(x * x - 1),
                  takes="float", onnx="Acosh")
atanh = pointwise("atanh", lambda k, x: k.atanh(x), lambda g, out, x: g / (1 - x * x),
                  takes="float", onnx="Atanh")
erf = pointwise("erf", lambda k, x: k.erf(x),
                lambda g, out, x: g * (exp(-x * x) * (2 / math.sqrt(math.pi))), takes="real float",
                onnx="Erf")

# ---- rounding and parts: constant between jumps

floor = pointwise("floor", lambda k, x: k.floor(x), lambda g, out, x: g * 0.0, takes="real float",
                  onnx="Floor")
ceil = pointwise("ceil", lambda k, x: k.ceil(x), lambda g, out, x: g * 0.0, takes="real float",
                 onnx="Ceil")
trunc = pointwise("trunc", lambda k, x: k.trunc(x), lambda g, out, x: g * 0.0, takes="real float")
round = pointwise("round", lambda k, x: k.round(x), lambda g, out, x: g * 0.0, takes="real float",
                  onnx="Round")
copysign = pointwise("copysign", lambda k, x, y: k.copysign(x, y),
                     lambda g, out, x, y: where(equal(out, x), g, -g),  # type: ignore[has-type]
                     lambda g, out, x, y: g * 0.0, takes="real float")

# ---- comparisons and logic
equal = pointwise("equal", lambda k, x, y: x == y, gives="bool", onnx="Equal")
not_equal = pointwise("not_equal", lambda k, x, y: x != y, gives="bool")
less = pointwise("less", lambda k, x, y: x < y, takes="real", gives="bool", onnx="Less")
less_equal = pointwise("less_equal", lambda k, x, y: x <= y, takes="real", gives="bool",
                       onnx="LessOrEqual")
greater = pointwise("greater", lambda k, x, y: x > y, takes="real", gives="bool", onnx="Greater")
greater_equal = pointwise("greater_equal", lambda k, x, y: x >= y, takes="real", gives="bool",
                          onnx="GreaterOrEqual")
isnan = pointwise("isnan", lambda k, x: k.isnan(x), takes="float", gives="bool", onnx="IsNaN")
isinf = pointwise("isinf", lambda k, x: k.isinf(x), takes="float", gives="bool", onnx="IsInf")
isfinite = pointwise("isfinite", lambda k, x: k.isfinite(x), takes="float", gives="bool")
signbit = pointwise("signbit", lambda k, x: k.signbit(x), takes="real float", gives="bool")
logical_and = pointwise("logical_and", lambda k, x, y: x & y, takes="bool", onnx="And")
logical_or = pointwise("logical_or", lambda k, x, y: x | y, takes="bool", onnx="Or")
logical_xor = pointwise("logical_xor", lambda k, x, y: x ^ y, takes="bool", onnx="Xor")
logical_not = pointwise("logical_not", lambda k, x: ~x, takes="bool", onnx="Not")
bitwise_and = pointwise("bitwise_and", lambda k, x, y: x & y, takes="bits")
bitwise_or = pointwise("bitwise_or", lambda k, x, y: x | y, takes="bits")
bitwise_xor = pointwise("bitwise_xor", lambda k, x, y: x ^ y, takes="bits")
bitwise_invert = pointwise("bitwise_invert", lambda k, x: ~x, takes="bits")
bitwise_left_shift = pointwise("bitwise_left_shift", lambda k, x, y: x << y, takes="whole")
bitwise_right_shift = pointwise("bitwise_right_shift", lambda k, x, y: x >> y, takes="whole")

# ---- activations
relu = pointwise("relu", lambda k, x: k.maximum(x, 0), lambda g, out, x: where(out > 0, g, 0.0),
                 takes="real numeric", onnx="Relu")
sigmoid = pointwise("sigmoid", lambda k, x: 1 / (1 + k.exp(-x)),
                    lambda g, out, x: g * (out * (1 - out)), takes="float", onnx="Sigmoid")

# ---- choice
where_op = define(Op(
    "where", "pointwise", _result_rule("where", "same"), lambda k, c, x, y: k.where(c, x, y),
    lambda k, c, x, y: k.where(c, x, y),
    each(None, lambda g, out, c, x, y: where(c, g, 0.0), lambda g, out, c, x, y: where(c, 0.0, g)),
    "Where"))


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Elements of `x` where `condition` holds, else of `y`; shapes broadcast.

    >>> import fusewire as fw
    >>> fw.where(fw.tensor([True, False]), fw.tensor([1.0, 2.0]), 0)
    tensor([1., 0.])
    """
    (condition,) = prepare("where", (condition,), "bool")
    x, y = prepare("where", (x, y), "any")
    return apply(where_op, (condition, x, y))


def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """`x` limited to between `min` and `max`; None leaves a side open.

    >>> import fusewire as fw
    >>> fw.tensor([-1.0, 0.5, 2.0]).clip(0, 1)
    tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        return alias(as_tensor("clip", x))
    out = x if min is None else maximum(x, min)
    return out if max is None else minimum(out, max)
