"""Defines `Model`, the Module that `load` returns."""

from __future__ import annotations

import functools
import linecache
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .....eager.arrays import dtypes
from .....eager.core.tensor import Tensor
from .....eager.errors import DTypeError, FusewireError, ImportModelError, ShapeError, StateError
from .....eager.nn.base.module import Module
from .....eager.nn.base.parameter import Parameter
from .layered import layered
from .limits import Limits, in_force
from .table import FAULTS
from .values import is_texts, value_of

_MAX_NAME_DEPTH = 64  # components of a dotted name


class Declared:
    """The declaration of a model input: its type, shape and parameter of `forward`."""

    def __init__(self, name: str, kind: str, dtype: str, shape: Sequence[Any] | None,
                 parameter: str = "", optional: bool = False) -> None:
        self.name, self.kind, self.dtype = name, kind, dtype
        self.parameter, self.optional = parameter, optional  # optional: it has a default
        self.shape = shape  # ints, names of free sizes, or None per axis; None for any rank

    def __repr__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name}: {self.kind}"
        sizes = "..." if self.shape is None else ", ".join(
            "?" if n is None else str(n) for n in self.shape)
        return f"{self.name}: {self.dtype}[{sizes}]"


class Part(Module):
    """A submodule for a component of parameter names: `layer1` of "layer1.0.conv.weight"."""

    def __getitem__(self, name: Any) -> Any:
        return getattr(self, str(name))

    def extra_repr(self) -> str:
        """The names of its parameters and buffers."""
        return ", ".join([*self._parameters, *self._buffers])


class Model(Module):
    """A model read from an ONNX file. `to_python` returns its source.

    Initializers of floats with one axis or more are parameters. Running statistics and other
    settings of operators are buffers, as are all other initializers and constants.
    """

    def __init__(self, inputs: Sequence[Declared] = (), outputs: Sequence[str] = (),
                 source: str = "", limits: Limits | None = None) -> None:
        super().__init__()
        self._inputs, self._outputs, self._source = tuple(inputs), tuple(outputs), source
        self._limits = limits or Limits()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs for these inputs.

        Raises:
            LimitError: the call exceeds the limits.
            DTypeError, ShapeError: an input does not fit its declaration.
            ImportModelError: the model's source fails for these inputs.
        """
        try:
            with in_force(self._limits):
                return super().__call__(*args, **kwargs)
        except FusewireError:
            raise
        except (*FAULTS, NameError) as error:
            if not _is_of_source(error):
                raise
            raise ImportModelError(f"the model fails on these inputs: {type(error).__name__}: "
                                   f"{error}", "its source is model.to_python()") from error

    def __getitem__(self, name: str) -> Any:
        """The parameter, buffer or submodule of that name, which may contain dots.

        Raises StateError if there is none.
        """
        entry: Any = self
        for word in name.split(".") if name not in self._parameters and \
                name not in self._buffers else [name]:
            for held in (entry._parameters, entry._buffers, entry._modules):
                if word in held:
                    entry = held[word]
                    break
            else:
                raise StateError(f"the model has no parameter, buffer or submodule {name!r}")
        return entry

    def given(self, index: int, value: Any) -> Any:
        """The argument `value` for the input number `index`: a tensor, a list or None.

        Raises DTypeError or ShapeError if it does not fit the input's declaration.
        """
        declared = self._inputs[index]
        value = value_of(value)
        if declared.kind != "tensor":
            return value
        if not isinstance(value, Tensor) and not is_texts(value):
            raise DTypeError(f"input {declared.name!r} must be a tensor, got "
                             f"{type(value).__name__}",
                             f"the model takes {', '.join(map(repr, self._inputs))}")
        dtype = "str" if value.dtype == object else value.dtype.name
        if dtype != declared.dtype:
            raise DTypeError(f"input {declared.name!r} is {declared.dtype}, got {dtype}",
                             f"cast it: x.astype(fw.{declared.dtype})"
                             if declared.dtype in dtypes.DTYPES else "")
        if declared.shape is not None:
            _check_shape(declared, value.shape)
        return value

    def __reduce__(self) -> Any:
        return _empty, (self._source, type(self).__name__), self.__dict__

    def extra_repr(self) -> str:
        """The declared inputs and outputs, one per line."""
        return "\n".join([f"in {d!r}" for d in self._inputs] + [f"out {n}" for n in self._outputs])

    def with_layers(self) -> Model:
        """This model with `nn` layers for products with weights, for `fw.quantize` to replace."""
        source = layered(self._source, self)
        model = class_of(source, type(self).__name__)(source=source)
        model.__dict__.update(self.__dict__ | {"_source": source})
        return model

    def to_python(self) -> str:
        """The Python source of the model's class. The state dict has the values of parameters."""
        return self._source


@functools.lru_cache(maxsize=64)
def class_of(source: str, title: str) -> type[Model]:
    """The class that the source defines.

    Raises Python's errors if the source is too long or too deeply nested.
    """
    file = f"<{title} {next(_COUNT)}>"
    _FILES.add(file)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "onnx_model"}
    exec(compile(source, file, "exec"), names)
    return names[title]  # type: ignore[no-any-return]


_FILES: set[str] = set()  # file names of models' sources in tracebacks
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COUNT = iter(range(1 << 62))  # each class has its own file name in tracebacks


def _empty(source: str, title: str) -> Model:
    """A model without parameters, which unpickling and copying fill."""
    return class_of(source, title)(source=source)


def _is_of_source(error: BaseException) -> bool:
    """True if an error was raised in a model's source, or in operators that it calls."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename if trace is not None else ""
    return file in _FILES or file.startswith(_FOLDER)


def _check_shape(declared: Declared, shape: Sequence[Any]) -> None:
    declared_shape = declared.shape or ()
    if len(shape) != len(declared_shape) or any(
            type(n) is int and n != m for n, m in zip(declared_shape, shape)):
        raise ShapeError(f"input {declared.name!r} has shape {tuple(shape)}, which does not fit "
                         f"{declared!r}")


def register(model: Model, name: str, array: Any, trained: bool, persistent: bool) -> None:
    """Adds an array to the model under `name`; dots separate submodules, which are created."""
    path, _, last = name.rpartition(".")
    owner: Module = model
    for component in path.split(".") if path else ():
        if component not in owner._modules:
            owner.add_module(component, Part())
        owner = owner._modules[component]  # type: ignore[assignment]
    if array.dtype not in dtypes.OWN:
        object.__setattr__(owner, last, array)
    elif trained:
        owner.register_parameter(last, Parameter(array))
    else:
        owner.register_buffer(last, Tensor(np.array(array)), persistent)


class Names(set[str]):
    """The names of parameters and buffers, and of the submodules that hold them."""

    def __init__(self) -> None:
        self.parts: set[str] = set()  # dotted prefixes of the names

    def add(self, name: str) -> None:
        """Adds a name."""
        super().add(name)
        self.parts.update(_above(name))


def _above(name: str) -> list[str]:
    """The dotted names of the submodules that contain `name`."""
    components = name.split(".")
    return [".".join(components[:i]) for i in range(1, len(components))]


def fits(name: str, taken: Names) -> bool:
    """True if `name` can be added as the name of a parameter."""
    components = name.split(".")
    return len(components) <= _MAX_NAME_DEPTH and all(components) and \
        not any(p in taken for p in _above(name)) and name not in taken.parts and \
        not hasattr(Model, components[0]) and \
        not any(hasattr(Module, c) or c.startswith("_") for c in components) and \
        components[0] not in ("training",)

