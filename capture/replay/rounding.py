"""Measures the effect of rounding on a graph: NumPy evaluates it again with perturbed values.

A sample is one such evaluation. Each result moves by a few units in the last place, with a random
sign. The inputs of sums move by the rounding error of a sum of their length. A float64 sample is
not perturbed. It keeps results of smaller floats in float64, and so shows the rounding errors of
NumPy itself. In a smooth sample, comparisons, integers and functions with jumps have their values
without perturbation. In other samples rounding may change them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ...eager.arrays import cpu_kernels, dtypes
from ...eager.core.op import OPS
from ...eager.settings import settings
from ..graph.graph import SPECIAL, Graph, Node
from ..graph.reference_interpreter import evaluate_node

SAMPLES = 16  # the limit of perturbed evaluations of each kind

_UNITS = {2: 1, 4: 4, 8: 4}  # error in units in the last place, by the size in bytes
# Functions that round once: only their result is perturbed, not their inputs.
_ROUNDED_ONCE = frozenset((
    "cast complex angle add subtract multiply divide pow square reciprocal sqrt rsqrt exp exp2 "
    "expm1 log log1p log2 log10 hypot sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh "
    "atanh erf erfc sigmoid leaky_relu remainder floor_divide abs").split())
# Functions that choose, move or compare values: their results are exact.
_EXACT = frozenset((
    "alias conj real imag negative sign maximum minimum floor ceil trunc round copysign nextafter "
    "where check_index relu hardtanh rprop_kept transfer true_indices repeats sort max min any all "
    "cumulative_max cumulative_min argmax searchsorted max_pool pool_argmax pool_pick").split())
_JUMPS = frozenset("floor ceil trunc round sign floor_divide remainder".split())
_EXACT_KINDS = frozenset(("view", "create", "sort", "scatter_rows"))
_CONVOLUTIONS = ("conv", "conv_transpose", "conv_weight")
_WINOGRAD_ERROR_FACTOR = 16  # the error factor of the transforms of Winograd tiles
_REACH_STEPS = (1, 2, 2)  # steps to either side: 5 in sum, the reach of a tile of 6
_NARROW = {dtypes.float16: dtypes.float64, dtypes.bfloat16: dtypes.float64,
           dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}

Evaluate = Callable[[Node, list[Any]], Any]


class Sample(NamedTuple):
    """The outputs of a graph. `smooth` is True if jumps have their unperturbed values."""

    outputs: list[Any]
    smooth: bool


class Reference:
    """NumPy's outputs for a graph, and perturbed samples of them."""

    def __init__(self, graph: Graph, arrays: Sequence[Any]) -> None:
        self.graph, self.arrays = graph, arrays
        self._jump_values: dict[Node, Any] = {}  # values of the nodes that can jump
        self.outputs = self._evaluated(self._exact)

    def samples(self) -> Iterator[Sample]:
        """An iterator of samples. The first ones are smooth and usually suffice."""
        evaluations: list[Evaluate] = []
        if any(n.type.dtype in _NARROW for n in (*self.graph.inputs, *self.graph.nodes())):
            evaluations.append(_in_float64)
        evaluations += [_perturbation(seed) for seed in range(SAMPLES)]
        for number, evaluate in enumerate(evaluations):
            yield Sample(self._evaluated(self._pinned(evaluate)), True)
            if self._jump_values and number >= 1:
                for again in evaluations[:2] if number == 1 else (evaluate,):
                    yield Sample(self._evaluated(again), False)

    def _exact(self, node: Node, inputs: list[Any]) -> Any:
        value = evaluate_node(node, inputs)
        if _jumps(node):
            self._jump_values[node] = value
        return value

    def _pinned(self, evaluate: Evaluate) -> Evaluate:
        return lambda node, inputs: \
            self._jump_values[node] if node in self._jump_values else evaluate(node, inputs)

    def _evaluated(self, evaluate: Evaluate) -> list[Any]:
        values: dict[Node, Any] = dict(zip(self.graph.inputs, self.arrays))
        with np.errstate(all="ignore"):
            for node in self.graph.nodes():
                if node not in values:
                    values[node] = evaluate(node, [values[i] for i in node.inputs])
        return [values[o] for o in self.graph.outputs]


def _jumps(node: Node) -> bool:
    """True if rounding in the inputs can make a node's value jump."""
    computed = any(rounds(i.type.dtype) or i.op not in SPECIAL for i in node.inputs)
    return computed and (node.op in _JUMPS or not rounds(node.type.dtype))


def rounds(dtype: Any) -> bool:
    """True if results of this dtype are rounded. A float8 is so coarse that it jumps instead."""
    return bool(dtypes.is_float(dtype)) and not dtypes.is_stored(dtype)


def units_of(dtype: Any) -> int:
    """The error of a result of this dtype, in units in the last place."""
    return _UNITS[np.dtype(dtypes.real_of(dtype)).itemsize]


def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(_limits(dtype).eps)


def smallest(dtype: Any) -> float:
    """The smallest positive number of a dtype."""
    return float(_limits(dtype).smallest_subnormal)


def wide(value: Any) -> Any:
    """Numbers as float64 or complex128."""
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64, copy=False)


def _limits(dtype: Any) -> Any:
    return ml_dtypes.finfo(dtypes.real_of(dtype))  # type: ignore[no-untyped-call]


# ---- the float64 sample

def _in_float64(node: Node, inputs: list[Any]) -> Any:
    """The value of a node, in float64 where its own dtype is a smaller float."""
    if node.op in SPECIAL or node.type.dtype not in _NARROW:
        return evaluate_node(node, inputs) if _keeps_dtypes(node, inputs) else \
            _in_own_dtypes(node, inputs)
    if OPS[node.op].draws or node.kind == "create":  # its random bits depend on its dtype
        return _in_own_dtypes(node, inputs)
    params = {k: _NARROW.get(v, v) if isinstance(v, np.dtype) else v
              for k, v in node.params.items()}
    try:
        value = np.asarray(OPS[node.op].impl(cpu_kernels, *map(_widened, inputs), **params))
    except (TypeError, ValueError, KeyError):  # an op without float64
        return _in_own_dtypes(node, inputs)
    return _with_overflow(value, node.type.dtype)


def _keeps_dtypes(node: Node, inputs: list[Any]) -> bool:
    """True if a node can take float64 inputs although its result is no small float."""
    return node.op in SPECIAL or all(a.dtype == i.type.dtype for a, i in zip(inputs, node.inputs)) \
        or node.kind in ("pointwise", "reduce", "sort")


def _in_own_dtypes(node: Node, inputs: list[Any]) -> Any:
    return evaluate_node(node, [a.astype(i.type.dtype) for a, i in zip(inputs, node.inputs)])


def _widened(value: Any) -> Any:
    return value.astype(_NARROW.get(value.dtype, value.dtype), copy=False)


def _with_overflow(value: Any, dtype: Any) -> Any:
    """A value in float64 with infinities where `dtype` has no larger number."""
    if value.dtype.kind == "c":
        return value
    largest = float(_limits(dtype).max)
    return np.where(np.abs(value) > largest * (1 + epsilon(dtype) / 2),
                    np.copysign(np.inf, value), value)


# ---- perturbed samples

def _perturbation(seed: int) -> Evaluate:
    draws = np.random.default_rng(seed)
    return lambda node, inputs: _perturbed_node(node, inputs, draws)


def _perturbed_node(node: Node, inputs: list[Any], draws: Any) -> Any:
    if node.op in SPECIAL or node.op in _EXACT or node.kind in _EXACT_KINDS:
        return evaluate_node(node, inputs)
    length = math.sqrt(_length(node))
    if node.op not in _ROUNDED_ONCE:
        move = _moved_in_tiles if _is_winograd(node) else perturbed
        inputs = [move(_as_accumulated(node, a), length, draws) for a in inputs]
    value = evaluate_node(node, inputs)
    if not rounds(node.type.dtype) or (node.op == "cast" and node.type.dtype.itemsize > 2):
        return value.astype(node.type.dtype, copy=False)
    value = perturbed(value, max(1.0, length / 16), draws).astype(node.type.dtype, copy=False)
    return _nan_in_planes(value) if _is_winograd(node) and draws.integers(2) else value


def perturbed(value: Any, scale: float, draws: Any) -> Any:
    """The value with each number moved up or down by `scale` times its rounding error."""
    dtype = value.dtype
    if not rounds(dtype):
        return value
    kind = np.dtype(dtypes.real_of(dtype))
    step = scale * units_of(dtype) * epsilon(dtype)
    up = draws.integers(0, 2, value.shape, np.int8)
    if dtype.kind == "c":
        return _moved_complex(value, step, draws)
    bits = dtypes.summed_in(kind)
    moved = value * np.array([1 - step, 1 + step], bits)[up]
    tiny = (np.abs(value) < float(_limits(dtype).smallest_normal)) & (value != 0)
    if tiny.any():
        moved = np.where(tiny, value + np.array([-1, 1], bits)[up] * (
            scale * units_of(dtype) * smallest(dtype)), moved)
    return np.asarray(moved).astype(dtype, copy=False)


def _moved_complex(value: Any, step: float, draws: Any) -> Any:
    """Complex numbers moved in a random direction, by `step` times their size."""
    angle = draws.uniform(0, 2 * math.pi, value.shape)
    moved = value + (np.abs(value) * step * np.exp(1j * angle)).astype(value.dtype)
    return np.where(np.isfinite(value), moved, value)


def _as_accumulated(node: Node, value: Any) -> Any:
    """An input in the dtype of its accumulator."""
    if node.kind in ("reduce", "scan", "contract"):
        return value.astype(dtypes.summed_in(value.dtype), copy=False)
    return value


def _length(node: Node) -> float:
    """The approximate number of values that form one element."""
    shapes = [i.type.shape for i in node.inputs]
    if node.kind == "pointwise":
        return 1.0
    if node.kind == "reduce":
        axes: Sequence[int] = node.params["axis"]
        return float(max(1, math.prod([shapes[0][a] for a in axes])))
    if node.kind == "scan":
        return float(max(1, shapes[0][node.params["axis"]]))
    if node.kind == "contract":
        return float(max(1, _summed_letters(node.params, shapes)))
    sizes = [max(i.type.size, 1) for i in node.inputs]
    between = math.prod(sizes) / max(node.type.size, 1)
    return float(max(1.0, between ** (1 / max(len(sizes), 1))))


def _summed_letters(params: Mapping[str, Any], shapes: Sequence[Sequence[int]]) -> int:
    operands, result = params["spec"].split("->")
    sizes = {letter: size for letters, shape in zip(operands.split(","), shapes)
             for letter, size in zip(letters, shape)}
    return math.prod([size for letter, size in sizes.items() if letter not in result])


def _is_winograd(node: Node) -> bool:
    """True if compiled code may compute a node in Winograd tiles."""
    return node.op in _CONVOLUTIONS and node.type.dtype == dtypes.float32 \
        and bool(settings.winograd) and len(node.type.shape) == 4


def _moved_in_tiles(value: Any, scale: float, draws: Any) -> Any:
    """The value with each number moved by the rounding error of its largest neighbour.

    The transforms of a tile add neighbouring numbers.
    """
    near = np.abs(np.where(np.isfinite(value), value, 0))
    for axis in (2, 3):
        for distance in _REACH_STEPS:
            near = _largest_near(near, axis, distance)
    step = np.float32(_WINOGRAD_ERROR_FACTOR * scale * units_of(value.dtype) * epsilon(value.dtype))
    up = draws.integers(0, 2, value.shape, np.int8)
    return value + near * np.array([-step, step], value.dtype)[up]


def _largest_near(value: Any, axis: int, distance: int) -> Any:
    """The maximum of each number and the numbers `distance` before and after it."""
    rows, out = np.moveaxis(value, axis, 0), value.copy()
    largest = np.moveaxis(out, axis, 0)
    np.maximum(largest[distance:], rows[:-distance], out=largest[distance:])
    np.maximum(largest[:-distance], rows[distance:], out=largest[:-distance])
    return out


def _nan_in_planes(value: Any) -> Any:
    """A convolution with nan in each plane that has a nan or infinite number.

    A tile spreads such a number to its neighbours.
    """
    is_finite = np.isfinite(value).all(axis=(2, 3), keepdims=True)
    return np.where(is_finite, value, np.float32(np.nan))
