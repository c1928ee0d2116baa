"""Tells users of NumPy and PyTorch our name for a function that they know under another one.

Each function has one name here; another library's name for it raises an AttributeError with ours.
On modules `__getattr__` does so, which Python calls for missing names only. On a class it would
slow every other attribute down two to three times, since Python then does not specialize its
look-ups. So each such name of a tensor is a descriptor that raises.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from ..core.tensor import Tensor
from ..errors import FusewireError
from .public_modules import MODULES, list_public_names, public_names

__all__ = ["MissingNameError"]

FUNCTIONS = {
    "BoolTensor": "fw.tensor", "ByteTensor": "fw.tensor", "DoubleTensor": "fw.tensor",
    "FloatTensor": "fw.tensor", "IntTensor": "fw.tensor", "LongTensor": "fw.tensor",
    "Size": "tuple", "absolute": "fw.abs", "amax": "fw.max",
    "amin": "fw.min", "arccos": "fw.acos", "arccosh": "fw.acosh", "arcsin": "fw.asin",
    "arcsinh": "fw.asinh", "arctan": "fw.atan", "arctan2": "fw.atan2", "arctanh": "fw.atanh",
    "array": "fw.tensor", "as_tensor": "fw.asarray",
    "bitwise_not": "fw.bitwise_invert", "bmm": "fw.matmul",
    "broadcast_tensors": "fw.broadcast_arrays", "cat": "fw.concat", "char": "fw.int8",
    "cdouble": "fw.complex128", "cfloat": "fw.complex64", "clamp": "fw.clip",
    "clamp_max": "fw.minimum", "clamp_min": "fw.maximum",
    "clone": "fw.asarray(x, copy=True)", "concatenate": "fw.concat", "conjugate": "fw.conj",
    "conj_physical": "fw.conj", "constant_pad_nd": "fw.nn.functional.pad",
    "copy": "fw.asarray(x, copy=True)", "device": '"cpu" or "cuda"',
    "div": "fw.divide", "dot": "fw.matmul",
    "double": "fw.float64", "eq": "fw.equal", "fliplr": "fw.flip(x, axis=1)",
    "flipud": "fw.flip(x, axis=0)", "float": "fw.float32",
    "ge": "fw.greater_equal", "gt": "fw.greater", "half": "fw.float16", "histc": "fw.histogram",
    "index_select": "fw.take(x, fw.tensor([0, 1]), axis=0)",
    "igamma": "fw.special.gammainc", "igammac": "fw.special.gammaincc", "int": "fw.int32",
    "invert": "fw.bitwise_invert", "is_tensor": "isinstance(x, fw.Tensor)",
    "jit": "fw.compile",
    "le": "fw.less_equal", "left_shift": "fw.bitwise_left_shift",
    "long": "fw.int64", "lt": "fw.less", "mm": "fw.matmul", "movedim": "fw.moveaxis",
    "msort": "fw.sort(x, axis=0)", "mul": "fw.multiply", "mv": "fw.matmul",
    "mvlgamma": "fw.special.multigammaln", "narrow": "x[0:1]", "nanpercentile": "fw.nanquantile",
    "ndarray": "fw.Tensor", "ne": "fw.not_equal", "neg": "fw.negative",
    "nonzero_static": "fw.nonzero", "percentile": "fw.quantile",
    "permute": "fw.permute_dims", "pinverse": "fw.linalg.pinv", "power": "fw.pow",
    "ravel": "fw.flatten",
    "repeat_interleave": "fw.repeat", "right_shift": "fw.bitwise_right_shift", "rint": "fw.round",
    "row_stack": "fw.vstack", "rsub": "y - x", "scalar_tensor": "fw.tensor", "select": "x[0]",
    "sgn": "fw.sign", "short": "fw.int16", "split_with_sizes": "fw.split", "spmm": "fw.matmul",
    "sub": "fw.subtract", "swapaxes": "fw.transpose", "swapdims": "fw.transpose", "t": "x.T",
    "take_along_dim": "fw.take_along_axis", "trapz": "fw.trapezoid",
    "triangular_solve": "fw.linalg.solve_triangular", "true_divide": "fw.divide",
    "unbind": "fw.unstack", "vdot": "fw.vecdot",
    "unique": "fw.unique_values", "unsqueeze": "fw.expand_dims",
}
"""A name that `fw` lacks -> the expression to use, perhaps of tensors `x` and `y`."""

METHODS = {
    "abs_": "x.copy_(x.abs())", "add": "x + y", "addcdiv_": "x.copy_(x.addcdiv(x, y))",
    "addcmul_": "x.copy_(x.addcmul(x, y))", "amax": "x.max",
    "amin": "x.min", "arccos": "x.acos", "arcsin": "x.asin", "arctan": "x.atan",
    "bfloat16": "x.astype(fw.bfloat16)", "bmm": "x.matmul", "bool": "x.astype(fw.bool)",
    "byte": "x.astype(fw.uint8)", "char": "x.astype(fw.int8)",
    "clamp_max": "x.minimum", "clamp_min": "x.maximum",
    "clamp": "x.clip", "clamp_": "x.copy_(x.clip(0, 1))",
    "clone": "fw.asarray(x, copy=True)", "conjugate": "x.conj",
    "contiguous": "x  # every tensor is contiguous to those who read it",
    "copy": "fw.asarray(x, copy=True)",
    "dim": "x.ndim", "div": "x / y",
    "div_": "x.truediv_(2)", "divide": "x / y", "dot": "x.matmul", "double": "x.astype(fw.float64)",
    "element_size": "x.dtype.itemsize", "eq": "x == y", "equal": "fw.all(x == y)",
    "exp_": "x.copy_(x.exp())", "expand": "x.broadcast_to((2, 2))  # all sizes written out",
    "expand_as": "x.broadcast_to(y.shape)",
    "fill_diagonal_": "x.copy_(fw.where(fw.eye(2, dtype=fw.bool), 1, x))",
    "float": "x.astype(fw.float32)", "ge": "x >= y",
    "get_device": "x.device", "grad_fn": "x.is_leaf", "greater": "x > y", "gt": "x > y",
    "half": "x.astype(fw.float16)", "histogram": "fw.histogram",
    "index_add_": "x.copy_(x.index_add(0, fw.tensor([0, 1]), y))",
    "index_fill_": "x.copy_(x.index_fill(0, fw.tensor([0]), 0))",
    "index_select": "fw.take(x, fw.tensor([0, 1]), axis=0)", "int": "x.astype(fw.int32)",
    "is_contiguous": "x  # every tensor is contiguous to those who read it",
    "is_floating_point": 'fw.isdtype(x.dtype, "real floating")',
    "isin": "fw.isin", "istft": "fw.istft",
    "itemsize": "x.dtype.itemsize", "le": "x <= y",
    "lerp_": "x.copy_(x.lerp(y, 0.1))", "less": "x < y", "log_": "x.copy_(x.log())",
    "long": "x.astype(fw.int64)", "lt": "x < y", "masked_fill_": "x.copy_(x.masked_fill(y > 0, 0))",
    "mm": "x.matmul", "movedim": "x.moveaxis", "msort": "x.sort(axis=0)", "mul": "x * y",
    "multiply": "x * y",
    "mv": "x.matmul", "mvlgamma": "fw.special.multigammaln", "narrow": "x[0:1]",
    "ndimension": "x.ndim", "ne": "x != y", "neg": "-x",
    "nelement": "x.size", "new_empty": "fw.empty", "new_full": "fw.full", "new_ones": "fw.ones",
    "new_tensor": "fw.tensor", "new_zeros": "fw.zeros", "norm": "fw.linalg.norm", "numel": "x.size",
    "permute": "x.permute_dims", "pinverse": "fw.linalg.pinv",
    "pin_memory": "x  # copies to a GPU need no preparation",
    "power": "x ** y",
    "ptp": "x.max() - x.min()", "random_": "x.copy_(fw.randint(0, 2, x.shape))",
    "ravel": "x.flatten", "relu_": "x.copy_(x.relu())", "renorm": "fw.linalg.renorm",
    "repeat_interleave": "x.repeat", "reshape_as": "x.reshape(y.shape)",
    "resolve_conj": "x  # conj computes at once", "resolve_neg": "x  # -x computes at once",
    "round_": "x.copy_(x.round())",
    "scatter_": "x.copy_(x.scatter(0, fw.tensor([[0, 1], [1, 0]]), y))",
    "scatter_add_": "x.copy_(x.scatter_add(0, fw.tensor([[0, 1], [1, 0]]), y))", "select": "x[0]",
    "sgn": "x.sign", "short": "x.astype(fw.int16)", "sigmoid_": "x.copy_(x.sigmoid())",
    "sqrt_": "x.copy_(x.sqrt())",
    "split_with_sizes": "x.split", "squeeze_": "x.squeeze", "stft": "fw.stft",
    "stride": "x.shape  # a tensor has no strides that count",
    "sub": "x - y", "subtract": "x - y", "swapaxes": "x.transpose", "swapdims": "x.transpose",
    "t": "x.T", "take_along_dim": "x.take_along_axis",
    "tanh_": "x.copy_(x.tanh())", "to_dense": "x  # there are no sparse tensors",
    "to_sparse": "x  # there are no sparse tensors", "tril": "fw.tril", "triu": "fw.triu",
    "true_divide": "x / y", "type": "x.astype", "type_as": "x.astype(y.dtype)",
    "unbind": "x.unstack",
    "unique": "fw.unique_values(x)", "unsqueeze": "x.expand_dims", "unsqueeze_": "x.expand_dims",
    "vdot": "x.vecdot",
    "view": "x.reshape", "view_as": "x.reshape(y.shape)", "where": "fw.where",
}
"""A name that a tensor `x` lacks -> the expression to use, perhaps with a tensor `y`."""

_CPU = 'devices are "cpu" and "cuda" only: leave out code for others'
ABSENT = {
    "DataParallel": "use the module itself: one process uses all cores", "accelerator": _CPU,
    "DistributedDataParallel": "use the module itself: one process uses all cores",
    "Variable": "every tensor can have a gradient: fw.tensor(values, requires_grad=True)",
    "backends": _CPU, "cudnn": _CPU, "mps": _CPU, "xpu": _CPU,
    "distributions": ("sample with fw.multinomial, fw.bernoulli or fw.normal; for categories "
                      "log_prob is fw.log_softmax(logits, axis=-1) at the index of the sample"),
    "dtype": "dtypes are those of NumPy: fw.float32 and others; annotate with numpy.dtype",
    "get_default_dtype": "the default is fw.float32", "hub": "load weights with fw.load",
    "multiprocessing": "use Python's multiprocessing", "profiler": "use Python's cProfile",
    "set_default_device": 'name the device: fw.zeros(3, device="cuda"), model.to("cuda")',
    "set_default_dtype": "the default is float32: give dtype= to each, or call model.double()",
    "set_float32_matmul_precision": "leave it out: products of float32 are computed in float32",
    "sparse": "there are no sparse tensors", "tensorboard": "print or plot what you want to see",
    "torchvision": "examples/models has models with its names; images are NumPy arrays",
    "use_deterministic_algorithms": "leave it out: the same call always gives the same bits",
}
"""Names without a counterpart here -> the alternative in words."""

SPACES: dict[str, Any] = {}  # loaded modules with hints, by their public path
DEFERRED: dict[str, Callable[[], Any]] = {}  # names of the package that load on first use


class MissingNameError(FusewireError, AttributeError):
    """A name that a module or a tensor does not have."""

    def __init__(self, owner: str, name: str, hint: Callable[[], str]) -> None:
        super().__init__(f"{owner} has no attribute {name!r}")
        self.name, self.hint = name, hint

    def __str__(self) -> str:
        self.help = self.hint()  # computed late: most look-ups of missing names come from `hasattr`
        return super().__str__()

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


class Missing:
    """An attribute that raises, for a name that tensors do not have."""

    __slots__ = ("hint", "name")

    def __init__(self, name: str, hint: str) -> None:
        self.name, self.hint = name, hint

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise MissingNameError("a tensor", self.name, lambda: f"use {self.hint}")


def install(package: Any, deferred: Mapping[str, Callable[[], Any]]) -> None:
    """Makes `package`, its public modules and tensors say what to use instead of missing names.

    `deferred` are functions that load further names of the package when a program first uses them.
    """
    DEFERRED.update(deferred)
    package.__all__ = sorted({*public_names(package), *deferred})
    _add("fw", package, DEFERRED)
    for path, module in MODULES.items():
        add(path, module)
    for name, hint in METHODS.items():
        setattr(Tensor, name, Missing(name, hint))
    Tensor.__dir__ = _names  # type: ignore[assignment, method-assign]


def add(path: str, module: ModuleType) -> None:
    """Makes the public module at `path` below the package say what to use for missing names."""
    _add(f"fw.{path}", module, {})


def _add(path: str, module: ModuleType, deferred: Mapping[str, Callable[[], Any]]) -> None:
    SPACES[path] = module
    module.__getattr__ = _getattr(path, module, deferred)  # type: ignore[method-assign]
    list_public_names(module)


def spaces() -> dict[str, Any]:
    """All modules with hints, by their public path. This loads those that are not loaded yet."""
    for name in DEFERRED:
        getattr(SPACES["fw"], name)
    return SPACES


def _names(x: Tensor) -> list[str]:
    return sorted({*object.__dir__(x)} - {*METHODS})


def _getattr(path: str, module: ModuleType, deferred: Mapping[str, Callable[[], Any]]
             ) -> Callable[[str], Any]:
    def attribute(name: str) -> Any:
        if name in deferred:
            value = deferred[name]()
            setattr(module, name, value)
            return value
        if name.startswith("_"):  # protocols look these up and need no advice
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        raise MissingNameError(path, name, lambda: suggestion(name, path))

    return attribute


def suggestion(name: str, path: str) -> str:
    """The name to use for `name`, which the module at `path` does not have, or an empty text."""
    if name in FUNCTIONS:
        return f"use {FUNCTIONS[name]}"
    if name in ABSENT:
        return ABSENT[name]
    elsewhere = [f"{other}.{name}" for other, module in spaces().items() if name in dir(module)
                 and not isinstance(getattr(module, name), ModuleType)]
    if elsewhere:
        return f"use {' or '.join(elsewhere)}"
    if name in METHODS:
        return f"use {METHODS[name]}"
    if hasattr(Tensor, name):
        return f"it is a method of tensors: x.{name}"
    names = [n for n in dir(SPACES[path]) if not n.startswith("_")]
    near = difflib.get_close_matches(name, names, cutoff=0.75)
    return f"is it {' or '.join(f'{path}.{n}' for n in near)}?" if near else ""
