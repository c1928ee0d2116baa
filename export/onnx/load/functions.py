"""Functions: a model's own, and operators that the standard defines by other operators.

Each becomes a method of the source, made once for the same attributes and types of inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ....eager.errors import ImportModelError
from . import standard
from .calls import nodes_in
from .names import identifier

if TYPE_CHECKING:
    from .source import Method


class Types(dict[str, Any]):
    """The TypeProto of values, by name. checked: nothing that the model says contradicts them."""

    checked = True


def types_of(model: Any, given: Iterable[str] = ()) -> Types:
    """The types of all values of a model, in graphs inside of its graph too."""
    import onnx

    light, found = _without_data(model), Types()
    if not _in_order(model.graph, given) or not all(map(_is_sound, (  # onnx may end the process
            node for nodes in (light.graph.node, *(f.node for f in light.functions))
            for node in nodes_in(nodes)))):  # over such a graph, or never come back
        found.checked = False
        return found
    try:
        with_types = onnx.shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
    except Exception:  # of whatever kind: what needs types will say so
        found.checked = False
        with_types = _loosely(light)
    _collect(with_types.graph, found)
    return found


def _in_order(graph: Any, given: Iterable[str]) -> bool:
    """Whether nodes read nothing but what stands before them."""
    known = {"", *given, *(v.name for v in graph.input), *(t.name for t in graph.initializer),
             *(t.values.name for t in graph.sparse_initializer)}
    for node in graph.node:
        if not known.issuperset(node.input):
            return False
        known.update(node.output)
    return True


def _is_sound(node: Any) -> bool:
    """Whether onnx can take the attributes of a node in hand: it reads an equation with single
    dots without an end, and makes as many parts as a number says."""
    given = {a.name: a for a in node.attribute}
    if node.op_type == "Einsum":
        equation = given.get("equation")
        return equation is not None and standard.is_equation(equation.s.decode("utf-8", "replace"))
    many = given.get("num_outputs")
    return many is None or many.i <= len(node.output)


def _loosely(model: Any) -> Any:
    """The model with the types that can be found, though something in it does not fit."""
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception:  # of whatever kind: what needs types will say so
        return model


_SMALL = 4096  # bytes of constants that may say what shape something has


def _without_data(model: Any) -> Any:
    """The model with large initializers as inputs, so that nothing large is copied."""
    import onnx

    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph, own = light.graph, model.graph
    graph.name = own.name
    for name in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(graph, name).extend(getattr(own, name))
    inputs = {v.name for v in own.input}
    for proto in own.initializer:
        if proto.ByteSize() <= _SMALL:
            graph.initializer.add().CopyFrom(proto)
        elif proto.name not in inputs:
            kind = onnx.helper.make_tensor_type_proto(proto.data_type, list(proto.dims))
            graph.input.add(name=proto.name).type.CopyFrom(kind)
    return light


def is_float(kind: Any) -> bool:
    """Whether values of that type are tensors of floats."""
    return kind is not None and kind.tensor_type.elem_type in _FLOATS


_FLOATS = (1, 10, 11, 16)  # float32, float16, float64, bfloat16


def _collect(graph: Any, found: Types) -> None:
    import onnx

    for v in (*graph.input, *graph.value_info, *graph.output):
        if v.type.WhichOneof("value"):
            found.setdefault(v.name, v.type)
    for proto in graph.initializer:
        found.setdefault(proto.name, onnx.helper.make_tensor_type_proto(proto.data_type,
                                                                        list(proto.dims)))
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                _collect(a.g, found)


def instance(method: Method, node: Any, domain: str, given: Mapping[str, Any], local: Any) -> str:
    """The name of the method that computes a node which is a function."""
    owner = method.owner
    function = local if local is not None else _of_standard(method, node, domain, given)
    types = [method.types.get(name) for name in node.input]
    standard.check_calls(node, function)
    key = (domain, node.op_type, tuple(bool(name) for name in node.input),
           tuple(sorted((n, p.SerializeToString()) for n, p in given.items())),
           tuple(t.SerializeToString() if t is not None else b"" for t in types))
    if key not in owner.methods:
        if node.op_type in owner.making:
            raise ImportModelError(f"the function {node.op_type} calls itself")
        owner.making.append(node.op_type)
        name = identifier(f"function_{node.op_type}", owner.method_names)
        lines = _method(method, function, name, node, given, types)
        owner.making.pop()
        owner.methods[key] = (name, lines)
    return owner.methods[key][0]


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
    types = [method.types.get(name, onnx.TypeProto()) if name else onnx.TypeProto()
             for name in node.input]
    if any(name and name not in method.types for name in node.input):
        raise ImportModelError(f"the type of an input of {node.op_type} is not known",
                               "onnx.shape_inference finds it where the model is well formed")
    bodies = sorted(schema.context_dependent_function_opset_versions)
    fits = [v for v in bodies if v <= method.opsets.get("", bodies[-1])] or bodies[:1]
    try:
        found = schema.get_context_dependent_function_with_opset_version(
            fits[-1], plain.SerializeToString(), [t.SerializeToString() for t in types])
    except Exception as error:  # of many kinds: onnx reads the body as text, names of the file too
        raise ImportModelError(f"onnx makes no function of {node.op_type}: {error}") from None
    return onnx.FunctionProto.FromString(found)


def _method(caller: Method, function: Any, name: str, node: Any, given: Mapping[str, Any],
            types: list[Any]) -> list[str]:
    """The lines of a function."""
    import onnx

    opsets = {**caller.opsets, **{("" if o.domain == "ai.onnx" else o.domain): o.version
                                  for o in function.opset_import}}
    opsets.setdefault("", onnx.defs.onnx_opset_version())
    attributes = standard.defaults(node, opsets)
    attributes |= {a.name: a for a in function.attribute_proto} | dict(given)
    known = Types((n, t) for n, t in zip(function.input, types) if t is not None)
    inside = _types_inside(function, known, opsets)
    inside.checked = inside.checked and caller.types.checked
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
    return [f"    def {name}({', '.join(['self', *parameters])}):", *method.lines]


def _types_inside(function: Any, known: Types, opsets: Mapping[str, int]) -> Types:
    """The types of values inside of a function, whose inputs have the types `known`."""
    import onnx

    graph = onnx.GraphProto(name="function")
    graph.node.extend(function.node)
    for name, kind in known.items():
        graph.input.add(name=name).type.CopyFrom(kind)
    model = onnx.ModelProto(ir_version=10, graph=graph)
    for domain, version in opsets.items():
        model.opset_import.add(domain=domain, version=version)
    found = types_of(model, function.input)
    found.update(known)
    return found
