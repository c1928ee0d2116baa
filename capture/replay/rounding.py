"""How far rounding can move the values of a graph: NumPy evaluates the graph again, perturbed.

A sample is one such evaluation, with the sign of each perturbation drawn at random: each result is
off by a few units in the last place, and what is summed by as much as sums of that length can be.
A float64 sample perturbs nothing and keeps results of smaller floats in float64, so it shows what
the roundings of NumPy itself have done. In a smooth sample, comparisons, integers and what jumps
give what they gave without perturbation; in others rounding may decide them otherwise.
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

SAMPLES = 16  # perturbed evaluations of a kind at most, while an element is not explained

_UNITS = {2: 1, 4: 4, 8: 4}  # units in the last place that a result may be off, by bytes of it
# Functions of one rounding: with exact inputs, nothing but the result is perturbed.
_ROUNDED_ONCE = frozenset((
    "cast complex angle add subtract multiply divide pow square reciprocal sqrt rsqrt exp exp2 "
    "expm1 log log1p log2 log10 hypot sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh "
    "atanh erf erfc sigmoid leaky_relu remainder floor_divide abs").split())
# Functions that choose, move or compare values: their results are exact.
_EXACT = frozenset((
    "alias conj real imag negative sign maximum minimum floor ceil trunc round copysign nextafter "
    "where check_index relu hardtanh rprop_kept transfer places repeats sort max min any all "
    "cumulative_max cumulative_min argmax searchsorted max_pool pool_argmax pool_pick").split())
_JUMPS = frozenset("floor ceil trunc round sign floor_divide remainder".split())
_EXACT_KINDS = frozenset(("view", "create", "sort", "put"))
_CONVOLUTIONS = ("conv", "conv_transpose", "conv_weight")
_ENLARGED = 16  # by how much the transforms of Winograd's tiles enlarge errors
_REACH = (1, 2, 2)  # places to either side: together 5, which a tile of 6 reaches
_NARROW = {dtypes.float16: dtypes.float64, dtypes.bfloat16: dtypes.float64,
           dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}

Evaluate = Callable[[Node, list[Any]], Any]


class Sample(NamedTuple):
    """The outputs of a graph, and whether nothing in it was decided otherwise."""

    outputs: list[Any]
    smooth: bool


class Reference:
    """NumPy's outputs for a graph, and perturbed samples of them."""

    def __init__(self, graph: Graph, arrays: Sequence[Any]) -> None:
        self.graph, self.arrays = graph, arrays
        self._decided: dict[Node, Any] = {}  # values of the nodes that can jump
        self.outputs = self._evaluated(self._exact)

    def samples(self) -> Iterator[Sample]:
        """Samples, as long as somebody asks for more: most often, few smooth ones do."""
        ways: list[Evaluate] = []
        if any(n.type.dtype in _NARROW for n in (*self.graph.inputs, *self.graph.nodes())):
            ways.append(_in_float64)
        ways += [_perturbation(seed) for seed in range(SAMPLES)]
        for number, way in enumerate(ways):
            yield Sample(self._evaluated(self._pinned(way)), True)
            if self._decided and number >= 1:
                for again in ways[:2] if number == 1 else (way,):
                    yield Sample(self._evaluated(again), False)

    def _exact(self, node: Node, inputs: list[Any]) -> Any:
        value = evaluate_node(node, inputs)
        if _jumps(node):
            self._decided[node] = value
        return value

    def _pinned(self, evaluate: Evaluate) -> Evaluate:
        return lambda node, inputs: \
            self._decided[node] if node in self._decided else evaluate(node, inputs)

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
    """True if results of this dtype are rounded."""
    return bool(dtypes.is_float(dtype))


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


# ---- in float64

def _in_float64(node: Node, inputs: list[Any]) -> Any:
    """The value of a node, in float64 where its own dtype is a smaller float."""
    if node.op in SPECIAL or node.type.dtype not in _NARROW:
        return evaluate_node(node, inputs) if _keeps_dtypes(node, inputs) else \
            _in_own_dtypes(node, inputs)
    if OPS[node.op].draws or node.kind == "create":  # its bits depend on its dtype
        return _in_own_dtypes(node, inputs)
    params = {k: _NARROW.get(v, v) if isinstance(v, np.dtype) else v
              for k, v in node.params.items()}
    try:
        value = np.asarray(OPS[node.op].impl(cpu_kernels, *map(_widened, inputs), **params))
    except (TypeError, ValueError, KeyError):  # an op that has no float64
        return _in_own_dtypes(node, inputs)
    return _overflown(value, node.type.dtype)


def _keeps_dtypes(node: Node, inputs: list[Any]) -> bool:
    """True if a node can take float64 inputs although its result is no small float."""
    return node.op in SPECIAL or all(a.dtype == i.type.dtype for a, i in zip(inputs, node.inputs)) \
        or node.kind in ("pointwise", "reduce", "sort")


def _in_own_dtypes(node: Node, inputs: list[Any]) -> Any:
    return evaluate_node(node, [a.astype(i.type.dtype) for a, i in zip(inputs, node.inputs)])


def _widened(value: Any) -> Any:
    return value.astype(_NARROW.get(value.dtype, value.dtype), copy=False)


def _overflown(value: Any, dtype: Any) -> Any:
    """A value in float64 with infinities where `dtype` has no larger number."""
    if value.dtype.kind == "c":
        return value
    largest = float(_limits(dtype).max)
    return np.where(np.abs(value) > largest * (1 + epsilon(dtype) / 2),
                    np.copysign(np.inf, value), value)


# ---- perturbed

def _perturbation(seed: int) -> Evaluate:
    draws = np.random.default_rng(seed)
    return lambda node, inputs: _perturbed_node(node, inputs, draws)


def _perturbed_node(node: Node, inputs: list[Any], draws: Any) -> Any:
    if node.op in SPECIAL or node.op in _EXACT or node.kind in _EXACT_KINDS:
        return evaluate_node(node, inputs)
    length = math.sqrt(_length(node))
    if node.op not in _ROUNDED_ONCE:
        move = _moved_in_tiles if _is_winograd(node) else perturbed
        inputs = [move(_summed(node, a), length, draws) for a in inputs]
    value = evaluate_node(node, inputs)
    if not rounds(node.type.dtype) or (node.op == "cast" and node.type.dtype.itemsize > 2):
        return value.astype(node.type.dtype, copy=False)
    value = perturbed(value, max(1.0, length / 16), draws).astype(node.type.dtype, copy=False)
    return _nan_in_planes(value) if _is_winograd(node) and draws.integers(2) else value


def perturbed(value: Any, scale: float, draws: Any) -> Any:
    """The value with each number moved up or down by `scale` times what a result may be off."""
    dtype = value.dtype
    if not rounds(dtype):
        return value
    kind = np.dtype(dtypes.real_of(dtype))
    step = scale * units_of(dtype) * epsilon(dtype)
    up = draws.integers(0, 2, value.shape, np.int8)
    if dtype.kind == "c":
        return _turned(value, step, draws)
    bits = dtypes.summed_in(kind)
    moved = value * np.array([1 - step, 1 + step], bits)[up]
    tiny = (np.abs(value) < float(_limits(dtype).smallest_normal)) & (value != 0)
    if tiny.any():
        moved = np.where(tiny, value + np.array([-1, 1], bits)[up] * (
            scale * units_of(dtype) * smallest(dtype)), moved)
    return np.asarray(moved).astype(dtype, copy=False)


def _turned(value: Any, step: float, draws: Any) -> Any:
    """Complex numbers moved in any direction, by `step` times their size."""
    angle = draws.uniform(0, 2 * math.pi, value.shape)
    moved = value + (np.abs(value) * step * np.exp(1j * angle)).astype(value.dtype)
    return np.where(np.isfinite(value), moved, value)


def _summed(node: Node, value: Any) -> Any:
    """An input in the dtype that its sum is made in."""
    if node.kind in ("reduce", "scan", "contract"):
        return value.astype(dtypes.summed_in(value.dtype), copy=False)
    return value


def _length(node: Node) -> float:
    """About how many values are combined into one element."""
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
    given, wanted = params["spec"].split("->")
    sizes = {letter: size for letters, shape in zip(given.split(","), shapes)
             for letter, size in zip(letters, shape)}
    return math.prod([size for letter, size in sizes.items() if letter not in wanted])


def _is_winograd(node: Node) -> bool:
    """True if compiled code may compute a node in Winograd tiles."""
    return node.op in _CONVOLUTIONS and node.type.dtype == dtypes.float32 \
        and bool(settings.winograd) and len(node.type.shape) == 4


def _moved_in_tiles(value: Any, scale: float, draws: Any) -> Any:
    """The value with each number moved as far as the largest of the numbers about it could be,
    since the transforms of a tile add these up."""
    near = np.abs(np.where(np.isfinite(value), value, 0))
    for axis in (2, 3):
        for places in _REACH:
            near = _largest_near(near, axis, places)
    step = np.float32(_ENLARGED * scale * units_of(value.dtype) * epsilon(value.dtype))
    up = draws.integers(0, 2, value.shape, np.int8)
    return value + near * np.array([-step, step], value.dtype)[up]


def _largest_near(value: Any, axis: int, places: int) -> Any:
    """For each number the largest of it and of those so many places before and behind it."""
    rows, out = np.moveaxis(value, axis, 0), value.copy()
    largest = np.moveaxis(out, axis, 0)
    np.maximum(largest[places:], rows[:-places], out=largest[places:])
    np.maximum(largest[:-places], rows[places:], out=largest[:-places])
    return out


def _nan_in_planes(value: Any) -> Any:
    """A convolution that is nan in each plane in which something is no finite number: a tile
    spreads it."""
    whole = np.isfinite(value).all(axis=(2, 3), keepdims=True)
    return np.where(whole, value, np.float32(np.nan))
