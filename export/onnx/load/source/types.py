"""Infers the element types of a model's values from the schemas of operators.

onnx has its own inference of types and shapes. It is not used: on some files it aborts the process
or does not terminate, and the source needs element types only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...writer.element_types import TYPES, name_in_schema
from . import standard

_CODES = {name: code for code, name in TYPES.items()}
_TYPE_ATTRIBUTES = {  # (the attribute with the output's element type, the default type)
    "Cast": ("to", 0), "BitCast": ("to", 0), "EyeLike": ("dtype", 0), "Bernoulli": ("dtype", 0),
    "RandomNormalLike": ("dtype", 0), "RandomUniformLike": ("dtype", 0),
    "RandomNormal": ("dtype", 1), "RandomUniform": ("dtype", 1), "Multinomial": ("dtype", 6),
    "BlackmanWindow": ("output_datatype", 1), "HannWindow": ("output_datatype", 1),
    "HammingWindow": ("output_datatype", 1), "MelWeightMatrix": ("output_datatype", 1),
    "QuantizeLinear": ("output_dtype", 2), "DequantizeLinear": ("output_dtype", 0)}
_DEFAULT_OF_INPUT = {"EyeLike", "Bernoulli", "RandomNormalLike", "RandomUniformLike"}
_CONSTANTS = {"value_float": 1, "value_floats": 1, "value_int": 7, "value_ints": 7,
              "value_string": 8, "value_strings": 8}
_FLOATS = (1, 10, 11, 16)  # float32, float16, float64, bfloat16


class Types(dict[str, int]):
    """The element types of tensors by the name of the value, as ONNX's codes.

    checked: False after an operator whose inputs contradict its schema.
    """

    checked = True

    def __init__(self, types: Iterable[tuple[str, int]] = ()) -> None:
        super().__init__(types)
        self._declared: dict[str, Any] = {}  # types with shapes, of inputs and constants

    def proto(self, name: str) -> Any:
        """The type of a value as a TypeProto, with its shape if the model declares one."""
        import onnx

        type_proto = onnx.TypeProto()
        if name in self._declared:
            type_proto.CopyFrom(self._declared[name])
        elif name:
            type_proto.tensor_type.elem_type = self[name]
        return type_proto

    def has_type(self, name: str) -> bool:
        """True if the type of a value is known: a tensor's elements, or a declared sequence."""
        return name in self or name in self._declared

    def are_floats(self, names: Sequence[str]) -> bool:
        """True if all values are known to be tensors of floats."""
        return self.checked and all(self.get(name) in _FLOATS for name in names)

    def declare(self, graph: Any) -> None:
        """Adds the declared types of a graph's inputs and constants."""
        import onnx

        for v in graph.input:
            self.enter(v.name, v.type.tensor_type.elem_type)
            self._declared[v.name] = v.type
        for proto in graph.initializer:
            self.enter(proto.name, proto.data_type)
            self._declared[proto.name] = onnx.helper.make_tensor_type_proto(
                proto.data_type, list(proto.dims))
        for proto in graph.sparse_initializer:
            self.enter(proto.values.name, proto.values.data_type)

    def enter(self, name: str, code: int) -> None:
        """Adds the type of a value, unless it is 0 (unknown)."""
        if name and code:
            self[name] = code

    def follow(self, node: Any, version: int, protos: Mapping[str, Any]) -> None:
        """Adds the types of a node's outputs, from those of its inputs."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        schema = standard.schema_of(domain, node.op_type, version)
        if schema is None:
            return
        bound = self._bound(node, schema)
        if node.op_type in _BODIES:
            codes = self._body_types(node, protos)
        elif node.op_type in ("Constant", "ConstantOfShape"):
            codes = [_of_constant(node.op_type, protos)]
        else:
            codes = [_code_of(_formal(schema.outputs, i), schema, bound)
                     for i in range(len(node.output))]
        attribute, usual = _TYPE_ATTRIBUTES.get(node.op_type, ("", 0))
        if attribute and attribute in protos and protos[attribute].i:
            codes[:1] = [protos[attribute].i]
        elif attribute and not codes[0]:
            of_input = node.op_type in _DEFAULT_OF_INPUT and node.input
            codes[:1] = [self.get(node.input[0], 0) if of_input else usual]
        for name, code in zip(node.output, codes):
            self.enter(name, code)

    def _bound(self, node: Any, schema: Any) -> dict[str, int]:
        """The types of a schema's type parameters; `checked` becomes False on a contradiction."""
        bound: dict[str, int] = {}
        allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        for i, name in enumerate(node.input):
            formal = _formal(schema.inputs, i)
            code = self.get(name, 0)
            if not code or formal is None or not formal.is_homogeneous:
                continue
            own = bound.setdefault(formal.type_str, code)
            texts = allowed.get(formal.type_str, [formal.type_str])
            if own != code or code not in {_code_in(text) for text in texts}:
                self.checked = False
        return bound

    def _body_types(self, node: Any, protos: Mapping[str, Any]) -> list[int]:
        """The output types of a node with subgraphs; 0 if the subgraphs disagree."""
        skipped = 1 if node.op_type == "Loop" else 0
        bodies = [[self.get(v.name, 0) for v in protos[name].g.output][skipped:]
                  for name in _BODIES[node.op_type] if name in protos]
        return [kinds[0] if len({*kinds}) == 1 else 0 for kinds in zip(*bodies)]


_BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


def _formal(formals: Any, i: int) -> Any:
    """The formal parameter of input or output number `i`; the last one may be variadic."""
    return formals[min(i, len(formals) - 1)] if formals else None


def _code_of(formal: Any, schema: Any, bound: Mapping[str, int]) -> int:
    """The type of an output; 0 if the schema does not determine it."""
    if formal is None:
        return 0
    if formal.type_str in bound:
        return bound[formal.type_str]
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    texts = allowed.get(formal.type_str, [formal.type_str])
    return _code_in(texts[0]) if len(texts) == 1 else 0


def _code_in(text: str) -> int:
    """The code of a type such as "tensor(float)"; 0 for other types than tensors."""
    word = text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else ""
    return _CODES.get(name_in_schema(word), 0)


def _of_constant(kind: str, protos: Mapping[str, Any]) -> int:
    for name, proto in protos.items():
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in ("value", "sparse_value"):
            return int(proto.t.data_type or proto.sparse_tensor.values.data_type)
    return 1 if kind == "ConstantOfShape" else 0
