"""Checks nodes against the schemas of the ONNX standard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .....eager.errors import ImportModelError


def schema_of(domain: str, name: str, version: int) -> Any:
    """The schema of an operator in a version of its domain; None if there is none."""
    import onnx

    try:
        return onnx.defs.get_schema(name, min(version, (1 << 31) - 1), domain)
    except onnx.defs.SchemaError:
        return None


def check_versions(opsets: Mapping[str, int]) -> None:
    """Raises ImportModelError for operators newer than the installed onnx package."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opsets.get("", 1) <= newest:
        raise ImportModelError(f"the model uses opset {opsets['']}",
                               f"the installed `onnx` package has opsets up to {newest}")


def check(node: Any, domain: str, version: int, protos: Mapping[str, Any]) -> None:
    """Raises ImportModelError for wrong numbers of inputs or outputs, or wrong attributes."""
    schema = schema_of(domain, node.op_type, version)
    if schema is None:
        return
    for what, count, least, most in (
            ("inputs", len(node.input), schema.min_input, schema.max_input),
            ("outputs", len(node.output), schema.min_output, schema.max_output)):
        if not least <= count <= most:
            raise ImportModelError(f"{node.op_type} of version {version} has {least} to {most} "
                                   f"{what}, not {count}")
    for name, proto in protos.items():
        declared = schema.attributes.get(name)
        if declared is None:
            raise ImportModelError(f"{node.op_type} of version {version} has no attribute {name!r}",
                                   f"it has {', '.join(schema.attributes) or 'none'}")
        if int(declared.type.value) != proto.type:
            raise ImportModelError(f"attribute {name!r} of {node.op_type} has the type "
                                   f"{proto.AttributeType.Name(proto.type)}, not "
                                   f"{declared.type.name}")
    if node.op_type == "Einsum" and "equation" in protos:
        equation = protos["equation"].s.decode("utf-8", "replace")
        if not is_equation(equation):
            raise ImportModelError(f"{equation!r:.200} is not a valid equation of Einsum",
                                   "write it like 'bij,jk->bik' or '...ij->...ji'")
    missing = [n for n, a in schema.attributes.items() if a.required and n not in protos]
    if missing:
        raise ImportModelError(f"{node.op_type} needs the attribute {missing[0]!r}")


_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")


def is_equation(text: str) -> bool:
    """True for an equation of Einsum: letters, with at most one ellipsis per term."""
    return _EQUATION.fullmatch(text.replace(" ", "")) is not None


def check_calls(node: Any, function: Any) -> None:
    """Raises ImportModelError for more inputs or outputs than a function has."""
    for what, count, most in (("inputs", len(node.input), len(function.input)),
                              ("outputs", len(node.output), len(function.output))):
        if count > most:
            raise ImportModelError(f"the function {node.op_type} has {most} {what}, not {count}")


def defaults(node: Any, opsets: Mapping[str, int]) -> dict[str, Any]:
    """The default values of a node's attributes in the standard, by name."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    schema = schema_of(domain, node.op_type, opsets.get(domain, 1))
    return {name: a.default_value for name, a in schema.attributes.items()
            if a.default_value.type} if schema is not None else {}
