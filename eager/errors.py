"""The errors a user can meet: each says what happened, with which values, where, what to do."""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import Any

__all__ = [
    "ArgumentError", "AxisError", "CaptureError", "CheckError", "CodegenError", "DTypeError",
    "DeviceError", "ExchangeError", "ExportError", "FusewireError", "GradientError", "GraphError",
    "ImportModelError", "IndexingError", "LimitError", "LinAlgError", "ShapeError", "StateError",
    "ViewError", "WorkerError",
]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EXAMPLES = os.path.join(_PACKAGE, "export", "demo") + os.sep  # written as a user would
_OURS = tuple(_PACKAGE + folder + os.sep for folder in ("eager", "capture", "codegen", "export"))


def is_ours(code: CodeType) -> bool:
    """Whether `code` belongs to fusewire itself and is no place to show to a user."""
    return is_our_file(code.co_filename)


def is_our_file(name: str) -> bool:
    """Whether a source file is fusewire's, its examples left out."""
    return name.startswith(_OURS) and not name.startswith(_EXAMPLES)


def user_line() -> str:
    """`file:line, in function` of the innermost frame that is not fusewire's, or an empty text."""
    frame: Any = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"


LAYER_CALLS: set[CodeType] = set()  # of methods that run a layer's forward; `nn` enters them


def running_layers() -> list[Any]:
    """The modules whose forward runs here, innermost first."""
    modules = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code in LAYER_CALLS:
            modules.append(frame.f_locals["self"])
        frame = frame.f_back
    return modules


class FusewireError(Exception):
    """Base of all errors of fusewire: a message, the user's line, the layer path, a next step."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message, self.help, self.line = message, help, user_line()
        self.layers: list[Any] = []  # modules the error went through, innermost first

    def layer_path(self) -> str:
        """Name of the innermost layer inside the outermost one, or an empty text."""
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
    """An argument with a value that makes no sense, or that is not supported."""


class ShapeError(FusewireError, ValueError):
    """Shapes or axes do not fit an operation."""


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have."""


class LinAlgError(FusewireError, ValueError):
    """A matrix without what was asked of it: an inverse, a Cholesky factor, eigenvalues."""


class DTypeError(FusewireError, TypeError):
    """A dtype or a kind of object that an operation does not take."""


class DeviceError(FusewireError, RuntimeError):
    """Tensors on different devices, or a device that is not there."""


class ExchangeError(FusewireError, BufferError):
    """Memory that cannot be handed to another library, or taken from it, as asked."""


class IndexingError(FusewireError, IndexError):
    """An index outside of a tensor."""


class GradientError(FusewireError, RuntimeError):
    """A gradient that cannot be computed as asked."""


class StateError(FusewireError, KeyError, RuntimeError):
    """A state dict or checkpoint that does not fit (in PyTorch a RuntimeError)."""

    __str__ = FusewireError.__str__


class ViewError(FusewireError, RuntimeError):
    """A write in place to a view, which would not reach the tensor behind it."""


class WorkerError(FusewireError, RuntimeError):
    """A worker of a DataLoader that died, kept the loop waiting, or raised what cannot be shown."""


class CaptureError(FusewireError, RuntimeError):
    """A function that cannot be recorded (raised only where falling back was ruled out)."""


class CheckError(FusewireError, RuntimeError):
    """Compiled code and eager differ: a mistake of ours, named by op and line."""


class GraphError(FusewireError, RuntimeError):
    """A graph that is not well formed: a mistake of ours, named by pass and node."""


class CodegenError(FusewireError, RuntimeError):
    """A graph for which no code can be made here."""


class MemoryShortage(CodegenError):
    """There is too little memory to make code in."""

    def __init__(self) -> None:
        super().__init__("there is too little memory to make code",
                         "raise the limit of the process, or use less beside it")


class ExportError(FusewireError, RuntimeError):
    """A model that cannot be written, or whose file does not compute what the model does."""


class ImportModelError(FusewireError, RuntimeError):
    """A model file that cannot be read, or that asks for what is not supported."""

    node = ""  # the name of the node where it was found


class LimitError(ImportModelError):
    """A model that takes more time, memory or nodes than its limits allow."""

    def __init__(self, message: str, help: str = "", limit: str = "") -> None:
        super().__init__(message, help)
        self.limit = limit  # "seconds", "bytes" or "nodes"
