"""Writes functions as methods: a model's own, and operators that the standard defines by functions.

Calls with equal attributes and types of inputs share a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .....eager.errors import ImportModelError
from . import standard
from .names import identifier
from .types import Types

if TYPE_CHECKING:
    from .source import Method


def instance(method: Method, node: Any, domain: str, protos: Mapping[str, Any], local: Any) -> str:
    """The name of the method for a node that calls a function; its output types are entered."""
    owner = method.owner
    function = local if local is not None else _of_standard(method, node, domain, protos)
    types = [method.types.get(name, 0) for name in node.input]
    standard.check_calls(node, function)
    key = (domain, node.op_type, tuple(bool(name) for name in node.input),
           tuple(sorted((n, p.SerializeToString()) for n, p in protos.items())),
           tuple(types), method.types.checked)
    if key not in owner.methods:
        if node.op_type in owner.active_functions:
            raise ImportModelError(f"the function {node.op_type} calls itself")
        owner.active_functions.append(node.op_type)
        name = identifier(f"function_{node.op_type}", owner.method_names)
        lines, inside = _method(method, function, name, node, protos, types)
        owner.active_functions.pop()
        owner.methods[key] = (name, lines, [inside.get(n, 0) for n in function.output])
    method_name, _, kinds = owner.methods[key]
    for output, kind in zip(node.output, kinds):
        method.types.enter(output, kind)
    return method_name


def _of_standard(method: Method, node: Any, domain: str, protos: Mapping[str, Any]) -> Any:
    """The function that defines an operator in the standard, for the types of its inputs."""
    import onnx

    version = method.version(domain)
    schema = standard.schema_of(domain, node.op_type, version)
    if schema is None:
        raise ImportModelError(f"the operator {domain + '.' if domain else ''}{node.op_type} does "
                               f"not exist in version {version}")
    if schema.has_function:
        bodies = sorted(schema.function_opset_versions)
        fits = [v for v in bodies if v <= method.opsets.get("", version)] or bodies[:1]
        return onnx.FunctionProto.FromString(
            schema.get_function_with_opset_version(fits[-1]))
    if schema.has_context_dependent_function:
        return _for_types(method, node, schema, protos)
    raise ImportModelError(f"the operator {domain + '.' if domain else ''}{node.op_type} is not "
                           "supported", "export the model with other operators")


def _for_types(method: Method, node: Any, schema: Any, protos: Mapping[str, Any]) -> Any:
    import onnx

    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    del plain.attribute[:]
    for name, proto in protos.items():
        plain.attribute.add().CopyFrom(proto)
        plain.attribute[-1].name = name
    for name in node.input:
        if name and not method.types.has_type(name):
            raise ImportModelError(f"{node.op_type} reads {name!r}, whose type is unknown",
                                   "the schemas of the operators before it do not determine it")
    types = [method.types.proto(name) for name in node.input]
    bodies = sorted(schema.context_dependent_function_opset_versions)
    fits = [v for v in bodies if v <= method.opsets.get("", bodies[-1])] or bodies[:1]
    try:
        body = schema.get_context_dependent_function_with_opset_version(
            fits[-1], plain.SerializeToString(), [t.SerializeToString() for t in types])
    except Exception as error:  # onnx parses the body as text, with names of the file in it
        raise ImportModelError(f"onnx cannot expand {node.op_type} to a function: {error}"
                               ) from None
    function = onnx.FunctionProto.FromString(body)
    if not function.node:
        raise ImportModelError(f"onnx cannot expand {node.op_type} to a function, as its nodes "
                               "depend on shapes", "it must read inputs or constants of the "
                               "model, whose shapes are declared")
    return function


def _method(caller: Method, function: Any, name: str, node: Any, protos: Mapping[str, Any],
            types: list[int]) -> tuple[list[str], Types]:
    """The lines of a function's method, and the types of its values."""
    import onnx

    opsets = {**caller.opsets, **{("" if o.domain == "ai.onnx" else o.domain): o.version
                                  for o in function.opset_import}}
    opsets.setdefault("", onnx.defs.onnx_opset_version())
    attributes = standard.defaults(node, opsets)
    attributes |= {a.name: a for a in function.attribute_proto} | dict(protos)
    inside = Types((n, t) for n, t in zip(function.input, types) if n and t)
    inside.checked = caller.types.checked
    method = type(caller)(caller.owner, opsets, inside, attributes)
    scope = caller.scope_type()
    for n in function.input:
        scope.sources[n] = method.fresh(n)
    parameters = [scope.sources[n] + ("=None" if i >= len(node.input) else "")
                  for i, n in enumerate(function.input)]
    method.nodes(function.node, scope)
    outputs = [method.read(n, scope) if asked else "None"
               for n, asked in zip(function.output, node.output)]
    several = "," if len(node.output) > 1 and len(outputs) == 1 else ""
    method.line(f"return {', '.join(outputs)}{several}")
    return [f"    def {name}({', '.join(['self', *parameters])}):", *method.lines], inside
