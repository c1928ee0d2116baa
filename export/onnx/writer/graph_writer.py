"""Writing ONNX: nodes, constants and names of one model, each value with its dtype."""

from __future__ import annotations

import contextlib
import re
from collections import ChainMap
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....capture.sizes.symbolic_dim import Dim
from ....eager.errors import ExportError

# Where an operator is not defined for a dtype, it is computed in the next wider one and cast back.
_WIDER = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32",
          "int32": "int64", "uint32": "int64", "uint64": "int64", "float16": "float32"}


class Value(NamedTuple):
    """A tensor of the model: its name, and its dtype."""

    name: str
    dtype: np.dtype[Any]


class Writer:
    """The body of a model as it grows."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.shared: ChainMap[Any, list[Value]] = ChainMap()  # results of nodes that have several
        self.site = ""  # the user's line that is being written
        self._count = 0  # of nodes, those of subgraphs as well
        self._taken: set[str] = set()
        self._constants: dict[Any, Value] = {}
        self._arrays: dict[str, Any] = {}  # those of the constants, by name

    def unique(self, wanted: str) -> str:
        """`wanted`, or with a number where the model has that name already."""
        name, count = wanted, 1
        while name in self._taken:
            name, count = f"{wanted}_{count}", count + 1
        self._taken.add(name)
        return name

    def op(self, kind: str, inputs: Sequence[Value | None], dtype: Any, name: str = "",
           before: int = 0, **attributes: Any) -> Value:
        """The result, of `dtype`, of a new node; None is an input left out.

        before: how many results the operator has before the one wanted.
        """
        output = name or self.unique(f"{kind.lower()}_{self._count}")
        unused = [self.unique(f"{output}_unused") for _ in range(before)]
        self._node(kind, inputs, [*unused, output], attributes)
        return Value(output, np.dtype(dtype))

    def ops(self, kind: str, inputs: Sequence[Value | None], dtypes: Sequence[Any],
            **attributes: Any) -> list[Value]:
        """The results, of these dtypes, of a new node."""
        names = [self.unique(f"{kind.lower()}_{self._count}") for _ in dtypes]
        self._node(kind, inputs, names, attributes)
        return [Value(name, np.dtype(dtype)) for name, dtype in zip(names, dtypes)]

    def _node(self, kind: str, inputs: Sequence[Value | None], outputs: Sequence[str],
              attributes: dict[str, Any]) -> None:
        from onnx import helper

        for name, value in attributes.items():
            if type(value) in (list, tuple) and any(type(n) is Dim for n in value):
                raise ExportError(f"{name} would vary, which is fixed in a model",
                                  "leave the axis out of dynamic_shapes")
        self.nodes.append(helper.make_node(
            kind, [x.name if x is not None else "" for x in inputs], outputs,
            name=f"{kind}_{self._count}", doc_string=self.site or None, **attributes))
        self._count += 1

    @contextlib.contextmanager
    def subgraph(self) -> Iterator[None]:
        """A context in which `nodes` are those of a graph inside of the present one."""
        around, self.nodes, self.shared = self.nodes, [], self.shared.new_child()
        try:
            yield
        finally:
            self.nodes, self.shared = around, self.shared.parents

    def apply(self, kind: str, inputs: Sequence[Value], dtype: Any = None, typed: int = 0,
              **attributes: Any) -> Value:
        """`op`, computed in a wider dtype where the operator does not take this one.

        Input number `typed` and its equals are the ones cast; the result is cast back to `dtype`,
        by default theirs.
        """
        own = inputs[typed].dtype
        result = own if dtype is None else np.dtype(dtype)
        taken = self._accepted(kind, own, typed)
        if taken == own:
            return self.op(kind, inputs, result, **attributes)
        wide = [self.cast(x, taken) if x.dtype == own else x for x in inputs]
        out = self.op(kind, wide, taken if result == own else result, **attributes)
        return self.cast(out, result)

    def _accepted(self, kind: str, dtype: np.dtype[Any], typed: int) -> np.dtype[Any]:
        """The narrowest dtype from `dtype` up that the operator is defined for."""
        allowed, name = _accepts(kind, self.opset, typed), dtype.name
        while name not in allowed:
            if name not in _WIDER:
                raise ExportError(f"ONNX has no {kind} of {dtype.name} in opset {self.opset}",
                                  "cast to a dtype that it has, such as fw.float32")
            name = _WIDER[name]
        return np.dtype(name)

    def cast(self, x: Value, dtype: Any) -> Value:
        """`x` in another dtype."""
        from onnx import helper

        wanted = np.dtype(dtype)
        if x.dtype == wanted:
            return x
        if "c" in (x.dtype.kind, wanted.kind):
            raise ExportError(f"ONNX cannot cast {x.dtype.name} to {wanted.name}",
                              "keep real and imaginary parts as two tensors")
        return self.op("Cast", [x], wanted, to=helper.np_dtype_to_tensor_dtype(wanted))

    def const(self, array: Any, dtype: Any = None, name: str = "") -> Value:
        """A constant of the model; equal ones without a name are one."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(array, dtype).reshape(np.shape(array))
        key = None if name else (array.dtype.str, array.shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            label = self.unique(name or f"constant_{len(self._constants)}")
            self.initializers.append(numpy_helper.from_array(array, label))
            self._arrays[label] = array
            found = Value(label, array.dtype)
            if key is not None:
                self._constants[key] = found
        return found

    def array(self, x: Value) -> Any:
        """The values of a constant; None for what is none."""
        return self._arrays.get(x.name)

    def start(self, name: str, array: Any) -> None:
        """The value of an input of the model where a call gives none."""
        from onnx import numpy_helper

        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(
            array.shape), name))

    def permuted(self, x: Value, order: Sequence[int]) -> Value:
        """`x` with its axes in another order; of a constant that is a constant."""
        if list(order) == list(range(len(order))):
            return x
        if x.name not in self._arrays:
            return self.op("Transpose", [x], x.dtype, perm=list(order))
        key = (x.name, *order)
        if key not in self._constants:
            self._constants[key] = self.const(self._arrays[x.name].transpose(order),
                                              name=f"{x.name}.T")
        return self._constants[key]

    def ints(self, values: Sequence[int]) -> Value:
        """A vector of int64, as shapes and axes are given."""
        return self.const(np.array(values, np.int64))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` in a shape of plain numbers, of which one may be -1."""
        return self.op("Reshape", [x, self.ints(shape)], x.dtype)


@cache
def _accepts(kind: str, opset: int, typed: int) -> frozenset[str]:
    """Names of the dtypes that input number `typed` of an operator may have."""
    from onnx import defs

    try:
        schema = defs.get_schema(kind, opset)
    except defs.SchemaError:
        raise ExportError(f"opset {opset} has no operator {kind}",
                          "export with a later opset, such as opset=18") from None
    inputs = schema.inputs
    wanted = inputs[min(typed, len(inputs) - 1)].type_str
    allowed = next((c.allowed_type_strs for c in schema.type_constraints
                    if c.type_param_str == wanted), [wanted])
    names = (re.fullmatch(r"tensor\((\w+)\)", t) for t in allowed)
    return frozenset({"float": "float32", "double": "float64"}.get(n[1], n[1]) for n in names if n)
