"""Lists the operators and methods of Tensor and binds them to the class.

`TensorMethods` is the one list. Type checkers and editors see it as a base class of `Tensor`. At
run time its attributes are copied to `Tensor`, so that a method is the very function of its op: the
ops import `Tensor`, which therefore cannot inherit from a class that imports the ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .. import interpreter
from ..arrays.shapes import same
from ..autograd import engine, hooks
from ..core.dispatch import with_data
from ..core.in_place import fill_elements, replace, set_data
from ..core.tensor import Tensor, tensor
from ..core.views import define_access, repeats_elements, view_of
from ..errors import ShapeError
from ..linalg import distance, from_cholesky
from ..ops import create
from ..ops.derived import arithmetic, comparison
from ..ops.elementwise import complex, convert, pointwise
from ..ops.elementwise.clip import clip as limited
from ..ops.indexing import scatter as scatters
from ..ops.indexing import scatter_reduce, search, slice_scatter, slices
from ..ops.indexing import sort as sorts
from ..ops.products import contract, diagonals, matrix, scaled_sums
from ..ops.random import generator
from ..ops.reduction import reduce
from ..ops.reduction import softmax as softmaxes
from ..ops.shape import join, rearrange, view, window
from ..ops.shape import take as takes
from ..ops.special import gamma, special
from ..ops.statistics import cumulative, masked_scatter, moments, sets, statistics
from ..ops.transfer import beside
from . import copying, display, dlpack, indexing, numpy_protocols
from .operators import Binary, Unary, in_place, operator, reflected


def update(x: Tensor, value: Any) -> Tensor:
    """`x` changed in place to `value`, which broadcasts to its shape and is cast to its dtype."""
    source = value if isinstance(value, Tensor) else tensor(value, dtype=x.dtype)
    source = beside(source, x)
    if not same(source.shape, x.shape):
        source = view.broadcast_to(source, x.shape)
    new = pointwise.explicit_cast(source, x.dtype)
    return replace(x, pointwise.alias(new) if new is value else new)


def _fill(self: Tensor, value: Any) -> Tensor:
    """This tensor with every element set to `value`."""
    new = create.full(self.shape, value, self.dtype, self.device)
    if repeats_elements(self):
        fill_elements(self, new)
        return self
    return update(self, new)


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
    out = with_data(view.permute_op, self, self._data.T, {"axes": (1, 0)})
    return view_of(self, out, view.PERMUTED, (1, 0))


def _adjoint(self: Tensor) -> Tensor:
    """The conjugated matrices with rows and columns exchanged: (..., m, n) -> (..., n, m)."""
    return view_of(self, _conj_transposed(self), ADJOINT)


def _conj_transposed(x: Tensor, params: Any = None) -> Tensor:
    out = complex.conj_of(view.matrix_transpose(x))
    out._view = None
    return out


ADJOINT = define_access("mH", _conj_transposed, lambda x, value, _: _conj_transposed(value))


def _data_of(self: Tensor) -> Tensor:
    """A view of this tensor that is not on the tape. `x.data = y` makes x a view of y."""
    return self.detach()


def _spread(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A method that takes its sequence as one argument or spread out: x.reshape(2, 3)."""
    def method(self: Tensor, *args: Any) -> Tensor:
        return fn(self, args[0] if len(args) == 1 and not isinstance(args[0], int) else args)

    method.__doc__ = fn.__doc__
    return method


class TensorMethods:
    """The operators, methods and protocols that `Tensor` takes from other modules."""

    data = property(_data_of, set_data)

    # ---- operators
    __add__: ClassVar[Binary] = operator(pointwise.add)
    __sub__: ClassVar[Binary] = operator(pointwise.subtract)
    __mul__: ClassVar[Binary] = operator(pointwise.multiply)
    __truediv__: ClassVar[Binary] = operator(pointwise.divide)
    __floordiv__: ClassVar[Binary] = operator(pointwise.floor_divide)
    __mod__: ClassVar[Binary] = operator(pointwise.remainder)
    __pow__: ClassVar[Binary] = operator(pointwise.pow)
    __matmul__: ClassVar[Binary] = operator(contract.matmul)
    __and__: ClassVar[Binary] = operator(pointwise.bitwise_and)
    __or__: ClassVar[Binary] = operator(pointwise.bitwise_or)
    __xor__: ClassVar[Binary] = operator(pointwise.bitwise_xor)
    __lshift__: ClassVar[Binary] = operator(pointwise.bitwise_left_shift)
    __rshift__: ClassVar[Binary] = operator(pointwise.bitwise_right_shift)

    __radd__: ClassVar[Binary] = reflected(pointwise.add)
    __rsub__: ClassVar[Binary] = reflected(pointwise.subtract)
    __rmul__: ClassVar[Binary] = reflected(pointwise.multiply)
    __rtruediv__: ClassVar[Binary] = reflected(pointwise.divide)
    __rfloordiv__: ClassVar[Binary] = reflected(pointwise.floor_divide)
    __rmod__: ClassVar[Binary] = reflected(pointwise.remainder)
    __rpow__: ClassVar[Binary] = reflected(pointwise.pow)
    __rmatmul__: ClassVar[Binary] = reflected(contract.matmul)
    __rand__: ClassVar[Binary] = reflected(pointwise.bitwise_and)
    __ror__: ClassVar[Binary] = reflected(pointwise.bitwise_or)
    __rxor__: ClassVar[Binary] = reflected(pointwise.bitwise_xor)
    __rlshift__: ClassVar[Binary] = reflected(pointwise.bitwise_left_shift)
    __rrshift__: ClassVar[Binary] = reflected(pointwise.bitwise_right_shift)

    __iadd__: ClassVar[Binary] = in_place(pointwise.add, "add=")
    __isub__: ClassVar[Binary] = in_place(pointwise.subtract, "sub=")
    __imul__: ClassVar[Binary] = in_place(pointwise.multiply, "mul=")
    __itruediv__: ClassVar[Binary] = in_place(pointwise.divide, "truediv=")
    __ifloordiv__: ClassVar[Binary] = in_place(pointwise.floor_divide, "floordiv=")
    __imod__: ClassVar[Binary] = in_place(pointwise.remainder, "mod=")
    __ipow__: ClassVar[Binary] = in_place(pointwise.pow, "pow=")
    __imatmul__: ClassVar[Binary] = in_place(contract.matmul, "matmul=")
    __iand__: ClassVar[Binary] = in_place(pointwise.bitwise_and, "and=")
    __ior__: ClassVar[Binary] = in_place(pointwise.bitwise_or, "or=")
    __ixor__: ClassVar[Binary] = in_place(pointwise.bitwise_xor, "xor=")
    __ilshift__: ClassVar[Binary] = in_place(pointwise.bitwise_left_shift, "lshift=")
    __irshift__: ClassVar[Binary] = in_place(pointwise.bitwise_right_shift, "rshift=")

    __eq__: ClassVar[Binary] = operator(pointwise.equal)  # type: ignore[assignment]
    __ne__: ClassVar[Binary] = operator(pointwise.not_equal)  # type: ignore[assignment]
    __lt__: ClassVar[Binary] = operator(pointwise.less)
    __le__: ClassVar[Binary] = operator(pointwise.less_equal)
    __gt__: ClassVar[Binary] = operator(pointwise.greater)
    __ge__: ClassVar[Binary] = operator(pointwise.greater_equal)

    __neg__: ClassVar[Unary] = pointwise.negative
    __pos__: ClassVar[Unary] = pointwise.positive
    __abs__: ClassVar[Unary] = pointwise.abs
    __invert__: ClassVar[Unary] = pointwise.bitwise_invert

    # ---- changes in place
    add_ = in_place(pointwise.add, "add_")
    sub_ = in_place(pointwise.subtract, "sub_")
    mul_ = in_place(pointwise.multiply, "mul_")
    truediv_ = in_place(pointwise.divide, "truediv_")
    floordiv_ = in_place(pointwise.floor_divide, "floordiv_")
    mod_ = in_place(pointwise.remainder, "mod_")
    pow_ = in_place(pointwise.pow, "pow_")
    and_ = in_place(pointwise.bitwise_and, "and_")
    or_ = in_place(pointwise.bitwise_or, "or_")
    xor_ = in_place(pointwise.bitwise_xor, "xor_")
    lshift_ = in_place(pointwise.bitwise_left_shift, "lshift_")
    rshift_ = in_place(pointwise.bitwise_right_shift, "rshift_")
    copy_ = update
    fill_ = _fill
    zero_ = _zero
    bernoulli_ = generator.bernoulli_
    normal_ = generator.normal_
    uniform_ = generator.uniform_

    # ---- one element at a time
    abs = pointwise.abs
    sign = pointwise.sign
    sqrt = pointwise.sqrt
    rsqrt = pointwise.rsqrt
    square = pointwise.square
    reciprocal = pointwise.reciprocal
    pow = pointwise.pow
    exp = pointwise.exp
    exp2 = pointwise.exp2
    expm1 = pointwise.expm1
    log = pointwise.log
    log1p = pointwise.log1p
    log2 = pointwise.log2
    log10 = pointwise.log10
    sin = pointwise.sin
    cos = pointwise.cos
    tan = pointwise.tan
    asin = pointwise.asin
    acos = pointwise.acos
    atan = pointwise.atan
    sinh = pointwise.sinh
    cosh = pointwise.cosh
    tanh = pointwise.tanh
    asinh = pointwise.asinh
    acosh = pointwise.acosh
    atanh = pointwise.atanh
    erf = pointwise.erf
    erfc = special.erfc
    erfinv = special.erfinv
    logit = special.logit
    sinc = special.sinc
    xlogy = special.xlogy
    digamma = gamma.digamma
    lgamma = gamma.lgamma
    floor = pointwise.floor
    ceil = pointwise.ceil
    trunc = pointwise.trunc
    round = arithmetic.round
    isnan = pointwise.isnan
    isinf = pointwise.isinf
    isfinite = pointwise.isfinite
    logical_and = pointwise.logical_and
    logical_or = pointwise.logical_or
    logical_xor = pointwise.logical_xor
    logical_not = pointwise.logical_not
    relu = pointwise.relu
    sigmoid = pointwise.sigmoid
    maximum = pointwise.maximum
    minimum = pointwise.minimum
    clip = limited
    astype = pointwise.astype
    addcdiv = scaled_sums.addcdiv
    addcmul = scaled_sums.addcmul
    deg2rad = arithmetic.deg2rad
    float_power = arithmetic.float_power
    fmax = arithmetic.fmax
    fmin = arithmetic.fmin
    fmod = arithmetic.fmod
    frac = arithmetic.frac
    frexp = arithmetic.frexp
    gcd = arithmetic.gcd
    heaviside = arithmetic.heaviside
    lcm = arithmetic.lcm
    ldexp = arithmetic.ldexp
    lerp = arithmetic.lerp
    logaddexp2 = arithmetic.logaddexp2
    allclose = comparison.allclose
    isclose = comparison.isclose
    isneginf = comparison.isneginf
    isposinf = comparison.isposinf
    isreal = comparison.isreal
    nan_to_num = convert.nan_to_num
    rad2deg = convert.rad2deg
    conj = complex.conj
    angle = complex.angle
    real = property(complex.real)
    imag = property(complex.imag)

    # ---- reductions and scans
    sum = reduce.sum
    prod = reduce.prod
    max = reduce.max
    min = reduce.min
    aminmax = reduce.aminmax
    any = reduce.any
    all = reduce.all
    mean = reduce.mean
    var = reduce.var
    std = reduce.std
    softmax = softmaxes.softmax
    log_softmax = softmaxes.log_softmax
    logsumexp = softmaxes.logsumexp
    cummax = cumulative.cummax
    cummin = cumulative.cummin
    cumprod = cumulative.cumprod
    cumsum = cumulative.cumsum
    diff = cumulative.diff
    logcumsumexp = cumulative.logcumsumexp
    bincount = statistics.bincount
    median = statistics.median
    nanmax = statistics.nanmax
    nanmean = statistics.nanmean
    nanmedian = statistics.nanmedian
    nanmin = statistics.nanmin
    nanquantile = statistics.nanquantile
    nanstd = statistics.nanstd
    nansum = statistics.nansum
    nanvar = statistics.nanvar
    quantile = statistics.quantile
    mode = moments.mode

    # ---- products
    matmul = contract.matmul
    vecdot = contract.vecdot
    addbmm = scaled_sums.addbmm
    addmm = scaled_sums.addmm
    addmv = scaled_sums.addmv
    addr = scaled_sums.addr
    baddbmm = scaled_sums.baddbmm
    cholesky_inverse = from_cholesky.cholesky_inverse
    cholesky_solve = from_cholesky.cholesky_solve
    cross = matrix.cross
    diag = matrix.diag
    diag_embed = diagonals.diag_embed
    diagflat = diagonals.diagflat
    diagonal = matrix.diagonal
    diagonal_scatter = diagonals.diagonal_scatter
    dist = distance.dist
    inner = matrix.inner
    kron = matrix.kron
    logdet = from_cholesky.logdet
    outer = matrix.outer
    trace = matrix.trace

    # ---- shapes
    T = property(_transposed)
    mT = property(view.matrix_transpose)
    mH = property(_adjoint)
    reshape = _spread(view.reshape)
    permute_dims = _spread(view.permute_dims)
    broadcast_to = _spread(view.broadcast_to)
    squeeze = view.squeeze
    expand_dims = view.expand_dims
    flatten = view.flatten
    transpose = view.transpose
    flip = view.flip
    unfold = window.unfold
    chunk = join.chunk
    dsplit = join.dsplit
    hsplit = join.hsplit
    split = join.split
    tensor_split = join.tensor_split
    vsplit = join.vsplit
    unstack = join.unstack
    moveaxis = rearrange.moveaxis
    repeat = rearrange.repeat
    roll = rearrange.roll
    rot90 = rearrange.rot90
    tile = _spread(rearrange.tile)
    unflatten = rearrange.unflatten

    # ---- indexing, searching and sorting
    __getitem__ = indexing.getitem
    __setitem__ = indexing.setitem
    take = takes.take
    gather = scatters.gather
    index_add = scatters.index_add
    index_copy = slices.index_copy
    index_fill = scatters.index_fill
    index_put = slices.index_put
    index_reduce = slices.index_reduce
    masked_fill = scatters.masked_fill
    masked_scatter = masked_scatter.masked_scatter
    masked_select = scatters.masked_select
    put = scatter_reduce.put
    scatter = scatters.scatter
    scatter_add = scatters.scatter_add
    scatter_reduce = scatter_reduce.scatter_reduce
    select_scatter = slice_scatter.select_scatter
    slice_scatter = slice_scatter.slice_scatter
    take_along_axis = scatters.take_along_axis
    unique_consecutive = sets.unique_consecutive
    argmax = search.argmax
    argmin = search.argmin
    argwhere = search.argwhere
    count_nonzero = search.count_nonzero
    nonzero = search.nonzero
    argsort = sorts.argsort
    kthvalue = sorts.kthvalue
    sort = sorts.sort
    topk = sorts.topk

    # ---- gradients
    backward = engine.backward
    detach_ = engine.detach_
    register_hook = hooks.register_hook
    register_post_accumulate_grad_hook = hooks.register_post_accumulate_grad_hook
    retain_grad = hooks.retain_grad
    retains_grad = property(hooks.retains_grad)

    # ---- protocols of Python, NumPy and DLPack
    __repr__ = display.text
    _repr_html_ = display.notebook
    __copy__ = copying.shallow
    __deepcopy__ = copying.deep
    __reduce__ = copying.reduced_for_copies
    __reduce_ex__ = copying.reduced
    __setstate__ = copying.restored
    __array__ = numpy_protocols.array
    __array_function__ = numpy_protocols.array_function
    __array_ufunc__ = numpy_protocols.array_ufunc
    __buffer__ = numpy_protocols.buffer
    ctypes = property(numpy_protocols.addresses)
    __dlpack__ = dlpack.dlpack
    __dlpack_device__ = dlpack.dlpack_device


class _NoMethods:
    """A class with the attributes that Python itself gives to `TensorMethods`, and no others."""

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # and so has __annotations__


def listed() -> dict[str, Any]:
    """The attributes that `TensorMethods` lists, by name."""
    return {name: value for name, value in vars(TensorMethods).items()
            if name not in vars(_NoMethods)}


def _bind() -> None:
    for name, value in listed().items():
        setattr(Tensor, name, value)


_bind()
