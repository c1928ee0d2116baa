"""`check=`: compiled code beside NumPy on the same values; the first op that differs is named.

How far two right programs may differ is measured, not guessed: NumPy computes the graph again with
every result moved by a few roundings. Where that changes much, compiled code may differ as much.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..eager.devices import host
from ..eager.errors import ArgumentError, CheckError
from .evaluate import evaluate_node
from .graph import SPECIAL, Graph, Node
from .stage import Backend, Executable

_MOVED = 3  # times that NumPy computes a graph with its results moved
_ROUNDINGS = 8  # by how many roundings
_SMALLEST = 1e-37  # below the normal numbers of float32, results may be rounded to zero
_SLACK = 4  # how much further than that compiled code may be off
_CURE = ("this is a mistake of fusewire: please report it with the function's .graph() and .code();"
         " FUSEWIRE_COMPILE=0 runs everything eagerly until then")


def interval(check: str | float) -> int:
    """Every how many calls to check: 0 for the first alone."""
    known = {"first": 0, "always": 1}
    if isinstance(check, str) and check in known:
        return known[check]
    if isinstance(check, (int, float)) and not isinstance(check, bool) and 0 < check <= 1:
        return round(1 / check)
    raise ArgumentError(f"check={check!r} is not \"first\", \"always\" or a share of the calls",
                        "check=0.01 checks every hundredth call")


def checking(backend: Backend, check: str | float, name: str) -> Backend:
    """A backend whose programs are compared with NumPy as often as `check` says."""
    every = interval(check)
    return lambda graph: Checked(graph, backend(graph), backend, every, name)


class Checked:
    """A program that is compared with NumPy on its first call, and on every so many."""

    def __init__(self, graph: Graph, executable: Executable, backend: Backend, every: int,
                 name: str) -> None:
        """backend(part) makes programs of parts of the graph, to find what is wrong first."""
        self.graph, self.backend, self.every, self.name = graph, backend, every, name
        self.executable = executable
        self._calls = itertools.count()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs; CheckError, with nothing changed, where NumPy gives others."""
        call = next(self._calls)
        if call if not self.every else call % self.every:
            return self.executable(arrays)
        # Held twice, arrays are not written over, however few others hold them.
        given, _held = list(arrays), list(arrays)
        found = self.executable(arrays)
        compare(self.graph, given, found, self.backend, self.name)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def compare(graph: Graph, arrays: Sequence[Any], found: Sequence[Any], backend: Backend,
            name: str) -> None:
    """Raises CheckError, by op and line, where `found` is not what the graph gives."""
    wrong = differences(graph, arrays, found)
    if wrong:
        first = _first(wrong[0], graph, arrays, backend)
        raise CheckError(f"{name}: compiled code and eager differ: {first}", _CURE)


@dataclass(frozen=True)
class Difference:
    """A node whose compiled value is wrong: both values, at the element that is off the most."""

    node: Node
    index: tuple[int, ...]
    compiled: Any
    eager: Any
    count: int

    def __str__(self) -> str:
        at = f" at {list(self.index)}" if self.index else ""
        where = f" at {self.node.site}" if self.node.site else ""
        return (f"{self.node.op}{where} gives {self.compiled} instead of {self.eager}{at}, and "
                f"{self.count} of {self.node.type.size} elements of {self.node.type} are not equal")


def differences(graph: Graph, arrays: Sequence[Any], found: Sequence[Any]) -> list[Difference]:
    """The outputs that are further off than rounding can be."""
    arrays, found = list(map(host, arrays)), list(map(host, found))
    exact = _values(graph, arrays, None)
    moved = [_values(graph, arrays, np.random.default_rng(seed)) for seed in range(_MOVED)]
    return [_difference(node, np.asarray(value), exact[i])
            for i, (node, value) in enumerate(zip(graph.outputs, found))
            if not _agree(np.asarray(value), exact[i], [m[i] for m in moved])]


def _first(wrong: Difference, graph: Graph, arrays: Sequence[Any], backend: Backend) -> Difference:
    """What is wrong first on the way to a wrong value: a node whose inputs, compiled alone, are
    right. A mistake that needs its surroundings is left where it was seen."""
    right: set[Node] = set()

    def alone(node: Node) -> Difference | None:
        if node.op in SPECIAL or node in right:
            return None
        part = Graph(graph.inputs, (node,))
        found = differences(part, arrays, backend(part)(list(arrays)))
        right.update(() if found else (node,))
        return found[0] if found else None

    while True:
        below = next(filter(None, map(alone, wrong.node.inputs)), None)
        if below is None:
            return wrong
        wrong = below


# ---- what NumPy gives

def _values(graph: Graph, arrays: Sequence[Any], draws: Any) -> list[Any]:
    """The outputs by NumPy; with `draws`, a random generator, all results moved by roundings."""
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays))
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            if node not in values:
                inputs = [values[i] for i in node.inputs]
                values[node] = evaluate_node(node, inputs) if draws is None else \
                    _moved_node(node, inputs, draws)
    return [values[o] for o in graph.outputs]


def _moved_node(node: Node, inputs: list[Any], draws: Any) -> Any:
    if node.op in SPECIAL or node.kind in ("view", "create"):  # these round nothing
        return evaluate_node(node, inputs)
    roundings = _ROUNDINGS * math.sqrt(_steps(node))
    if roundings > _ROUNDINGS:
        inputs = [_moved(v, roundings, draws) for v in inputs]
    return _moved(evaluate_node(node, inputs), _ROUNDINGS, draws)


def _steps(node: Node) -> float:
    """About how many values go into one element."""
    if node.kind == "pointwise":
        return 1.0
    sizes = [max(i.type.size, 1) for i in node.inputs]
    between = math.prod(sizes) / max(node.type.size, 1)
    return float(max(1.0, between ** (1 / max(len(sizes), 1))))


def _moved(value: Any, roundings: float, draws: Any) -> Any:
    if not _rounds(value.dtype):
        return value
    factor = 1 + roundings * _epsilon(value.dtype) * draws.uniform(-1, 1, value.shape)
    return np.asarray(_wide(value) * factor).astype(value.dtype)


def _rounds(dtype: Any) -> bool:
    return dtype.kind not in "biu"


def _epsilon(dtype: Any) -> float:
    kind = dtype.type(0).real.dtype
    return float(ml_dtypes.finfo(kind).eps)  # type: ignore[no-untyped-call]


def _wide(value: Any) -> Any:
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


# ---- comparing

def _agree(found: Any, exact: Any, moved: list[Any]) -> bool:
    """Whether a compiled value is as near to NumPy's as rounding allows."""
    if found.shape != exact.shape or found.dtype != exact.dtype:
        return False
    if not _rounds(exact.dtype):
        flips = max(int(np.count_nonzero(m != exact)) for m in moved)
        return int(np.count_nonzero(found != exact)) <= _SLACK * flips
    few = _SLACK * _ROUNDINGS * _epsilon(exact.dtype)
    with np.errstate(all="ignore"):
        found, exact, *moved = map(_wide, (found, exact, *moved))
        settled = np.all([_alike(m, exact) for m in moved], axis=0)
        if not np.all(_alike(found, exact) | ~settled):
            return False
        finite = settled & np.isfinite(exact)
        unit = np.max(np.abs(exact), where=finite, initial=0) or 1.0  # squares stay finite
        exact, found, *moved = (np.where(finite, v, 0) / unit for v in (exact, found, *moved))
        free = max(float(np.linalg.norm(m - exact)) for m in moved)
        off = float(np.linalg.norm(found - exact))
        return off <= _SLACK * free + few * float(np.linalg.norm(exact)) + _SMALLEST / unit


def _alike(a: Any, b: Any) -> Any:
    """Where both are finite, the same infinity, or no number."""
    return (np.isfinite(a) & np.isfinite(b)) | (a == b) | (np.isnan(a) & np.isnan(b))


def _difference(node: Node, found: Any, exact: Any) -> Difference:
    """A wrong output in numbers."""
    if found.shape != exact.shape or found.dtype != exact.dtype:
        return Difference(node, (), _type(found), _type(exact), node.type.size)
    with np.errstate(all="ignore"):
        off = np.abs(_wide(found) - _wide(exact))
        off = np.where(found == exact, 0, np.where(np.isnan(off), np.inf, off))
    both_nan = np.isnan(_wide(found)) & np.isnan(_wide(exact))
    off = np.where(both_nan, 0, off)
    index = tuple(map(int, np.unravel_index(np.argmax(off), off.shape))) if off.shape else ()
    return Difference(node, index, found[index], exact[index], int(np.count_nonzero(off)))


def _type(value: Any) -> str:
    return f"{value.dtype.name}{list(value.shape)}"
