"""Model: the Module that a loaded model is."""

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
from .values import is_stored, value_of

_DEEPEST = 64  # words of a name, as parts in parts


class Declared:
    """What a model says of one of its inputs."""

    def __init__(self, name: str, kind: str, dtype: str, shape: Sequence[Any] | None,
                 parameter: str = "", optional: bool = False) -> None:
        self.name, self.kind, self.dtype = name, kind, dtype
        self.parameter, self.optional = parameter, optional  # of `forward`; whether it has a value
        self.shape = shape  # ints, names of sizes that may be any, or None; None: any rank

    def __repr__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name}: {self.kind}"
        sizes = "..." if self.shape is None else ", ".join(
            "?" if n is None else str(n) for n in self.shape)
        return f"{self.name}: {self.dtype}[{sizes}]"


class Part(Module):
    """A part of a model's names: `model.layer1[0].conv` for "layer1.0.conv.weight"."""

    def __getitem__(self, name: Any) -> Any:
        return getattr(self, str(name))

    def extra_repr(self) -> str:
        """What it holds."""
        return ", ".join([*self._parameters, *self._buffers])


class Model(Module):
    """A model read from a file: its `forward` is what `to_python` prints.

    Parameters are the floats of one axis or more that the file holds as initializers, but for
    running statistics and other settings of operators, which are buffers, as all else is.
    """

    def __init__(self, inputs: Sequence[Declared] = (), outputs: Sequence[str] = (),
                 source: str = "", limits: Limits | None = None) -> None:
        super().__init__()
        self._inputs, self._outputs, self._source = tuple(inputs), tuple(outputs), source
        self._limits = limits or Limits()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs for these inputs. LimitError where a call takes more than the limits."""
        try:
            with in_force(self._limits):
                return super().__call__(*args, **kwargs)
        except FusewireError:
            raise
        except (*FAULTS, NameError) as error:
            if not _is_of_source(error):
                raise
            raise ImportModelError(f"the model cannot be computed so: {type(error).__name__}: "
                                   f"{error}", "its source is model.to_python()") from error

    def __getitem__(self, name: str) -> Any:
        """The parameter, buffer or part of that name, which may hold dots."""
        found: Any = self
        for word in name.split(".") if name not in self._parameters and \
                name not in self._buffers else [name]:
            for held in (found._parameters, found._buffers, found._modules):
                if word in held:
                    found = held[word]
                    break
            else:
                raise StateError(f"the model holds nothing named {name!r}")
        return found

    def given(self, place: int, value: Any) -> Any:
        """An argument of a call, as the model's input at that place: a tensor, a list or None."""
        declared = self._inputs[place]
        value = value_of(value)
        if declared.kind != "tensor":
            return value
        if not isinstance(value, Tensor) and not is_stored(value):
            raise DTypeError(f"input {declared.name!r} is a tensor, not {type(value).__name__}",
                             f"the model takes {', '.join(map(repr, self._inputs))}")
        found = "str" if value.dtype == object else value.dtype.name
        if found != declared.dtype:
            raise DTypeError(f"input {declared.name!r} is {declared.dtype}, got {found}",
                             f"cast it: x.astype(fw.{declared.dtype})"
                             if declared.dtype in dtypes.DTYPES else "")
        if declared.shape is not None:
            _check_shape(declared, value.shape)
        return value

    def __reduce__(self) -> Any:
        return _empty, (self._source, type(self).__name__), self.__dict__

    def extra_repr(self) -> str:
        """Inputs and outputs."""
        return "\n".join([f"in {d!r}" for d in self._inputs] + [f"out {n}" for n in self._outputs])

    def with_layers(self) -> Model:
        """This model, its products with weights now layers of `nn`, as `fw.quantize` needs them."""
        source = layered(self._source, self)
        made = class_of(source, type(self).__name__)(source=source)
        made.__dict__.update(self.__dict__ | {"_source": source})
        return made

    def to_python(self) -> str:
        """Source of the model's class, as it runs; parameters and buffers come by a state dict."""
        return self._source


@functools.lru_cache(maxsize=64)
def class_of(source: str, title: str) -> type[Model]:
    """The class that source defines. Python's errors where it is too long or too deep for it."""
    file = f"<{title} {next(_COUNT)}>"
    _FILES.add(file)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "onnx_model"}
    exec(compile(source, file, "exec"), names)
    return names[title]  # type: ignore[no-any-return]


_FILES: set[str] = set()  # names that sources of models have in tracebacks
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COUNT = iter(range(1 << 62))  # each class has lines of its own in tracebacks


def _empty(source: str, title: str) -> Model:
    """A model without parameters, for pickles and copies to fill."""
    return class_of(source, title)(source=source)


def _is_of_source(error: BaseException) -> bool:
    """Whether an error is that of a model's source, or of what only such source calls."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename if trace is not None else ""
    return file in _FILES or file.startswith(_FOLDER)


def _check_shape(declared: Declared, shape: Sequence[Any]) -> None:
    wanted = declared.shape or ()
    if len(shape) != len(wanted) or any(
            type(n) is int and n != m for n, m in zip(wanted, shape)):
        raise ShapeError(f"input {declared.name!r} has shape {tuple(shape)}, which does not fit "
                         f"{declared!r}")


def place(model: Model, name: str, array: Any, trained: bool, persistent: bool) -> None:
    """Puts an array into the model under `name`, below parts where it has dots."""
    path, _, last = name.rpartition(".")
    owner: Module = model
    for word in path.split(".") if path else ():
        if word not in owner._modules:
            owner.add_module(word, Part())
        owner = owner._modules[word]  # type: ignore[assignment]
    if array.dtype not in dtypes.OWN:
        object.__setattr__(owner, last, array)
    elif trained:
        owner.register_parameter(last, Parameter(array))
    else:
        owner.register_buffer(last, Tensor(np.array(array)), persistent)


class Names(set[str]):
    """Names of what a model holds."""

    def __init__(self) -> None:
        self.parts: set[str] = set()  # what stands before a dot in one of them

    def add(self, name: str) -> None:
        """Adds a name."""
        super().add(name)
        self.parts.update(_above(name))


def _above(name: str) -> list[str]:
    """The parts of a model that a name lies in, by their names."""
    words = name.split(".")
    return [".".join(words[:i]) for i in range(1, len(words))]


def fits(name: str, taken: Names) -> bool:
    """Whether `name` can be that of a parameter, beside those in `taken`."""
    words = name.split(".")
    return len(words) <= _DEEPEST and all(words) and not any(p in taken for p in _above(name)) and \
        name not in taken.parts and \
        not hasattr(Model, words[0]) and not any(hasattr(Module, w) or w.startswith("_")
                                                 for w in words) and \
        words[0] not in ("training",)

