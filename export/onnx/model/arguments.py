"""Collects the tensor arguments of an exported function, their names and their dynamic axes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....capture.sizes.symbolic_dim import ShapeEnv
from ....capture.trace.export_tracer import ExportInput
from ....eager.arrays.devices import CPU, host, moved
from ....eager.core.tensor import Tensor, is_bare, with_class
from ....eager.errors import DTypeError, ExportError, ShapeError
from ....eager.nn.base.module import Module

Axes = dict[int, str]  # the dynamic axes of a tensor, and the names of their sizes


@dataclass(frozen=True)
class ExportArguments:
    """An example call: its arguments, and the name, value and dynamic axes of each tensor."""

    fn: Callable[..., Any]
    values: Mapping[str, Any]
    kwargs: frozenset[str]  # names in `values` that are passed as keywords
    names: tuple[str, ...]
    arrays: tuple[Any, ...]  # on the CPU
    axes: tuple[Axes, ...]
    devices: tuple[str, ...]
    classes: tuple[type[Tensor], ...]

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """(args, kwargs) of the call, with its tensors replaced by `tensors`."""
        remaining = iter(tensors)
        values = {name: replaced(value, remaining) for name, value in self.values.items()}
        args: list[Any] = []
        for name, value in values.items():
            if name not in self.kwargs:
                args.extend(value if isinstance(value, _Many) else [value])
        return args, {name: values[name] for name in values if name in self.kwargs}

    def sizes(self) -> dict[str, int]:
        """The named sizes of the example. Raises ShapeError if a name has two sizes."""
        first_uses: dict[str, tuple[int, str]] = {}
        for name, array, axes in zip(self.names, self.arrays, self.axes):
            for axis, symbol in axes.items():
                size, where = array.shape[axis], f"axis {axis} of {name}"
                first, other = first_uses.setdefault(symbol, (size, where))
                if first != size:
                    raise ShapeError(f"size {symbol!r} is {first} in {other} and {size} in {where}",
                                     "axes of one name must have one size: use two names")
        return {symbol: size for symbol, (size, _) in first_uses.items()}

    def export_inputs(self, sizes: ShapeEnv, arrays: Sequence[Any]) -> list[ExportInput]:
        """Inputs of a trace: tensors over `arrays`, and their shapes with symbolic sizes."""
        return [ExportInput(name, tensor, tuple(sizes.named(axes[i]) if i in axes else n
                                                for i, n in enumerate(tensor.shape)))
                for name, tensor, axes in zip(self.names, self.tensors_of(arrays), self.axes)]

    def tensors_of(self, arrays: Sequence[Any]) -> list[Tensor]:
        """Tensors of these values, each on the device of its argument and of its class, which has
        the methods that the function calls."""
        return [with_class(cls, a.view() if device == CPU else moved(a, device))
                for cls, a, device in zip(self.classes, arrays, self.devices)]


class _Many(tuple[Any, ...]):
    """The values of a *args parameter."""


def arguments(fn: Callable[..., Any], args: Any, input_names: Sequence[str] | None,
              dynamic: Any, ignored: Sequence[str] = ()) -> ExportArguments:
    """The example call fn(*args), or fn(**args) if `args` is a dictionary.

    `ignored`: names of outputs, which PyTorch's dynamic_axes may list; the axes of outputs follow
    from those of inputs.
    """
    values, kwargs = _bound(fn, args)
    tensors = [leaf for name, value in values.items() for leaf in leaves(value, name)]
    if values and not tensors:
        raise ExportError("export: the example arguments contain no tensor",
                          "pass the tensors that the model takes: export(model, (x,), path)")
    names = _names([name for name, _ in tensors], input_names)
    if isinstance(dynamic, dict):
        dynamic = {key: spec for key, spec in dynamic.items()
                   if key not in ignored or key in values or key in names}
    axes = _axes(values, names, [tensor for _, tensor in tensors], dynamic)
    arrays = tuple(host(tensor._data) for _, tensor in tensors)
    devices = tuple(tensor.device for _, tensor in tensors)
    classes = tuple(type(tensor) if is_bare(tensor) else Tensor for _, tensor in tensors)
    return ExportArguments(fn, values, frozenset(kwargs), names, arrays, axes, devices, classes)


def further(call: ExportArguments, args: Any) -> ExportArguments:
    """A further example call of the same function, with tensors of the same names, dtypes and axes.

    Raises ExportError if it differs from `call` in more than the values and dynamic sizes.
    """
    values, _ = _bound(call.fn, args)
    tensors = [leaf for name, value in values.items() for leaf in leaves(value, name)]
    arrays = tuple(host(tensor._data) for _, tensor in tensors)
    if [_kind(value) for value in values.values()] != [_kind(v) for v in call.values.values()]:
        raise ExportError("export: an example differs from the others in more than the values of "
                          "its tensors", "numbers, strings and structure are part of the model")
    for name, own, other, axes in zip(call.names, arrays, call.arrays, call.axes):
        fixed = [(n, m) for i, (n, m) in enumerate(zip(own.shape, other.shape)) if i not in axes]
        if own.dtype != other.dtype or own.ndim != other.ndim or any(n != m for n, m in fixed):
            raise ExportError(f"export: {name} is {own.dtype.name}{list(own.shape)} in one "
                              f"example and {other.dtype.name}{list(other.shape)} in another",
                              "name the sizes that vary: dynamic_shapes={...}")
    return dataclasses.replace(call, values=values, arrays=arrays)


def _kind(value: Any) -> Any:
    """The structure and plain values of an argument, which all examples share; tensors left out."""
    if isinstance(value, Tensor):
        return Tensor
    if isinstance(value, dict):
        return {key: _kind(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [_kind(part) for part in value]
    return value


def _bound(fn: Callable[..., Any], args: Any) -> tuple[dict[str, Any], list[str]]:
    """The arguments by the names of the function's parameters, and the names passed as keywords."""
    by_name = args if isinstance(args, dict) else {}
    args = () if by_name else args if isinstance(args, (tuple, list)) else (args,)
    try:
        signature = inspect.signature(fn.forward if isinstance(fn, Module) else fn)
    except (TypeError, ValueError):
        return {f"input_{i}": a for i, a in enumerate(args)} | by_name, list(by_name)
    try:
        bound = signature.bind(*args, **by_name).arguments
    except TypeError as error:
        raise DTypeError(f"export: the example arguments do not fit {_title(fn)}{signature}: "
                         f"{error}",
                         "args is a tuple of the function's arguments: (x, y)") from None
    out: dict[str, Any] = {}
    keywords = []
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            out |= value
            keywords += list(value)
            continue
        out[name] = _Many(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
        if name in by_name and kind is not inspect.Parameter.POSITIONAL_ONLY:
            keywords.append(name)
    return out, keywords


def _title(fn: Any) -> str:
    return type(fn).__name__ if isinstance(fn, Module) else getattr(fn, "__name__", "the function")


def leaves(value: Any, name: str) -> list[tuple[str, Tensor]]:
    """The tensors in a value by name: `x`, and in lists and dictionaries `x_0`, `x_key`."""
    if isinstance(value, Tensor):
        return [(name, value)]
    if isinstance(value, np.ndarray):
        raise DTypeError(f"export: {name} is a NumPy array", "convert it to a tensor: fw.tensor(x)")
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        items = zip(value._fields, value)
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return []
    return [leaf for key, part in items for leaf in leaves(part, f"{name}_{key}")]


def replaced(value: Any, tensors: Any) -> Any:
    """`value` with each tensor in it replaced by the next one of the iterator."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return type(value)((key, replaced(part, tensors)) for key, part in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[replaced(part, tensors) for part in value])
    if isinstance(value, (list, tuple)):
        return type(value)([replaced(part, tensors) for part in value])
    return value


def _names(own: Sequence[str], input_names: Sequence[str] | None) -> tuple[str, ...]:
    if input_names is None:
        return tuple(own)
    if isinstance(input_names, str) or len(input_names) != len(own) \
            or len(set(input_names)) != len(own):
        raise ExportError(f"export: input_names {input_names!r} does not name the {len(own)} "
                          f"tensor arguments {', '.join(own)}", "pass one distinct name for each")
    return tuple(input_names)


# ---- dynamic axes
def _axes(values: Mapping[str, Any], names: Sequence[str], tensors: Sequence[Tensor],
          dynamic: Any) -> tuple[Axes, ...]:
    """The dynamic axes of each tensor, which `dynamic` declares by argument name or position."""
    if dynamic is None:
        return tuple({} for _ in tensors)
    if not isinstance(dynamic, dict):
        dynamic = _by_position("dynamic_shapes", list(values), dynamic)
    own = [name for key, value in values.items() for name, _ in leaves(value, key)]
    specs: dict[str, Any] = {}
    for key, spec in dynamic.items():
        if key in values:
            specs.update(_spread(values[key], spec, key))
        elif key in names:
            specs[own[list(names).index(key)]] = spec
        else:
            raise ExportError(f"dynamic_shapes names {key!r}, which is not an argument",
                              f"the arguments are {', '.join(dict.fromkeys([*values, *names]))}")
    return tuple(_axes_of(name, tensor, specs.get(o)) for o, name, tensor in
                 zip(own, names, tensors))


def _by_position(what: str, keys: Sequence[Any], specs: Any) -> dict[Any, Any]:
    if not isinstance(specs, (list, tuple)) or len(specs) > len(keys):
        raise ExportError(f"{what} must be a dictionary by argument name or a tuple with an entry "
                          f"for each argument ({', '.join(map(str, keys))}), got {specs!r}",
                          'as in dynamic_shapes={"x": {0: "batch"}}')
    return dict(zip(keys, specs))


def _spread(value: Any, spec: Any, name: str) -> dict[str, Any]:
    """The specs of the tensors in a list or dictionary, by name of tensor."""
    if isinstance(value, Tensor) or spec is None:
        return {name: spec}
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) \
        if isinstance(value, (list, tuple)) else []
    by_key = spec if isinstance(spec, dict) else \
        _by_position(f"dynamic_shapes[{name!r}]", keys, spec)
    if not keys or not set(by_key) <= set(keys):
        raise ExportError(f"dynamic_shapes[{name!r}] = {spec!r} does not fit that argument",
                          "give it the structure of the argument, with axes instead of tensors")
    by_name: dict[str, Any] = {}
    for key, inner in by_key.items():
        by_name |= _spread(value[key], inner, f"{name}_{key}")
    return by_name


def _axes_of(name: str, tensor: Tensor, spec: Any) -> Axes:
    """The axes of one tensor: {axis: name}, a name or None for each axis, or a list of axes."""
    shape = tensor._data.shape
    if spec is None:
        return {}
    if isinstance(spec, list) and all(type(axis) is int for axis in spec):
        spec = {axis: f"{name}_dim_{axis}" for axis in spec}  # as in PyTorch's dynamic_axes
    if not isinstance(spec, dict):
        spec = _by_position(f"dynamic_shapes of {name}", range(len(shape)), spec)
    axes: Axes = {}
    for axis, label in spec.items():
        if type(axis) is not int or not -len(shape) <= axis < len(shape):
            raise ExportError(f"dynamic_shapes: {name} of shape {shape} has no axis {axis!r}",
                              f"axes count from 0 to {len(shape) - 1}")
        symbol = _symbol(name, axis, label, shape[axis])
        if symbol is not None:
            axes[axis % len(shape)] = symbol
    return axes


def _symbol(name: str, axis: int, label: Any, size: int) -> str | None:
    """The name of a size: a string, or the name of an object such as PyTorch's Dim. None: fixed."""
    if label is None or (type(label) is int and label == size):
        return None
    symbol = getattr(label, "__name__", label)
    if not isinstance(symbol, str) or not symbol.isidentifier():
        raise ExportError(f"dynamic_shapes: axis {axis} of {name} (size {size}) cannot be named "
                          f"{label!r}", 'a size is named by an identifier, such as "batch"')
    if size == 0:
        raise ExportError(f"axis {axis} of {name} is dynamic, but empty in the example",
                          "pass an example with elements")
    return symbol


def resized(array: Any, axes: Axes, sizes: Mapping[str, int]) -> Any:
    """`array` cut or repeated along its dynamic axes to other sizes."""
    for axis, symbol in axes.items():
        if array.shape[axis] != sizes[symbol]:
            array = array.take(np.arange(sizes[symbol]) % array.shape[axis], axis=axis)
    return array


def drawn(array: Any, axes: Axes, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    """Random values in the range of `array`, in the shape that it has for other sizes."""
    shape = tuple(sizes[axes[i]] if i in axes else n for i, n in enumerate(array.shape))
    if array.size == 0 or array.dtype.kind in "biu":
        flat = array.reshape(-1) if array.size else np.zeros(1, array.dtype)
        return rng.choice(flat, shape).astype(array.dtype).reshape(shape)
    finite = array[np.isfinite(array)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if low == high:  # an example of zeros: equal numbers would hide mistakes
        low, high = low - 1, high + 1
    return np.asarray(rng.uniform(low, high, shape)).astype(array.dtype)
