"""Writes the nodes, constants and names of one model; each value has its dtype."""

from __future__ import annotations

import contextlib
import re
from collections import ChainMap
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....capture.sizes.symbolic_dim import Dim
from ....eager.arrays.dtypes import (
    STORED,
    as_dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    is_stored,
)
from ....eager.errors import ExportError
from .element_types import name_in_schema

# If an operator is not defined for a dtype, it is computed in the next wider one and cast back.
_WIDER = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32",
          "int32": "int64", "uint32": "int64", "uint64": "int64", "float16": "float32",
          **{d.name: {"f": "float32", "i": "int8", "u": "uint8"}[k] for d, k in STORED.items()}}
_OVERFLOWING = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz)


class OnnxValue(NamedTuple):
    """A tensor of the model: its name and its dtype."""

    name: str
    dtype: np.dtype[Any]


class Writer:
    """The nodes and initializers of a model under construction."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.shared: ChainMap[Any,
                              list[OnnxValue]] = ChainMap()  # results of nodes that have several
        self.site = ""  # the user's line of the nodes being written
        self._count = 0  # nodes written so far, with those of subgraphs
        self._taken: set[str] = set()
        self._constants: dict[Any, OnnxValue] = {}
        self._arrays: dict[str, Any] = {}  # the values of constants, by name

    def unique(self, base: str) -> str:
        """`base`, with a number appended if the model has that name already."""
        name, count = base, 1
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return name

    def op(self, kind: str, inputs: Sequence[OnnxValue | None], dtype: Any, name: str = "",
           before: int = 0, **attributes: Any) -> OnnxValue:
        """The result, of `dtype`, of a new node; None stands for an omitted input.

        before: the number of unused outputs in front of this one.
        """
        if kind != "Cast" and self._lacks_stored(kind, inputs):
            wide = [x if x is None or not is_stored(x.dtype) else
                    self.cast(x, _WIDER[x.dtype.name]) for x in inputs]
            out = self.op(kind, wide, _WIDER.get(dtype.name, dtype) if is_stored(dtype) else dtype,
                          "" if is_stored(dtype) else name, before, **attributes)
            return self.cast(out, dtype, name)
        output = name or self.unique(f"{kind.lower()}_{self._count}")
        unused = [self.unique(f"{output}_unused") for _ in range(before)]
        self._node(kind, inputs, [*unused, output], attributes)
        return OnnxValue(output, np.dtype(dtype))

    def _lacks_stored(self, kind: str, inputs: Sequence[OnnxValue | None]) -> bool:
        """True if an input has a dtype that is only stored and the operator does not take it."""
        return any(x is not None and is_stored(x.dtype)
                   and x.dtype.name not in _accepts(kind, self.opset, i)
                   for i, x in enumerate(inputs))

    def ops(self, kind: str, inputs: Sequence[OnnxValue | None], dtypes: Sequence[Any],
            **attributes: Any) -> list[OnnxValue]:
        """The results of a new node, of these dtypes."""
        names = [self.unique(f"{kind.lower()}_{self._count}") for _ in dtypes]
        self._node(kind, inputs, names, attributes)
        return [OnnxValue(name, np.dtype(dtype)) for name, dtype in zip(names, dtypes)]

    def _node(self, kind: str, inputs: Sequence[OnnxValue | None], outputs: Sequence[str],
              attributes: dict[str, Any]) -> None:
        from onnx import helper

        for name, value in attributes.items():
            if type(value) in (list, tuple) and any(type(n) is Dim for n in value):
                raise ExportError(f"the attribute {name} depends on a dynamic size, but attributes "
                                  "are constants", "leave the axis out of dynamic_shapes")
        self.nodes.append(helper.make_node(
            kind, [x.name if x is not None else "" for x in inputs], outputs,
            name=f"{kind}_{self._count}", doc_string=self.site or None, **attributes))
        self._count += 1

    @contextlib.contextmanager
    def subgraph(self) -> Iterator[None]:
        """A context in which `nodes` are those of a subgraph of the present graph."""
        around, self.nodes, self.shared = self.nodes, [], self.shared.new_child()
        try:
            yield
        finally:
            self.nodes, self.shared = around, self.shared.parents

    def apply(self, kind: str, inputs: Sequence[OnnxValue], dtype: Any = None, typed: int = 0,
              **attributes: Any) -> OnnxValue:
        """The result of `op`, in a wider dtype if the operator does not support its inputs.

        Input number `typed` and the inputs of its dtype are cast. The result is cast back to
        `dtype`, by default the dtype of that input.
        """
        own = inputs[typed].dtype
        result = own if dtype is None else np.dtype(dtype)
        supported = self._accepted(kind, own, typed)
        if supported == own:
            return self.op(kind, inputs, result, **attributes)
        wide = [self.cast(x, supported) if x.dtype == own else x for x in inputs]
        out = self.op(kind, wide, supported if result == own else result, **attributes)
        return self.cast(out, result)

    def _accepted(self, kind: str, dtype: np.dtype[Any], typed: int) -> np.dtype[Any]:
        """The narrowest dtype, from `dtype` upwards, that the operator supports."""
        allowed, name = _accepts(kind, self.opset, typed), dtype.name
        while name not in allowed:
            if name not in _WIDER:
                raise ExportError(f"ONNX has no {kind} of {dtype.name} in opset {self.opset}",
                                  "cast to a supported dtype, such as fw.float32")
            name = _WIDER[name]
        return as_dtype(name)

    def cast(self, x: OnnxValue, dtype: Any, name: str = "") -> OnnxValue:
        """`x` converted to another dtype; a new node is called `name`."""
        from onnx import helper

        target = np.dtype(dtype)
        if x.dtype == target:
            return x
        if "c" in (x.dtype.kind, target.kind):
            raise ExportError(f"ONNX cannot cast {x.dtype.name} to {target.name}",
                              "keep real and imaginary parts as two tensors")
        for dtype in (x.dtype, target):
            if dtype.name not in _cast_dtypes(self.opset):
                raise ExportError(f"ONNX has no {dtype.name} in opset {self.opset}",
                                  f"export with opset={_first_opset(dtype.name)} or later")
        code = helper.np_dtype_to_tensor_dtype(target)
        if target == float8_e8m0fnu:
            return self.op("Cast", [self._positive(x)], target, name, to=code, saturate=0,
                           round_mode="nearest")
        exact = {"saturate": 0} if target in _OVERFLOWING else {}  # as here: inf and nan
        return self.op("Cast", [x], target, name, to=code, **exact)

    def _positive(self, x: OnnxValue) -> OnnxValue:
        """`x` as float32, with nan for 0 and negative numbers, of which ONNX casts the sizes."""
        wide = self.cast(x, np.float32)
        zero, nan = (self.const(np.float32(n)) for n in (0, np.nan))
        return self.op("Where", [self.op("Greater", [wide, zero], bool), wide, nan], np.float32)

    def const(self, array: Any, dtype: Any = None, name: str = "") -> OnnxValue:
        """A constant of the model. Equal constants without a name are shared, and so is a named
        array, which several branches may read."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(array, dtype).reshape(np.shape(array))
        memory = array.ctypes.data if name else array.tobytes()
        key = name, array.dtype.name, array.shape, memory
        constant = self._constants.get(key)
        if constant is None:
            label = self.unique(name or f"constant_{len(self._constants)}")
            self.initializers.append(numpy_helper.from_array(array, label))
            self._arrays[label] = array
            constant = OnnxValue(label, array.dtype)
            self._constants[key] = constant
        return constant

    def array(self, x: OnnxValue) -> Any:
        """The array of a constant; None for other values."""
        return self._arrays.get(x.name)

    def start(self, name: str, array: Any) -> None:
        """Sets the default of a model input, for calls that do not pass it."""
        from onnx import numpy_helper

        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(
            array.shape), name))

    def permuted(self, x: OnnxValue, perm: Sequence[int]) -> OnnxValue:
        """`x` with its axes permuted; a permuted constant is folded into a new constant."""
        if list(perm) == list(range(len(perm))):
            return x
        if x.name not in self._arrays:
            return self.op("Transpose", [x], x.dtype, perm=list(perm))
        key = (x.name, *perm)
        if key not in self._constants:
            self._constants[key] = self.const(self._arrays[x.name].transpose(perm),
                                              name=f"{x.name}.T")
        return self._constants[key]

    def ints(self, values: Sequence[int]) -> OnnxValue:
        """A vector of int64, as shapes and axes are given."""
        return self.const(np.array(values, np.int64))

    def reshape(self, x: OnnxValue, shape: Sequence[int]) -> OnnxValue:
        """`x` in a shape of plain numbers, of which one may be -1."""
        return self.op("Reshape", [x, self.ints(shape)], x.dtype)


@cache
def _accepts(kind: str, opset: int, typed: int) -> frozenset[str]:
    """The names of the dtypes that input number `typed` of an operator supports."""
    schema = _schema(kind, opset)
    return _allowed(schema, schema.inputs[min(typed, len(schema.inputs) - 1)])


@cache
def _cast_dtypes(opset: int) -> frozenset[str]:
    """The names of the dtypes to which Cast casts."""
    schema = _schema("Cast", opset)
    return _allowed(schema, schema.outputs[0])


def _first_opset(name: str) -> int:
    """The first opset that has a dtype which this one lacks."""
    from onnx import defs

    return next((n for n in range(17, defs.onnx_opset_version()) if name in _cast_dtypes(n)),
                defs.onnx_opset_version())


def _schema(kind: str, opset: int) -> Any:
    from onnx import defs

    try:
        return defs.get_schema(kind, opset)
    except defs.SchemaError:
        raise ExportError(f"opset {opset} has no operator {kind}",
                          "export with a later opset, such as opset=18") from None


def _allowed(schema: Any, formal: Any) -> frozenset[str]:
    """The names of the dtypes of a formal input or output."""
    allowed = next((c.allowed_type_strs for c in schema.type_constraints
                    if c.type_param_str == formal.type_str), [formal.type_str])
    names = (re.fullmatch(r"tensor\((\w+)\)", t) for t in allowed)
    return frozenset(name_in_schema(n[1]) for n in names if n)
