"""Adapts models to functions of arrays: functions, modules, ONNX models, saved programs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw

from ..export.onnx.load.runtime.module import Declared
from ..export.onnx.load.runtime.module import Model as ONNXModel
from ..export.saved.loaded import LoadedFunction
from .base.data_types import NAMES
from .base.signature import TensorSpec, arrays_of

Example = Mapping[str, Any]
Sizes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Source:
    """A function of tensors, and what its calls look like.

    Args:
        function: takes tensors in the order of the inputs.
        calls: the inputs of one call for each combination of sizes that is served; the first size
            counts the rows, -1 for any number.
        output_names: None if nobody named them.
        is_fixed: True for code that exists for these sizes only.
        examples: the inputs of one call for each combination of sizes, where somebody gave them.
        has_gradients: True for code that was saved with gradients enabled.
    """

    function: Callable[..., Any]
    calls: tuple[tuple[TensorSpec, ...], ...]
    output_names: tuple[str, ...] | None = None
    is_fixed: bool = False
    examples: tuple[Mapping[str, Any], ...] = ()
    has_gradients: bool = False


def source_of(function: Any, examples: Sequence[Example], sizes: Sizes) -> Source:
    """The source of a function, a module, an ONNX model or a saved program.

    Args:
        function: the served function. A module is put in eval mode.
        examples: inputs of calls, by name. Required for functions and modules, unless they come
            from ONNX or from `fw.load_compiled`.
        sizes: the numbers that a named size of an ONNX model has.

    Raises:
        ArgumentError: inputs are not known, or have a type that cannot be served.
    """
    if isinstance(function, fw.nn.Module):
        function.eval()
    if isinstance(function, LoadedFunction):
        return _of_saved(function)
    if isinstance(function, ONNXModel) and not examples:
        return _of_onnx(function, sizes)
    if not callable(function):
        raise fw.ArgumentError(f"a {type(function).__name__} cannot be served",
                               "pass a function of tensors, a module, fw.onnx.load(path) or "
                               "fw.load_compiled(path)")
    if not examples:
        raise fw.ArgumentError("the inputs of a function are not known before it is called",
                               "pass example={name: tensor}, with the rows on the first axis")
    return _of_examples(function, examples)


# ---- functions and modules, by examples

def _of_examples(function: Any, examples: Sequence[Example]) -> Source:
    arrays = [arrays_of(example) for example in examples]
    names = tuple(arrays[0])
    _check_names(function, names)
    for example in arrays:
        if tuple(example) != names:
            raise fw.ArgumentError(f"the examples have the inputs {', '.join(names)} and "
                                   f"{', '.join(example)}", "give all of them the same inputs")
    calls = tuple(tuple(_spec(name, array) for name, array in example.items())
                  for example in arrays)
    plain = getattr(function, "original", function)  # a function that is not compiled yet
    return Source(_by_name(plain, names), calls, examples=tuple(arrays))


def _check_names(function: Any, names: Sequence[str]) -> None:
    called = function.forward if isinstance(function, fw.nn.Module) else function
    try:
        inspect.signature(called).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise fw.ArgumentError(f"the function does not take the inputs {', '.join(names)}: {error}",
                               "name the inputs of the example as the function's parameters"
                               ) from None


def _spec(name: str, array: Any) -> TensorSpec:
    if array.dtype not in NAMES:
        raise fw.ArgumentError(f"the input {name!r} has the dtype {array.dtype}",
                               f"the protocol has {', '.join(map(str, NAMES))}")
    return TensorSpec(name, array.dtype, tuple(array.shape))


def _by_name(function: Any, names: Sequence[str]) -> Callable[..., Any]:
    """A function that takes by position what `function` takes by name."""
    def call(*tensors: fw.Tensor) -> Any:
        return function(**dict(zip(names, tensors)))

    return call


# ---- ONNX models

def _of_onnx(model: ONNXModel, sizes: Sizes) -> Source:
    declared = [d for d in model._inputs if not d.optional]
    free = dict.fromkeys(n for d in declared for n in _behind_the_first(d)
                         if not isinstance(n, int))
    missing = [str(name) for name in free if name not in sizes]
    if missing:
        raise fw.ArgumentError(f"the model takes any size of {', '.join(missing)}",
                               f"say which sizes are served: sizes={{{missing[0]!r}: (16, 32)}}, "
                               f"or --size {missing[0]}=16,32")
    choices = [dict(zip(free, values))
               for values in itertools.product(*(sizes[str(n)] for n in free))]
    calls = tuple(tuple(_declared_spec(d, chosen) for d in declared) for chosen in choices)
    names = [d.parameter for d in declared]
    return Source(_by_name(model, names), calls, tuple(model._outputs))


def _behind_the_first(declared: Declared) -> Sequence[Any]:
    if declared.kind != "tensor" or declared.shape is None or declared.dtype not in \
            fw_names():
        raise fw.ArgumentError(f"the input {declared!r} cannot be served",
                               "it has to be a tensor of numbers with a known rank")
    return declared.shape[1:]


def fw_names() -> dict[str, np.dtype[Any]]:
    """The dtypes of the protocol by fusewire's names."""
    return {dtype.name: dtype for dtype in NAMES}


def _declared_spec(declared: Declared, chosen: Mapping[Any, int]) -> TensorSpec:
    first, *others = declared.shape or (1,)
    shape = (first if isinstance(first, int) else -1,
             *(n if isinstance(n, int) else chosen[n] for n in others))
    return TensorSpec(declared.name, fw_names()[declared.dtype], shape if declared.shape else ())


# ---- saved programs

def _of_saved(function: LoadedFunction) -> Source:
    calls = []
    for signature in function.signatures():
        unknown = [name for name, (_, shape) in signature.items() if None in shape[1:]]
        if unknown:
            raise fw.ArgumentError(f"{function.__name__} was saved for any size of {unknown[0]!r}",
                                   "save it for the sizes that are served, or for any first size")
        calls.append(tuple(TensorSpec(name, np.dtype(dtype), tuple(
            -1 if n is None else n for n in shape)) for name, (dtype, shape) in signature.items()))
    if not calls or not calls[0]:
        raise fw.ArgumentError(f"{function.__name__} was saved without calls by tensors",
                               "call the function with tensors before it is saved")
    return Source(function, tuple(dict.fromkeys(calls)), is_fixed=True,
                  has_gradients=function.needs_gradients)
