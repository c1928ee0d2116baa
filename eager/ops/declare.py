"""Declares pointwise ops: their operand and result dtypes, and the functions that users call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import dtypes
from ..arrays.dtypes import SCALARS, DType
from ..arrays.shapes import TensorType, broadcast
from ..core.dispatch import apply, function_of_one, function_of_two
from ..core.op import OPS, Op, define, each
from ..core.tensor import Tensor, as_tensor, tensor
from ..errors import DTypeError
from .docstrings import docstring

# What an op takes: kinds of NumPy dtypes, their names in an error, and in a docstring.
TAKES = {
    "any": ("biufc", "all dtypes", "of any dtype"),
    "float": ("fc", "floating point numbers", "real or complex; integers and bool become float32"),
    "real float": ("f", "real floating point numbers", "real; integers and bool become float32"),
    "complex": ("c", "complex numbers", "complex"),
    "real": ("biuf", "real numbers and bool", "real or bool"),
    "numeric": ("iufc", "numbers", "real or complex, not bool"),
    "real numeric": ("iuf", "real numbers", "real, not bool"),
    "bits": ("biu", "integers and bool", "integer or bool"),
    "whole": ("iu", "integers", "integer"),
    "bool": ("b", "bool", "of any dtype; 0 is False, any other number True"),
}
_NUMPY_FLOATS = dtypes.characters("f")
OPERANDS = (Tensor, *SCALARS, np.ndarray, np.generic)  # types of a tensor's other operand


def dtype_of_operands(types: tuple[Any, ...]) -> DType:
    """The common dtype of the operands; a leading bool is the condition of `where`."""
    operand_dtypes = [t.dtype for t in types if isinstance(t, TensorType)]
    return operand_dtypes[-1]  # type: ignore[no-any-return]


def result_rule(name: str, gives: str) -> Callable[..., TensorType]:
    """The shape and dtype rule of a pointwise op; `pointwise` explains `gives`."""
    def result(*types: Any, **params: Any) -> TensorType:
        shape = broadcast(name, *[t.shape for t in types if isinstance(t, TensorType)])
        if gives == "param":
            return TensorType(shape, params["dtype"])
        dtype = dtypes.bool if gives == "bool" else dtype_of_operands(types)
        if gives == "real":
            dtype = dtypes.real_of(dtype)
        elif gives == "complex":
            dtype = dtypes.complex_of(dtype)
        return TensorType(shape, dtype)

    return result


def prepare(name: str, xs: tuple[Any, ...], takes: str) -> tuple[Any, ...]:
    """The operands `xs` for an op: tensors cast to a common dtype, and Python scalars."""
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
    if dtypes.is_stored(dtype) and not (name in OPS and OPS[name].stored):
        raise dtypes.only_stored(name, dtype)
    dtype = _accept(name, dtype, takes)
    return tuple([_to(x, dtype) for x in operands])


def operand(name: str, x: Any) -> Any:
    """`x` as a tensor or a Python scalar; arrays become tensors, NumPy scalars Python numbers."""
    if type(x) in SCALARS:
        return x
    if isinstance(x, np.generic):
        return x.item()
    for kind in SCALARS:  # an IntEnum: NumPy would make an array of another dtype from it
        if issubclass(type(x), kind):
            return kind(x)
    return x if isinstance(x, SCALARS) else as_tensor(name, x)


def _to(x: Any, dtype: DType) -> Any:
    if isinstance(x, Tensor):
        return cast(x, dtype)
    if dtype == dtypes.bfloat16 or dtypes.is_stored(dtype):
        return tensor(x, dtype)  # NumPy would promote it with a Python float to float32
    return bool(x) if dtype.kind == "b" else x


def _accept(name: str, dtype: DType, takes: str) -> DType:
    if takes == "bool":
        return dtypes.bool
    kinds, names, _ = TAKES[takes]
    if takes.endswith("float") and dtypes.kind(dtype) in "biu":
        return dtypes.DEFAULT_FLOAT
    if dtypes.kind(dtype) not in kinds:
        raise DTypeError(f"{name}: takes {names}, not {dtype.name}",
                         _cast_hint(kinds, dtype))
    return dtype


def _cast_hint(kinds: str, dtype: DType) -> str:
    if dtypes.kind(dtype) == "c":
        return "use real numbers: fw.real(x), fw.imag(x) or x.abs()"
    target = "float32" if "f" in kinds else "int64" if "i" in kinds else "bool"
    return f"cast the operands first, as with x.astype(fw.{target})"


def pointwise(
    name: str, formula: Callable[..., Any], *vjp: Any, takes: str = "any", gives: str = "same",
    impl: Callable[..., Any] | None = None, onnx: str = "", no_onnx: str = "", keeps: str = "",
    passes: int = 1, doc: str = "", example: tuple[str, ...] = (), space: str = "fw",
    tests_equality: bool = False, stored: bool = False, **why: str,
) -> Callable[..., Tensor]:
    """Declares a pointwise op and returns its function of tensors and numbers.

    takes: a key of TAKES; "float" and "real float" cast integers to float32, "bool" casts all.
    gives: dtype of the result: that of the operands ("same"), their real or complex counterpart, or
    bool. keeps: kinds of dtypes that a function of one operand returns unchanged. no_onnx and
    `why`: the reasons for missing facts. doc, of a public function: one line on its result.
    example: operands and result, see `docstring`. space: the module in which users find it.
    """
    if no_onnx:
        why["onnx"] = no_onnx
    if not vjp and (gives == "bool" or takes in ("bits", "whole", "bool")):
        why.setdefault("vjp", "its result is not a floating point number")
    if not vjp and "vjp" not in why:
        raise KeyError(f"op {name!r} has no vjp and no reason")
    op = define(Op(name, "pointwise", result_rule(name, gives), impl or formula, formula,
                   each(*vjp) if vjp else None, onnx, why, passes=passes,
                   stored=stored, tests_equality=tests_equality))
    function: Any
    if formula.__code__.co_argcount == 2:
        function = function_of_one(op, TAKES[takes][0], _of_any(op, takes, keeps))
    else:
        function = function_of_two(
            op, TAKES[takes][0], lambda x, y: apply(op, _pair(name, x, y, takes)))
    function.__name__ = function.__qualname__ = name
    function.__module__ = formula.__module__  # pickles look the function up by module and name
    if doc:
        function.__doc__ = docstring(f"{space}.{name}", doc, _taken(takes, keeps),
                                     _result_dtype(takes, gives), example)
    function.op, function.takes = op, takes
    return function  # type: ignore[no-any-return]


def _taken(takes: str, keeps: str) -> str:
    """The dtypes that a function takes, in words."""
    text = TAKES[takes][2]
    if keeps:
        return text.replace("and bool become float32", "are returned as they are, bool as float32")
    return text


def _result_dtype(takes: str, gives: str) -> str:
    """The dtype of a function's result, or empty for that of its operands."""
    return "bool" if takes == "bool" else "" if gives == "same" else gives


def _of_any(op: Op, takes: str, keeps: str) -> Callable[[Any], Tensor]:
    def function(x: Any) -> Tensor:
        if keeps and not isinstance(x, SCALARS):
            x = as_tensor(op.name, x)
            if dtypes.kind(x.dtype) in keeps:
                return alias(x)
        return apply(op, prepare(op.name, (x,), takes))

    return function


def operator_of(function: Any) -> Callable[[Any, Any], Any]:
    """A pointwise function for Python's operators: NotImplemented for unknown operands."""
    op, takes = function.op, function.takes

    def otherwise(x: Any, y: Any) -> Any:
        if not isinstance(y, OPERANDS):
            if type(y) in (list, tuple) and op.vjp is not None:  # a comparison is just False
                raise no_operand(op.name, y)
            return NotImplemented
        return apply(op, _pair(op.name, x, y, takes))

    return function_of_two(op, TAKES[takes][0], otherwise)


def no_operand(name: str, y: Any) -> DTypeError:
    """The error for a Python list as operand."""
    return DTypeError(f"{name}: takes tensors and numbers, not {type(y).__name__}",
                      f"make a tensor of the {type(y).__name__} first: fw.tensor({y!r:.40})")


def _pair(name: str, x: Any, y: Any, takes: str) -> tuple[Any, Any]:
    """`prepare` for two operands; a number beside a float tensor needs no common dtype."""
    first, number = (x, y) if isinstance(x, Tensor) else (y, x)
    if (type(number) is float or type(number) is int) and isinstance(first, Tensor) \
            and first._data.dtype.char in _NUMPY_FLOATS and "f" in TAKES[takes][0]:
        return x, y
    x, y = prepare(name, (x, y), takes)
    return x, y


def in_float32(formula: Callable[..., Any]) -> Callable[..., Any]:
    """`formula` computed in float32 for bfloat16 and rounded once, at its end."""
    @functools.wraps(formula)
    def computed(k: Any, x: Any, **params: Any) -> Any:
        if x.dtype != dtypes.bfloat16:
            return formula(k, x, **params)
        return k.cast(formula(k, k.cast(x, dtypes.float32), **params), x.dtype)

    return computed


def _cast_vjp(g: Tensor, out: Tensor, x: Tensor, dtype: DType) -> Tensor:
    if dtypes.is_stored(x.dtype):  # its gradients are added, and must not be rounded to 8 bits
        return g
    return explicit_cast(g, x.dtype)  # a real x gets the real part of a complex gradient


cast_op = define(Op(
    "cast", "pointwise", result_rule("cast", "param"), lambda k, x, dtype: k.cast(x, dtype),
    lambda k, x, dtype: k.cast(x, dtype), each(_cast_vjp), "Cast",
    stored=True))


def cast(x: Tensor, dtype: DType) -> Tensor:
    """`x` in the dtype `dtype`; returns `x` itself if it has that dtype.

    DTypeError for a dtype that is only stored, except to bool: no function casts it unasked.
    """
    if x._data.dtype == dtype:
        return x
    if dtypes.is_stored(x._data.dtype) and dtype is not dtypes.bool:
        raise dtypes.only_stored("", x._data.dtype)
    return explicit_cast(x, dtype)


def explicit_cast(x: Tensor, dtype: DType) -> Tensor:
    """`cast` where the user asked for the dtype; from all dtypes."""
    if x._data.dtype == dtype:
        return x
    # Integers have no gradient: a cast to them leaves the tape.
    return apply(cast_op, (x if dtypes.kind(dtype) in "fc" else x.detach(),), {"dtype": dtype})


alias = pointwise("alias", lambda k, x: x, lambda g, out, x: g, impl=lambda k, x: x.view(),
                  onnx="Identity", stored=True)
