"""What a row of the table of layers is: a way of making and calling a layer, in either library."""

from __future__ import annotations

import types
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from inputs import Input, dtype_named

import fusewire as fw


@dataclass(frozen=True, eq=False)
class Layer:
    """A way of making the layer `name` of nn, and the inputs that it is called with.

    `args` and `kwargs` are the constructor's. An array among them becomes a tensor of the library,
    a function is called with the library (`fw` or `torch`): lambda lib: lib.nn.ReLU().
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: tuple[Input, ...]
    label: str = ""
    call: Callable[..., Any] | None = None  # call(lib, module, *inputs), where module(*inputs) or
    # its first results alone do not say it
    options: Mapping[str, Any] = field(default_factory=dict)  # plain keywords of the call
    random: bool = False  # training draws random numbers: only eval() is compared
    draws: bool = True  # initial values of parameters are compared as distributions
    grad: bool = True  # there is a gradient by inputs and parameters
    second: bool = True  # and one of the gradient
    dtypes: tuple[str, ...] = ("float64", "float32")
    loose: float = 1.0  # how much larger differences may be than usually
    each: bool = False  # differences are shares of each element, not of the largest
    differs: Mapping[str, str] = field(default_factory=dict)  # a comparison: why it is not made

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name

    def make(self, lib: Any = fw) -> Any:
        """The layer, as `lib` has it."""
        made = [given_to(lib, a) for a in self.args]
        return getattr(lib.nn, self.name)(
            *made, **{k: given_to(lib, v) for k, v in self.kwargs.items()})

    def arrays(self, dtype: str = "float32") -> list[Any]:
        """The inputs, the same on every run."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [made.make(rng, dtype_named(dtype)) for made in self.inputs]

    def run(self, module: Any, *tensors: Any, lib: Any = fw) -> Any:
        """What `module` gives for the inputs."""
        if self.call is not None:
            return self.call(lib, module, *tensors)
        return module(*tensors, **self.options)


def given_to(lib: Any, value: Any) -> Any:
    """An argument as `lib` takes it."""
    if isinstance(value, np.ndarray):
        return lib.from_numpy(value.copy())
    return value(lib) if isinstance(value, types.FunctionType) else value


def scalar(out: Any) -> Any:
    """The sum of all floating point results of ours, each element with a weight of its own."""
    total = 0.0
    for n, part in enumerate(tensors_of(out)):
        if str(part.dtype).startswith(("float", "bfloat")):
            weights = fw.cos(fw.arange(part.size, dtype=fw.float64) + n).reshape(part.shape)
            total = total + (part * weights.astype(part.dtype)).sum()
    return total


def tensors_of(out: Any) -> list[Any]:
    """The tensors of a result: one, or several in tuples, lists, dicts and dataclasses."""
    if out is None or isinstance(out, (int, float, str)):
        return []
    if isinstance(out, Mapping):
        out = list(out.values())
    if isinstance(out, (tuple, list)):
        return [tensor for part in out for tensor in tensors_of(part)]
    return [out]


LAYERS: list[Layer] = []


def layer(name: str, *args: Any, inputs: Any, label: str = "", **more: Any) -> None:
    """Enters a row; keywords that are no fields of Layer are the constructor's.

    layer("Conv2d", 3, 4, 3, stride=2, inputs=[x(2, 3, 6, 5)])
    """
    fields = Layer.__dataclass_fields__
    row = {k: more.pop(k) for k in list(more) if k in fields}
    more |= row.pop("kwargs", {})  # for those that fields of Layer hide
    label = label or ", ".join([*map(short, args), *(f"{k}={short(v)}" for k, v in more.items())])
    LAYERS.append(Layer(name, args, more, tuple(inputs), label, **row))


def short(value: Any) -> str:
    """An argument in a label."""
    return "..." if isinstance(value, (np.ndarray, types.FunctionType)) else str(value)
