"""Functions: a model's own, and operators that the standard defines by other operators.

Each becomes a method of the source, made once for the same attributes and types of inputs.
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


def instance(method: Method, node: Any, domain: str, given: Mapping[str, Any], local: Any) -> str:
    """The name of the method that computes a node which is a function. Enters what it gives."""
    owner = method.owner
    function = local if local is not None else _of_standard(method, node, domain, given)
    types = [method.types.get(name, 0) for name in node.input]
    standard.check_calls(node, function)
    key = (domain, node.op_type, tuple(bool(name) for name in node.input),
           tuple(sorted((n, p.SerializeToString()) for n, p in given.items())),
           tuple(types), method.types.checked)
    if key not in owner.methods:
        if node.op_type in owner.making:
            raise ImportModelError(f"the function {node.op_type} calls itself")
        owner.making.append(node.op_type)
        name = identifier(f"function_{node.op_type}", owner.method_names)
        lines, inside = _method(method, function, name, node, given, types)
        owner.making.pop()
        owner.methods[key] = (name, lines, [inside.get(n, 0) for n in function.output])
    found, _, kinds = owner.methods[key]
    for output, kind in zip(node.output, kinds):
        method.types.enter(output, kind)
    return found


def _of_standard(method: Method, node: Any, domain: str, given: Mapping[str, Any]) -> Any:
    """The function that the standard defines an operator by, for the types of its inputs."""
    import onnx

    version = method.version(domain)
    schema = standard.schema_of(domain, node.op_type, version)
    if schema is None:
        raise ImportModelError(f"there is no operator {domain + '.' if domain else ''}"
                               f"{node.op_type} in version {version}")
    if schema.has_function:
        bodies = sorted(schema.function_opset_versions)
        fits = [v for v in bodies if v <= method.opsets.get("", version)] or bodies[:1]
        return onnx.FunctionProto.FromString(
            schema.get_function_with_opset_version(fits[-1]))
    if schema.has_context_dependent_function:
        return _for_types(method, node, schema, given)
    raise ImportModelError(f"the operator {domain + '.' if domain else ''}{node.op_type} is not "
                           "supported", "export the model with other operators")


def _for_types(method: Method, node: Any, schema: Any, given: Mapping[str, Any]) -> Any:
    import onnx

    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    del plain.attribute[:]
    for name, proto in given.items():
        plain.attribute.add().CopyFrom(proto)
        plain.attribute[-1].name = name
    for name in node.input:
        if name and not method.types.is_known(name):
            raise ImportModelError(f"{node.op_type} reads {name!r}, whose type is not known",
                                   "the schemas of the operators before it do not tell it")
    types = [method.types.proto(name) for name in node.input]
    bodies = sorted(schema.context_dependent_function_opset_versions)
    fits = [v for v in bodies if v <= method.opsets.get("", bodies[-1])] or bodies[:1]
    try:
        found = schema.get_context_dependent_function_with_opset_version(
            fits[-1], plain.SerializeToString(), [t.SerializeToString() for t in types])
    except Exception as error:  # of many kinds: onnx reads the body as text, names of the file too
        raise ImportModelError(f"onnx makes no function of {node.op_type}: {error}") from None
    function = onnx.FunctionProto.FromString(found)
    if not function.node:
        raise ImportModelError(f"onnx makes no function of {node.op_type}, which has other nodes "
                               "for other shapes", "it has to read inputs or constants of the "
                               "model, whose shapes are declared")
    return function


def _method(caller: Method, function: Any, name: str, node: Any, given: Mapping[str, Any],
            types: list[int]) -> tuple[list[str], Types]:
    """The lines of a function, and the types of values in it."""
    import onnx

    opsets = {**caller.opsets, **{("" if o.domain == "ai.onnx" else o.domain): o.version
                                  for o in function.opset_import}}
    opsets.setdefault("", onnx.defs.onnx_opset_version())
    attributes = standard.defaults(node, opsets)
    attributes |= {a.name: a for a in function.attribute_proto} | dict(given)
    inside = Types((n, t) for n, t in zip(function.input, types) if n and t)
    inside.checked = caller.types.checked
    method = type(caller)(caller.owner, opsets, inside, attributes)
    scope = caller.scope_type()
    for n in function.input:
        scope.known[n] = method.fresh(n)
    parameters = [scope.known[n] + ("=None" if i >= len(node.input) else "")
                  for i, n in enumerate(function.input)]
    method.nodes(function.node, scope)
    outputs = [method.read(n, scope) if asked else "None"
               for n, asked in zip(function.output, node.output)]
    several = "," if len(node.output) > 1 and len(outputs) == 1 else ""
    method.line(f"return {', '.join(outputs)}{several}")
    return [f"    def {name}({', '.join(['self', *parameters])}):", *method.lines], inside
