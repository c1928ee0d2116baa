"""Infers the result type of an op before it runs, and decides if the op may be deferred."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...eager.arrays.shapes import TensorType
from ...eager.core.op import OPS, Op
from ...eager.ops.declare import dtype_of_operands
from ...eager.ops.range_checks import in_range
from ..graph.call_key import call_key
from ..graph.graph import SPECIAL, Graph, Nodes, param_key
from ..graph.graph_builder import literal
from ..graph.reference_interpreter import evaluate
from ..passes.bounds_checks import BoundsCheck, extract_checks
from ..passes.decompose import decompose
from ..runtime.specialization_cache import Specializations


class OpSignature:
    """An op on inputs of known types, shared by all its calls on such inputs.

    `slots` has the dtype of each input that is a number of any value, else None; other numbers are
    part of the signature, as `constants`.
    """

    __slots__ = ("_checks", "checked", "constants", "op", "params", "slots", "type", "why_eager")

    def __init__(self, op: Op, types: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.op, self.params = op, dict(params)
        self.type: TensorType = op.result(*types, **params)
        dtype = dtype_of_operands(types) if any(map(_is_type, types)) else None
        self.slots = tuple([dtype if _is_slot(op, t) else None for t in types])
        self.constants = {i: literal(t, dtype) for i, t in enumerate(types)
                          if not _is_type(t) and self.slots[i] is None}
        self.why_eager = ""  # the reason why the op is not deferred
        self.checked: tuple[int, ...] = ()  # inputs whose values an error can depend on
        self._checks: tuple[Graph, list[BoundsCheck]] | None = None
        self._inspect(types)

    def _inspect(self, types: tuple[Any, ...]) -> None:
        """Decomposes the op, unless it is elementary, to find library calls and index checks."""
        if self.op.kind == "opaque":
            self.why_eager = f"{self.op.name} is a library call"
        elif self.op.kind == "composite" or self.op.bounds is not None \
                or self.op.name == "check_index":
            graph = decompose(self.graph(types))
            inside = [n for n in graph.nodes() if n.op not in SPECIAL]
            library = [n.op for n in inside if OPS[n.op].kind == "opaque"]
            if library:
                self.why_eager = f"{library[0]}, a part of {self.op.name}, is a library call"
            self._set_checks(*extract_checks(graph))

    def _set_checks(self, graph: Graph, checks: list[BoundsCheck]) -> None:
        if not checks:
            return
        values = tuple(dict.fromkeys([graph.outputs[c.output] for c in checks]))
        only = Graph((), values)
        used = tuple([n for n in only.nodes() if n.op == "input"])
        self.checked = tuple([int(n.params["name"]) for n in used])
        self._checks = Graph(used, values), [
            c._replace(output=values.index(graph.outputs[c.output])) for c in checks]

    def graph(self, types: tuple[Any, ...]) -> Graph:
        """A graph of this op alone; its inputs are named by position."""
        nodes = Nodes()
        operands = [nodes.input(str(i), t) if _is_type(t) else nodes.const(*self.constants[i])
                    for i, t in enumerate(types)]
        inputs = tuple([n for n in operands if n.op == "input"])
        return Graph(inputs, (nodes.make(self.op.name, operands, self.params, self.type),))

    def checks_pass(self, arrays: list[Any]) -> bool:
        """True if these values of the `checked` inputs pass the op's index checks."""
        assert self._checks is not None
        graph, checks = self._checks
        values = evaluate(graph, arrays)
        return all([in_range(values[c.output], c.size, c.low) for c in checks])


def _is_type(t: Any) -> bool:
    return isinstance(t, TensorType)


def _is_slot(op: Op, x: Any) -> bool:
    return op.kind == "pointwise" and (type(x) is float or type(x) is int)


_MISSING = object()


class OpSignatures:
    """A cache of signatures; None for an op that raises an error on such inputs."""

    def __init__(self) -> None:
        self._signatures: Specializations[OpSignature | None] = Specializations("op signatures")

    def lookup(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> OpSignature | None:
        """The signature of `op` on these arrays, lazy arrays and numbers."""
        how = _slot_or_value_key if op.kind == "pointwise" else _type_or_value_key
        try:
            key = call_key(op, inputs, params, how)
            found = self._signatures.find(key, _MISSING)
        except TypeError:  # a param that is no plain value
            return None
        return self._signatures.add(key, _infer(op, inputs, params)) if found is _MISSING else found


def _type_or_value_key(x: Any) -> tuple[Any, ...]:
    """The key of an array or lazy array, or of a number in a signature."""
    return (x.shape, x.dtype) if hasattr(x, "shape") else param_key(x)


def _slot_or_value_key(x: Any) -> tuple[Any, ...]:
    """The same for inputs of a pointwise op, of which numbers may have any value."""
    if type(x) is float or type(x) is int:
        return (type(x),)
    return (x.shape, x.dtype) if hasattr(x, "shape") else param_key(x)


def _infer(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> OpSignature | None:
    types = tuple([TensorType(x.shape, x.dtype) if hasattr(x, "shape") else x for x in inputs])
    try:
        return OpSignature(op, types, params)
    except Exception:  # eager's own error is raised where the op runs
        return None


def fits(number: Any, dtype: Any) -> bool:
    """True if `dtype` can hold a number."""
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
