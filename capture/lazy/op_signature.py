"""What is known of an op's result before it is computed: its type, and whether it may wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS, Op
from ...eager.ops.declare import dtype_of_operands
from ...eager.ops.range_checks import in_range
from ..graph.graph import SPECIAL, Graph, Nodes, param_key
from ..graph.graph_builder import literal
from ..graph.reference_interpreter import evaluate
from ..passes.bounds_checks import Check, extract_checks
from ..passes.decompose import decompose


class OpSignature:
    """An op on inputs of known types: what all its calls on such inputs share.

    `slots` gives, for each input that is a number of any value, the dtype that it takes; other
    numbers are part of the result, as `constants`.
    """

    __slots__ = ("_checks", "checked", "constants", "op", "params", "slots", "type", "why_now")

    def __init__(self, op: Op, types: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.op, self.params = op, dict(params)
        self.type: TensorType = op.result(*types, **params)
        dtype = dtype_of_operands(types) if any(map(_is_type, types)) else None
        self.slots = tuple([dtype if _is_slot(op, t) else None for t in types])
        self.constants = {i: literal(t, dtype) for i, t in enumerate(types)
                          if not _is_type(t) and self.slots[i] is None}
        self.why_now = ""  # why the op is not put off
        self.checked: tuple[int, ...] = ()  # inputs whose values an error can depend on
        self._checks: tuple[Graph, list[Check]] | None = None
        self._look_inside(types)

    def _look_inside(self, types: tuple[Any, ...]) -> None:
        """Finds out what the op is made of, where it is not plain."""
        if self.op.kind == "opaque":
            self.why_now = f"{self.op.name} is a library call"
        elif self.op.kind == "composite" or self.op.bounds is not None \
                or self.op.name == "check_index":
            graph = decompose(self.graph(types))
            inside = [n for n in graph.nodes() if n.op not in SPECIAL]
            library = [n.op for n in inside if OPS[n.op].kind == "opaque"]
            if library:
                self.why_now = f"{self.op.name} decomposes into {library[0]}, a library call"
            self._keep_checks(*extract_checks(graph))

    def _keep_checks(self, graph: Graph, checks: list[Check]) -> None:
        if not checks:
            return
        values = tuple(dict.fromkeys([graph.outputs[c.output] for c in checks]))
        only = Graph((), values)
        used = tuple([n for n in only.nodes() if n.op == "input"])
        self.checked = tuple([int(n.params["name"]) for n in used])
        self._checks = Graph(used, values), [
            c._replace(output=values.index(graph.outputs[c.output])) for c in checks]

    def graph(self, types: tuple[Any, ...]) -> Graph:
        """The op alone, its inputs named by their places."""
        nodes = Nodes()
        given = [nodes.input(str(i), t) if _is_type(t) else nodes.const(*self.constants[i])
                 for i, t in enumerate(types)]
        inputs = tuple([n for n in given if n.op == "input"])
        return Graph(inputs, (nodes.make(self.op.name, given, self.params, self.type),))

    def holds(self, arrays: list[Any]) -> bool:
        """Whether the op raises no error for these values of its `checked` inputs."""
        assert self._checks is not None
        graph, checks = self._checks
        values = evaluate(graph, arrays)
        return all([in_range(values[c.output], c.size, c.low) for c in checks])


def _is_type(t: Any) -> bool:
    return isinstance(t, TensorType)


def _is_slot(op: Op, x: Any) -> bool:
    return op.kind == "pointwise" and (type(x) is float or type(x) is int)


class OpSignatures:
    """The results met so far, each once; None for an op that gives an error on such inputs."""

    MOST = 10_000  # from so many on, unused ones are forgotten

    def __init__(self) -> None:
        self._known: dict[Any, OpSignature | None] = {}

    def of(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> OpSignature | None:
        """The result of `op` on these arrays, values to come, and numbers."""
        key: list[Any] = [op]
        for x in inputs:
            if hasattr(x, "shape"):
                key += (x.shape, x.dtype)
            elif _is_slot(op, x):
                key.append(type(x))
            else:
                key.append(param_key(x))
        for name, value in params.items():
            key += (name, param_key(value))
        try:
            fixed = tuple(key)
            if fixed in self._known:
                return self._known[fixed]
        except TypeError:  # a param that is no plain value
            return None
        return self._known.setdefault(fixed, _found(op, inputs, params))

    def trim(self, keys: Iterable[tuple[Any, ...]]) -> None:
        """Forgets the results that do not stand in `keys`, where they have become many."""
        if len(self._known) >= self.MOST:
            used = {x for key in list(keys) for x in key if type(x) is OpSignature}
            self._known = {key: r for key, r in self._known.items() if r in used}


def _found(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> OpSignature | None:
    types = tuple([TensorType(x.shape, x.dtype) if hasattr(x, "shape") else x for x in inputs])
    try:
        return OpSignature(op, types, params)
    except Exception:  # eager's own error is raised where the op runs
        return None


def fits(number: Any, dtype: Any) -> bool:
    """Whether a number can be made one of `dtype`."""
    if type(number) is float or 0 <= number < 128:
        return True
    try:
        literal(number, dtype)
    except OverflowError:
        return False
    return True


def as_array(number: Any, dtype: Any) -> Any:
    """A number as an array of `dtype`."""
    return np.array(literal(number, dtype)[0], dtype)
