"""Defines the errors of fusewire; each says what happened, where, and what to do next."""

from __future__ import annotations

import functools
import os
import re
import sys
from types import CodeType
from typing import Any

__all__ = [
    "ArgumentError", "AxisError", "CaptureError", "CheckError", "CodegenError", "CollectiveError",
    "DTypeError", "DeviceError", "ExchangeError", "ExportError", "FusewireError", "GradientError",
    "GraphError", "ImportModelError", "IndexingError", "LimitError", "LinAlgError", "ShapeError",
    "StateError", "ViewError", "WorkerError",
]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EXAMPLES = os.path.join(_PACKAGE, "export", "demo") + os.sep  # written as a user would
_OURS = tuple(_PACKAGE + folder + os.sep for folder in (
    "eager", "capture", "codegen", "distributed", "export", "frontends"))
_NOT_THE_USERS = (*_OURS, *(_PACKAGE + folder + os.sep for folder in (
    "data", "metrics", "models", "serving", "training")))  # traced as a user's program is
_PYTHONS = os.path.dirname(os.__file__) + os.sep, "<frozen"
_INSTALLED = os.path.join(_PYTHONS[0], "site-packages") + os.sep


def is_ours(code: CodeType) -> bool:
    """True if `code` belongs to fusewire, so that a traceback for users can skip it."""
    return is_our_file(code.co_filename)


def is_our_file(name: str) -> bool:
    """True if a source file belongs to fusewire, apart from its examples."""
    return name.startswith(_OURS) and not name.startswith(_EXAMPLES)


NAMES: dict[CodeType, str] = {}  # of functions whose errors name them; `names_itself` adds them
_INNER = re.compile(r"^[a-z_][a-z_0-9]*(\([^:]*\))?: ")  # the name of a function before a message


def is_the_users(file: str) -> bool:
    """True if a source file does not belong to fusewire, or is an example of it."""
    return not file.startswith(_NOT_THE_USERS) or file.startswith(_EXAMPLES)


def _is_pythons(file: str) -> bool:
    """True if a source file belongs to Python's standard library."""
    return file.startswith(_PYTHONS) and not file.startswith(_INSTALLED)


def user_line() -> str:
    """`file:line, in function` of the innermost frame outside of fusewire and of Python's standard
    library, or an empty text."""
    return _user_call()[0]


def _user_call() -> tuple[str, str]:
    """`user_line`, and the outermost name of NAMES between that line and here, or empty texts."""
    frame: Any = sys._getframe(1)
    name = ""
    while frame is not None and _is_passed_over(frame.f_code.co_filename):
        name = NAMES.get(frame.f_code, name)
        frame = frame.f_back
    if frame is None:
        return "", name
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}", name


@functools.lru_cache(maxsize=4096)
def _is_passed_over(file: str) -> bool:
    """True if a file has no line of a user."""
    return not is_the_users(file) or _is_pythons(file)


def _named(message: str, name: str) -> str:
    """`message`, which begins with `name` in place of the name of an inner function."""
    if not name or re.match(rf"{name}\b", message):
        return message
    return f"{name}: {_INNER.sub('', message, count=1)}"


LAYER_CALLS: set[CodeType] = set()  # code of methods that run a layer's forward; `nn` adds it


def running_layers() -> list[Any]:
    """The modules whose forward is running, innermost first."""
    modules = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code in LAYER_CALLS:
            modules.append(frame.f_locals["self"])
        frame = frame.f_back
    return modules


class FusewireError(Exception):
    """Base class of all errors of fusewire.

    `message` says what happened, `line` where in the user's code, `help` what to do next. An error
    in a model names the path of its layer as well.

    Args:
        message: what happened, with the values.
        help: the next step. Default: none.

    Example:
        >>> import fusewire as fw
        >>> try:
        ...     fw.ones(2) + fw.ones(3)
        ... except fw.FusewireError as error:
        ...     print(type(error).__name__, "|", error.message.partition(":")[0])
        ShapeError | add
    """

    def __init__(self, message: str, help: str = "") -> None:
        self.line, name = _user_call()
        self.message, self.help = _named(message, name), help
        super().__init__(self.message)
        self.layers: list[Any] = []  # modules the error went through, innermost first

    def layer_path(self) -> str:
        """The name of the innermost layer inside of the outermost one, or an empty text."""
        if not self.layers:
            return ""
        inner = self.layers[0]
        names = {id(m): n or "the model itself" for n, m in self.layers[-1].named_modules()}
        registered = next(m for m in self.layers if id(m) in names)
        path = f"{names[id(registered)]} ({type(registered).__name__})"
        if registered is not inner:
            path += f", which calls a {type(inner).__name__} that is not registered in it: lists " \
                    "and dicts of modules are nn.ModuleList and nn.ModuleDict"
        return path

    def __str__(self) -> str:
        text = self.message
        path = self.layer_path()
        for label, value in (("in layer", path), ("at", self.line), ("help", self.help)):
            text += f"\n  {label}: {value}" if value else ""
        return text


class ArgumentError(FusewireError, ValueError):
    """Raised for an argument out of range, unknown or in conflict with another.

    The help lists the values that are allowed.
    """


class ShapeError(FusewireError, ValueError):
    """Raised if shapes, axes or lengths do not fit an operation.

    The message has all shapes; reshape or transpose an operand, or fix the layer that made it.
    """


class AxisError(ShapeError, IndexError):
    """Raised for an axis that a tensor does not have; pass one from -ndim to ndim - 1."""


class LinAlgError(FusewireError, ValueError):
    """Raised for a matrix without an inverse, a Cholesky factor or eigenvalues.

    Check the condition of the matrix, or add a multiple of the identity to it.
    """


class DTypeError(FusewireError, TypeError):
    """Raised for a dtype, or a kind of object, that an operation does not take; cast it first."""


class DeviceError(FusewireError, RuntimeError):
    """Raised for operands on different devices, or for a device that is not available.

    Move tensors with `x.to(device)`; the help lists the devices.
    """


class CollectiveError(FusewireError, RuntimeError):
    """Raised if ranks do not take part in the same collective within the timeout.

    The message names the ranks, the collective, its number and its line.
    """


class ExchangeError(FusewireError, BufferError):
    """Raised if memory cannot be shared with another library (DLPack, NumPy) as requested.

    Often a copy, or `x.detach()`, can be shared.
    """


class IndexingError(FusewireError, IndexError):
    """Raised for an index out of range, such as a class number or a row of an embedding."""


class GradientError(FusewireError, RuntimeError):
    """Raised if a gradient cannot be computed: no tape, a freed tape, or no single gradient.

    The help names the call that is missing, such as `requires_grad_()`, `retain_graph=True` or
    `loss.mean()`.
    """


class StateError(FusewireError, KeyError, RuntimeError):
    """Raised for a state dict or checkpoint that does not fit; it lists the names that differ.

    It is a KeyError, and a RuntimeError as in PyTorch.
    """

    __str__ = FusewireError.__str__


class ViewError(FusewireError, RuntimeError):
    """Raised for an in-place write to a view in which an element of its base occurs several times.

    Copy the view first: `y = fw.asarray(y, copy=True)`.
    """


class WorkerError(FusewireError, RuntimeError):
    """Raised in the loop if a worker of a DataLoader dies, is too slow or cannot send its error.

    The message has the worker's own traceback.
    """


class CaptureError(FusewireError, RuntimeError):
    """Raised for a function that cannot be traced, if a graph break is not allowed.

    Change the line that the message names, or allow graph breaks.
    """


class CheckError(FusewireError, RuntimeError):
    """Raised under `check=` if compiled code and eager results differ.

    It is a bug in fusewire: report the op and the line that it names.
    """


class GraphError(FusewireError, RuntimeError):
    """Raised for a malformed graph. It is a bug in fusewire: report the pass and the node."""


class CodegenError(FusewireError, RuntimeError):
    """Raised for a graph for which this machine or back end can generate no code."""


class MemoryShortage(CodegenError):
    """Raised if the process is too short of memory to generate code."""

    def __init__(self) -> None:
        super().__init__("there is too little memory to generate code",
                         "raise the memory limit of the process, or free memory")


class ExportError(FusewireError, RuntimeError):
    """Raised for a model that cannot be exported, or whose file computes other results.

    Change the line that the message names.
    """


class ImportModelError(FusewireError, RuntimeError):
    """Raised for a model file that is damaged, or that uses an unsupported feature.

    `node` is the name of the node in the file.
    """

    node = ""


class LimitError(ImportModelError):
    """Raised for a model file that exceeds `limits=`: `limit` is "seconds", "bytes" or "nodes".

    Raise the limit if you trust the file.
    """

    def __init__(self, message: str, help: str = "", limit: str = "") -> None:
        super().__init__(message, help)
        self.limit = limit
