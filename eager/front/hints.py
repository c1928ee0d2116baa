"""Tells users of NumPy and PyTorch our name for a function that they know under another one.

Each function has one name here; another library's name for it raises an AttributeError with ours.
On modules `__getattr__` does so, which Python calls for missing names only. On a class it would
slow every other attribute down two to three times, since Python then does not specialize its
look-ups. So each such name of a tensor is a descriptor that raises.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from ..core.tensor import Tensor
from ..errors import FusewireError
from .public_modules import MODULES, list_public_names, public_names
from .spellings.same import IN_PLACE
from .spellings.tables import SPELLINGS

__all__ = ["MissingNameError"]

FUNCTIONS = {
    "clip_grad_norm_": "fw.nn.utils.clip_grad_norm_",
    "BoolTensor": "fw.tensor", "ByteTensor": "fw.tensor", "DoubleTensor": "fw.tensor",
    "FloatTensor": "fw.tensor", "IntTensor": "fw.tensor", "LongTensor": "fw.tensor",
    "Size": "tuple", "array": "fw.tensor", "char": "fw.int8", "cdouble": "fw.complex128",
    "cfloat": "fw.complex64", "conjugate": "fw.conj", "constant_pad_nd": "fw.nn.functional.pad",
    "copy": "fw.asarray(x, copy=True)", "device": '"cpu" or "cuda"', "double": "fw.float64",
    "float": "fw.float32", "half": "fw.float16", "int": "fw.int32", "invert": "fw.bitwise_invert",
    "jit": "fw.compile", "left_shift": "fw.bitwise_left_shift", "long": "fw.int64",
    "nanpercentile": "fw.nanquantile", "ndarray": "fw.Tensor", "nonzero_static": "fw.nonzero",
    "percentile": "fw.quantile", "power": "fw.pow", "right_shift": "fw.bitwise_right_shift",
    "rint": "fw.round", "short": "fw.int16", "t": "x.T",
    "triangular_solve": "fw.linalg.solve_triangular", "BFloat16Tensor": "fw.tensor",
    "CharTensor": "fw.tensor", "HalfTensor": "fw.tensor", "ShortTensor": "fw.tensor",
    "frobenius_norm": "fw.linalg.matrix_norm", "frombuffer": "fw.asarray",
    "functional": "fw.nn.functional", "grid_sampler": "fw.nn.functional.grid_sample",
    "gru": "fw.nn.GRU", "gru_cell": "fw.nn.GRUCell", "is_signed": 'x.dtype.kind != "u"',
    "kaiser_window": "fw.signal.windows.kaiser", "lobpcg": "fw.linalg.eigh",
    "lstm": "fw.nn.LSTM", "lstm_cell": "fw.nn.LSTMCell", "lu_solve": "fw.linalg.solve",
    "lu_unpack": "fw.linalg.lu", "masked": "fw.where", "nuclear_norm": "fw.linalg.matrix_norm",
    "pca_lowrank": "fw.linalg.svd", "promote_types": "fw.result_type",
    "quantization": "fw.quantize", "quantize_per_tensor": "fw.quantize", "rnn_relu": "fw.nn.RNN",
    "rnn_tanh": "fw.nn.RNN", "serialization": "fw.load", "svd_lowrank": "fw.linalg.svd",
    "symeig": "fw.linalg.eigh", "version": "fw.__version__",
}
"""A name that `fw` lacks -> the expression to use, perhaps of tensors `x` and `y`. Those of PyTorch
are in the tables of spellings, from which `install` adds them."""

METHODS = {
    "abs_": "x.copy_(x.abs())", "addcdiv_": "x.copy_(x.addcdiv(x, y))",
    "addcmul_": "x.copy_(x.addcmul(x, y))", "clamp_": "x.copy_(x.clip(0, 1))",
    "conjugate": "x.conj", "copy": "fw.asarray(x, copy=True)", "div_": "x.truediv_(2)",
    "exp_": "x.copy_(x.exp())", "grad_fn": "x.is_leaf",
    "index_add_": "x.copy_(x.index_add(0, fw.tensor([0, 1]), y))",
    "index_fill_": "x.copy_(x.index_fill(0, fw.tensor([0]), 0))", "isin": "fw.isin",
    "istft": "fw.istft", "itemsize": "x.dtype.itemsize", "lerp_": "x.copy_(x.lerp(y, 0.1))",
    "log_": "x.copy_(x.log())", "masked_fill_": "x.copy_(x.masked_fill(y > 0, 0))",
    "power": "x ** y", "ptp": "x.max() - x.min()", "relu_": "x.copy_(x.relu())",
    "round_": "x.copy_(x.round())",
    "scatter_": "x.copy_(x.scatter(0, fw.tensor([[0, 1], [1, 0]]), y))",
    "scatter_add_": "x.copy_(x.scatter_add(0, fw.tensor([[0, 1], [1, 0]]), y))",
    "sigmoid_": "x.copy_(x.sigmoid())", "sqrt_": "x.copy_(x.sqrt())", "stft": "fw.stft",
    "tanh_": "x.copy_(x.tanh())", "H": "x.mH", "coalesce": "x", "data_ptr": "x.ctypes.data",
    "eig": "fw.linalg.eig", "hardshrink": "fw.nn.functional.hardshrink",
    "indices": "fw.argmax(x)  # max and min give the values alone; argsort tells the order",
    "is_cpu": 'x.device == "cpu"', "is_meta": "False", "is_mps": "False", "is_nested": "False",
    "is_nonzero": "bool(x.all())", "is_pinned": "False", "is_quantized": "False",
    "is_shared": "False", "is_signed": 'x.dtype.kind != "u"', "is_sparse": "False",
    "is_xpu": "False", "lstsq": "fw.linalg.lstsq", "lu": "fw.linalg.lu", "new": "fw.tensor",
    "prelu": "fw.nn.functional.prelu", "resize_": "x.reshape", "share_memory_": "x",
    "storage": "x.numpy()", "storage_offset": "0", "svd": "fw.linalg.svd", "t_": "x.T",
    "solve": "fw.linalg.solve", "sum_to_size": "x.sum", "swapaxes_": "x.transpose",
    "transpose_": "x.transpose", "triangular_solve": "fw.linalg.solve_triangular",
    "untyped_storage": "x.numpy()",
    "values": "x  # max, min, sort and median give the values alone",
    "exponential_": "x.copy_(fw.random.exponential(size=x.shape))",
    "log_normal_": "x.copy_(fw.random.log_normal(size=x.shape))",
    "cauchy_": "x.copy_(fw.random.cauchy(size=x.shape))",
    "geometric_": "x.copy_(fw.floor(fw.log(fw.rand_like(x)) / fw.log(fw.tensor(0.5))) + 1)",
}
"""A name that a tensor `x` lacks -> the expression to use, perhaps with a tensor `y`. Those of
PyTorch are in the tables of spellings, too."""

_FORMAT = "leave it out: there is one memory format"
_SAME_BITS = "leave it out: the same call always gives the same bits"
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
    "multiprocessing": "use Python's multiprocessing", "profiler": "use fw.profile",
    "set_default_device": 'name the device: fw.zeros(3, device="cuda"), model.to("cuda")',
    "set_default_dtype": "the default is float32: give dtype= to each, or call model.double()",
    "set_float32_matmul_precision": "leave it out: products of float32 are computed in float32",
    "sparse": "there are no sparse tensors", "tensorboard": "use fw.training.TensorBoardLog",
    "torchvision": "fusewire.models has models with its names; images are NumPy arrays",
    "use_deterministic_algorithms": _SAME_BITS,
    "are_deterministic_algorithms_enabled": _SAME_BITS, "channels_last": _FORMAT,
    "contiguous_format": _FORMAT, "preserve_format": _FORMAT, "memory_format": _FORMAT,
    "layout": _FORMAT, "strided": _FORMAT, "distributed": "leave it out: there is one process",
    "fx": "f.graph() of a compiled function f shows its operations",
    "get_default_device": 'tensors are made on "cpu" unless device= says otherwise',
    "get_float32_matmul_precision": "products of float32 are computed in float32",
    "set_default_tensor_type": "the default is float32: give dtype= to each",
    "set_flush_denormal": "leave it out: small numbers are kept",
    "set_warn_always": "use Python's warnings.simplefilter",
    "sparse_coo_tensor": "there are no sparse tensors: fw.zeros(...), then x[rows, columns] = v",
    "testing": "use numpy.testing.assert_allclose, which takes tensors",
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
    _add_spellings(package)
    package.__all__ = sorted({*public_names(package), *deferred})
    _add("fw", package, DEFERRED)
    for path, module in MODULES.items():
        add(path, module)
    for name, hint in METHODS.items():
        setattr(Tensor, name, Missing(name, hint))
    Tensor.__dir__ = _names  # type: ignore[assignment, method-assign]


def _add_spellings(package: Any) -> None:
    """Adds PyTorch's names that `package` and tensors do not have."""
    methods = {name for name in dir(Tensor) if not name.startswith("_")}
    for kind, names, known in (("f", FUNCTIONS, vars(package)), ("m", METHODS, methods)):
        for spelling in SPELLINGS:
            hint = spelling.hint_for(kind, methods) if kind in spelling.kinds else ""
            if hint and spelling.name not in known:
                names.setdefault(spelling.name, hint)
    for name in [*IN_PLACE.split(), *(s.name for s in SPELLINGS if "i" in s.kinds)]:
        if f"{name}_" not in methods:
            value = f"x.{name}" if name in methods else METHODS.get(name, f"fw.{name}")
            call = f"{value}(...)" if re.fullmatch(r"[\w.]+", value) else value
            METHODS.setdefault(f"{name}_", f"x.copy_({call})")


def add(path: str, module: ModuleType) -> None:
    """Makes the public module at `path` below the package say what to use for missing names, unless
    it does so by itself."""
    if not hasattr(module, "__getattr__"):
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
