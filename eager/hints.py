"""What to use for the names of NumPy and PyTorch that fusewire has under other names.

One thing has one name here; another library's name for it raises an AttributeError that says ours.
On modules `__getattr__` answers, which Python calls for missing names only. On a class it would
make every other attribute take two to three times as long, as Python then does not specialise its
look-ups, so there each known name is a descriptor that raises.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from . import autograd, fft, func, linalg, nn, optim, random, special, utils
from .errors import FusewireError
from .tensor import Tensor

__all__ = ["MissingNameError"]

FUNCTIONS = {
    "FloatTensor": "fw.tensor", "LongTensor": "fw.tensor", "absolute": "fw.abs",
    "allclose": "fw.all(fw.abs(x - y) <= 1e-8 + 1e-5 * fw.abs(y))", "amax": "fw.max",
    "amin": "fw.min", "arccos": "fw.acos", "arccosh": "fw.acosh", "arcsin": "fw.asin",
    "arcsinh": "fw.asinh", "arctan": "fw.atan", "arctan2": "fw.atan2", "arctanh": "fw.atanh",
    "array": "fw.tensor", "as_tensor": "fw.asarray", "bitwise_not": "fw.bitwise_invert",
    "bmm": "fw.matmul", "cat": "fw.concat", "cdouble": "fw.complex128", "cfloat": "fw.complex64",
    "clamp": "fw.clip", "clone": "fw.asarray(x, copy=True)", "concatenate": "fw.concat",
    "conjugate": "fw.conj", "copy": "fw.asarray(x, copy=True)", "device": '"cpu"',
    "div": "fw.divide", "dot": "fw.matmul", "double": "fw.float64", "eq": "fw.equal",
    "fliplr": "fw.flip(x, axis=1)", "flipud": "fw.flip(x, axis=0)", "float": "fw.float32",
    "ge": "fw.greater_equal", "gt": "fw.greater", "half": "fw.float16",
    "inner": "fw.tensordot(x, y, axes=((-1,), (-1,)))", "int": "fw.int32",
    "invert": "fw.bitwise_invert", "is_tensor": "isinstance(x, fw.Tensor)",
    "isclose": "fw.abs(x - y) <= 1e-8 + 1e-5 * fw.abs(y)", "jit": "fw.compile",
    "le": "fw.less_equal", "left_shift": "fw.bitwise_left_shift", "long": "fw.int64",
    "lt": "fw.less", "mm": "fw.matmul", "movedim": "fw.moveaxis", "mul": "fw.multiply",
    "mv": "fw.matmul", "nanpercentile": "fw.nanquantile", "ndarray": "fw.Tensor",
    "ne": "fw.not_equal", "neg": "fw.negative", "percentile": "fw.quantile",
    "permute": "fw.permute_dims", "power": "fw.pow", "ravel": "fw.flatten",
    "repeat_interleave": "fw.repeat", "right_shift": "fw.bitwise_right_shift", "rint": "fw.round",
    "short": "fw.int16", "sub": "fw.subtract", "swapaxes": "fw.transpose",
    "swapdims": "fw.transpose", "true_divide": "fw.divide", "unbind": "fw.unstack",
    "unique": "fw.unique_values", "unsqueeze": "fw.expand_dims",
}
"""Missing in `fw` -> an expression, perhaps of tensors `x` and `y`, that gives what to use."""

METHODS = {
    "add": "x + y", "amax": "x.max", "amin": "x.min", "arccos": "x.acos", "arcsin": "x.asin",
    "arctan": "x.atan", "bfloat16": "x.astype(fw.bfloat16)", "bmm": "x.matmul",
    "bool": "x.astype(fw.bool)", "byte": "x.astype(fw.uint8)", "clamp": "x.clip",
    "clone": "fw.asarray(x, copy=True)", "conjugate": "x.conj",
    "contiguous": "x  # every tensor is contiguous to those who read it",
    "copy": "fw.asarray(x, copy=True)", "cpu": 'x.to("cpu")',
    "cuda": "x  # tensors live on the CPU", "dim": "x.ndim", "div": "x / y", "dot": "x.matmul",
    "double": "x.astype(fw.float64)", "eq": "x == y", "expand": "x.broadcast_to",
    "expand_as": "x.broadcast_to(y.shape)", "float": "x.astype(fw.float32)", "ge": "x >= y",
    "gt": "x > y", "half": "x.astype(fw.float16)", "histogram": "fw.histogram",
    "int": "x.astype(fw.int32)", "is_cuda": "x.device", "isin": "fw.isin",
    "itemsize": "x.dtype.itemsize", "le": "x <= y", "long": "x.astype(fw.int64)", "lt": "x < y",
    "mm": "x.matmul", "movedim": "x.moveaxis", "mul": "x * y", "mv": "x.matmul", "ne": "x != y",
    "neg": "-x", "nelement": "x.size", "new_ones": "fw.ones", "new_tensor": "fw.tensor",
    "new_zeros": "fw.zeros", "norm": "fw.linalg.norm", "numel": "x.size",
    "permute": "x.permute_dims", "ptp": "x.max() - x.min()", "ravel": "x.flatten",
    "repeat_interleave": "x.repeat", "short": "x.astype(fw.int16)", "sub": "x - y",
    "swapaxes": "x.transpose", "t": "x.T", "tril": "fw.tril", "triu": "fw.triu",
    "type": "x.astype", "type_as": "x.astype(y.dtype)", "unbind": "x.unstack",
    "unsqueeze": "x.expand_dims", "view": "x.reshape", "view_as": "x.reshape(y.shape)",
    "where": "fw.where",
}
"""Missing in a tensor `x` -> an expression, perhaps with a tensor `y`, that gives what to use."""


class MissingNameError(FusewireError, AttributeError):
    """A name that a module or a tensor does not have."""

    def __init__(self, owner: str, name: str, hint: Callable[[], str]) -> None:
        super().__init__(f"{owner} has no attribute {name!r}")
        self.name, self.hint = name, hint

    def __str__(self) -> str:
        self.help = self.hint()  # only now: most missing names are asked for by `hasattr`
        return super().__str__()

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


class Missing:
    """A name that tensors do not have: an attribute that raises."""

    __slots__ = ("hint", "name")

    def __init__(self, name: str, hint: str) -> None:
        self.name, self.hint = name, hint

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise MissingNameError("a tensor", self.name, lambda: f"use {self.hint}")


def install(package: Any) -> None:
    """Makes the modules of `package`, and tensors, say what to use instead of missing names."""
    inner = {"autograd": autograd, "fft": fft, "func": func, "linalg": linalg, "nn": nn,
             "nn.functional": nn.functional, "nn.init": nn.init, "optim": optim, "random": random,
             "special": special, "utils.data": utils.data}
    spaces = {"fw": package, **{f"fw.{path}": module for path, module in inner.items()}}
    for path, module in spaces.items():
        module.__getattr__ = _getattr(path, module, spaces)
        if not hasattr(module, "__path__"):  # a file shows what it offers, not what it imports
            module.__dir__ = lambda module=module: sorted(module.__all__)
    for name, hint in METHODS.items():
        setattr(Tensor, name, Missing(name, hint))
    Tensor.__dir__ = _names  # type: ignore[assignment, method-assign]


def _names(x: Tensor) -> list[str]:
    return sorted({*object.__dir__(x)} - {*METHODS})


def _getattr(path: str, module: ModuleType, spaces: dict[str, Any]) -> Callable[[str], NoReturn]:
    def missing(name: str) -> NoReturn:
        if name.startswith("_"):  # protocols ask for these and take no advice
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        raise MissingNameError(path, name, lambda: suggestion(name, path, spaces))

    return missing


def suggestion(name: str, path: str, spaces: dict[str, Any]) -> str:
    """What to use for `name`, which the module at `path` does not have; maybe an empty text."""
    if name in FUNCTIONS:
        return f"use {FUNCTIONS[name]}"
    elsewhere = [f"{other}.{name}" for other, module in spaces.items() if name in dir(module)]
    if elsewhere:
        return f"use {' or '.join(elsewhere)}"
    if name in METHODS:
        return f"use {METHODS[name]}"
    if hasattr(Tensor, name):
        return f"it is a method of tensors: x.{name}"
    names = [n for n in dir(spaces[path]) if not n.startswith("_")]
    near = difflib.get_close_matches(name, names, cutoff=0.75)
    return f"is it {' or '.join(f'{path}.{n}' for n in near)}?" if near else ""
