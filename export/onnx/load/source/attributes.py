"""Converts attributes of nodes to Python values and to Python source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .....eager.errors import ImportModelError
from ..runtime.tensors import array_of_proto
from ..runtime.values import type_name

# Attributes whose number is an element type; 0 means none.
_OF_TYPES = {"to", "dtype", "output_dtype", "stash_type", "softmax_precision"}
# Attributes of old versions without any effect.
_IGNORED = {"consumed_inputs"}
_MAX_LITERAL_SIZES = 64  # longer vectors become buffers instead of literals


def attributes_of(node: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node as protos.

    References to attributes of a function are replaced by those of the call, `arguments`.
    """
    attributes = {}
    for a in node.attribute:
        proto = arguments.get(a.ref_attr_name) if a.ref_attr_name else a
        if proto is not None and a.name not in _IGNORED:
            if a.name in attributes:
                raise ImportModelError(f"{node.op_type} has two attributes {a.name!r}")
            attributes[a.name] = proto
    return attributes


def value(name: str, proto: Any) -> Any:
    """An attribute as a number, a string, a tuple of them, or an array."""
    kind = proto.type
    if kind == proto.INT:
        return (type_name(proto.i) if proto.i else None) if name in _OF_TYPES else proto.i
    if kind == proto.FLOAT:
        return short(proto.f)
    if kind == proto.STRING:
        return proto.s.decode("utf-8", "replace")
    if kind == proto.TENSOR:
        return array_of_proto(proto.t)
    if kind == proto.INTS:
        return tuple(proto.ints)
    if kind == proto.FLOATS:
        return tuple(map(short, proto.floats))
    if kind == proto.STRINGS:
        return tuple(s.decode("utf-8", "replace") for s in proto.strings)
    if kind == proto.TYPE_PROTO:
        return None
    raise ImportModelError(f"attribute {name!r} has the unsupported type "
                           f"{proto.AttributeType.Name(kind)}")


def short(x: float) -> float:
    """The float with the fewest digits that rounds to `x` in float32, the precision of files."""
    return float(str(np.float32(x)))


def literal(x: Any) -> str | None:
    """Source for a constant size, shape, boolean or float32 scalar; None for other constants."""
    if not isinstance(x, np.ndarray):
        return _plain(x)
    if x.dtype == np.int64 and x.ndim <= 1 and x.size <= _MAX_LITERAL_SIZES:
        return repr(tuple(x.tolist()) if x.ndim else x.item())
    if x.ndim == 0 and x.dtype == np.bool_:
        return repr(x.item())
    if x.ndim == 0 and x.dtype == np.float32:
        return _plain(short(x.item()))
    return None


def is_literal(text: str) -> bool:
    """True if the source is a number."""
    return text[0] in "-0123456789" or text.startswith("float(")


def _plain(x: Any) -> str:
    if isinstance(x, float):
        return repr(x) if np.isfinite(x) else f'float("{x}")'
    if isinstance(x, tuple):
        return "(" + "".join(f"{_plain(v)}, " for v in x).rstrip(" " if len(x) == 1 else ", ") + ")"
    return repr(x)


def text(name: str, proto: Any, constant: Callable[[str, Any], str]) -> str:
    """The source of an attribute; `constant` registers an array and returns its source."""
    parsed = value(name, proto)
    if isinstance(parsed, np.ndarray):
        return literal(parsed) or constant(name, parsed)
    return _plain(parsed)
