"""Binds operators and methods to Tensor, from the functions of the ops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from .. import interpreter
from ..arrays import dtypes
from ..autograd import engine, hooks
from ..core.dispatch import known, replace
from ..core.tensor import Tensor, tensor
from ..core.views import linked
from ..errors import DTypeError, ShapeError
from ..ops import create, declare
from ..ops.declare import OPERANDS
from ..ops.elementwise import complex, pointwise
from ..ops.indexing import scatter, search, sort
from ..ops.products import contract, matrix
from ..ops.random import generator
from ..ops.reduction import reduce, softmax
from ..ops.shape import join, rearrange, view, window
from ..ops.special import gamma, special
from ..ops.statistics import cumulative, statistics
from ..ops.transfer import beside
from . import copying, display, dlpack, indexing, numpy_protocols

_BINARY = {
    "add": pointwise.add, "sub": pointwise.subtract, "mul": pointwise.multiply,
    "truediv": pointwise.divide, "floordiv": pointwise.floor_divide, "mod": pointwise.remainder,
    "pow": pointwise.pow, "matmul": contract.matmul, "and": pointwise.bitwise_and,
    "or": pointwise.bitwise_or, "xor": pointwise.bitwise_xor,
    "lshift": pointwise.bitwise_left_shift, "rshift": pointwise.bitwise_right_shift,
}
_COMPARE = {"eq": pointwise.equal, "ne": pointwise.not_equal, "lt": pointwise.less,
            "le": pointwise.less_equal, "gt": pointwise.greater, "ge": pointwise.greater_equal}
_UNARY = {"neg": pointwise.negative, "pos": pointwise.positive, "abs": pointwise.abs,
          "invert": pointwise.bitwise_invert}
_METHODS: dict[Any, Sequence[str]] = {
    pointwise: ("abs sign sqrt rsqrt exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos "
                "atan sinh cosh tanh asinh acosh atanh erf floor ceil trunc round isnan isinf "
                "isfinite logical_and logical_or logical_xor logical_not relu sigmoid astype clip "
                "square maximum minimum reciprocal pow").split(),
    complex: ("conj", "angle"),
    gamma: ("digamma", "lgamma"),
    special: ("erfc", "erfinv", "logit", "sinc", "xlogy"),
    generator: ("bernoulli_", "normal_", "uniform_"),
    window: ("unfold",),
    reduce: "sum prod max min any all mean var std".split(),
    contract: ("matmul", "vecdot"),
    matrix: "cross diag diagonal kron outer trace".split(),
    view: ("reshape squeeze expand_dims flatten permute_dims transpose broadcast_to flip "
           "take").split(),
    cumulative: "cummax cummin cumprod cumsum diff logcumsumexp".split(),
    join: "chunk split tensor_split unstack".split(),
    rearrange: "moveaxis repeat roll tile unflatten".split(),
    scatter: ("gather index_add index_fill masked_fill masked_select scatter scatter_add "
              "take_along_axis").split(),
    search: "argmax argmin argwhere count_nonzero nonzero".split(),
    sort: "argsort kthvalue sort topk".split(),
    statistics: ("bincount median nanmax nanmean nanmedian nanmin nanquantile nanstd nansum nanvar "
                 "quantile").split(),
    softmax: ("softmax", "log_softmax", "logsumexp"),
    engine: ("backward", "detach_"),
    hooks: ("register_hook", "register_post_accumulate_grad_hook", "retain_grad"),
}


def _operator(fn: Callable[..., Tensor]) -> Callable[[Tensor, Any], Any]:
    if hasattr(fn, "takes"):
        return declare.operator_of(fn)
    return lambda self, other: fn(self, other) if _fits(fn, other) else NotImplemented


def _swapped(fn: Callable[..., Tensor]) -> Callable[[Tensor, Any], Any]:
    return lambda self, other: fn(other, self) if _fits(fn, other) else NotImplemented


def _fits(fn: Callable[..., Tensor], other: Any) -> bool:
    if type(other) in (list, tuple):
        raise declare.no_operand(fn.__name__, other)
    return isinstance(other, OPERANDS)


def update(x: Tensor, value: Any) -> Tensor:
    """`x` changed in place to `value`, which broadcasts to its shape and is cast to its dtype."""
    given = value if isinstance(value, Tensor) else tensor(value, dtype=x.dtype)
    given = beside(given, x)
    return replace(x, pointwise.cast(view.broadcast_to(given, x.shape), x.dtype))


def _in_place(fn: Callable[..., Tensor], name: str) -> Callable[[Tensor, Any], Tensor]:
    unheld = _UNHELD if name.endswith("=") else -1

    def method(self: Tensor, other: Any) -> Tensor:
        out = fn(self, other)
        if out._data.shape != self._data.shape:
            raise ShapeError(f"{name}: the result has shape {out.shape}, which does not fit back "
                             f"into {self.shape}", "write x = x + y to make a new tensor")
        if out._data.dtype != self._data.dtype:
            if not dtypes.holds(self.dtype, out.dtype):
                raise DTypeError(f"{name}: the result is {out.dtype.name}, which does not fit back "
                                 f"into {self.dtype.name}",
                                 "write x = x + y to make a new tensor")
            out = pointwise.cast(out, self.dtype)
        if self._base is not None and sys.getrefcount(self) == unheld:
            return out  # x[0] += 1 goes on with x[0] = out
        return replace(self, out)

    return method


class _InPlaceProbe:
    """Something that is added to: how many references to it `_in_place` sees."""

    def __iadd__(self, seen: list[int]) -> _InPlaceProbe:
        seen.append(sys.getrefcount(self))
        return self


def _unheld() -> int:
    """References that `x[i] += y` shows to the tensor that no variable holds.

    -1 for a Python that counts no others for a tensor in a variable.
    """
    seen: list[int] = []
    made = _InPlaceProbe()
    made += seen
    list_of: dict[int, Any] = _Fresh()
    list_of[0] += seen
    return seen[1] if seen[1] < seen[0] else -1


class _Fresh(dict[int, Any]):
    """A dict that gives a new object for every key."""

    def __getitem__(self, key: int) -> _InPlaceProbe:
        return _InPlaceProbe()


_UNHELD = _unheld()


def _fill(self: Tensor, value: Any) -> Tensor:
    """This tensor with every element set to `value`."""
    return update(self, create.full(self.shape, value, self.dtype, self.device))


def _zero(self: Tensor) -> Tensor:
    """This tensor with every element set to 0."""
    return _fill(self, 0)


def _transposed(self: Tensor) -> Tensor:
    """The matrix with rows and columns exchanged; needs exactly two axes."""
    if self.ndim != 2:
        raise ShapeError(f".T needs a matrix, this tensor has shape {self.shape}",
                         "use .mT for the last two axes, or permute_dims")
    if interpreter.in_use:
        return view.transpose(self, 0, 1)
    out = known(view.permute_op, self, self._data.T, {"axes": (1, 0)})
    out._base = ref(self) if self._base is None else linked(self)
    return out


def _many(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A method that takes its sequence as one argument or spread out: x.reshape(2, 3)."""
    def method(self: Tensor, *args: Any) -> Tensor:
        return fn(self, args[0] if len(args) == 1 and not isinstance(args[0], int) else args)

    method.__doc__ = fn.__doc__
    return method


_PROTOCOLS = {
    "__array__": numpy_protocols.array, "__array_function__": numpy_protocols.array_function,
    "__array_ufunc__": numpy_protocols.array_ufunc, "__buffer__": numpy_protocols.buffer,
    "__copy__": copying.shallow, "__deepcopy__": copying.deep, "__reduce_ex__": copying.reduced,
    "__setstate__": copying.restored, "__dlpack__": dlpack.dlpack,
    "__dlpack_device__": dlpack.dlpack_device, "__repr__": display.text,
    "_repr_html_": display.notebook,
}


def _bind() -> None:
    for name, function in _PROTOCOLS.items():
        setattr(Tensor, name, function)
    for name, fn in _BINARY.items():
        setattr(Tensor, f"__{name}__", _operator(fn))
        setattr(Tensor, f"__r{name}__", _swapped(fn))
        setattr(Tensor, f"__i{name}__", _in_place(fn, f"{name}="))
        if name != "matmul":
            setattr(Tensor, f"{name}_", _in_place(fn, f"{name}_"))
    for name, fn in _COMPARE.items():
        setattr(Tensor, f"__{name}__", _operator(fn))
    for name, of_one in _UNARY.items():
        setattr(Tensor, f"__{name}__", of_one)
    for module, names in _METHODS.items():
        for name in names:
            setattr(Tensor, name, getattr(module, name))
    for name in ("reshape", "permute_dims", "broadcast_to"):
        setattr(Tensor, name, _many(getattr(view, name)))
    more = {"__getitem__": indexing.getitem, "__setitem__": indexing.setitem, "copy_": update,
            "fill_": _fill, "zero_": _zero, "T": property(_transposed),
            "mT": property(view.matrix_transpose), "retains_grad": property(hooks.retains_grad),
            "real": property(complex.real),
            "imag": property(complex.imag)}
    for name, value in more.items():
        setattr(Tensor, name, value)


_bind()
