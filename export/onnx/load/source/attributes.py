"""Attributes of nodes as Python values, and their text in source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .....eager.errors import ImportModelError
from ..runtime.tensors import array_of_proto
from ..runtime.values import type_name

# Attributes whose number means an element type. 0 means none.
_OF_TYPES = {"to", "dtype", "output_dtype", "stash_type", "softmax_precision"}
# What old versions wrote and nothing ever read.
_IGNORED = {"consumed_inputs"}
_LONGEST = 64  # of a vector of sizes that is written into the source


def attributes_of(node: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node as protos, those that refer to a function's replaced by `given`."""
    found = {}
    for a in node.attribute:
        proto = given.get(a.ref_attr_name) if a.ref_attr_name else a
        if proto is not None and a.name not in _IGNORED:
            if a.name in found:
                raise ImportModelError(f"{node.op_type} has two attributes {a.name!r}")
            found[a.name] = proto
    return found


def value(name: str, proto: Any) -> Any:
    """An attribute as a number, a text, a tuple of them, or an array."""
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
    raise ImportModelError(f"attribute {name!r} is of a kind that is not supported: "
                           f"{proto.AttributeType.Name(kind)}")


def short(x: float) -> float:
    """The float with the fewest digits that is `x` in float32, which is all that files hold."""
    return float(str(np.float32(x)))


def literal(x: Any) -> str | None:
    """Source for a constant that is a size, a shape, a truth or a scalar of float32, else None."""
    if not isinstance(x, np.ndarray):
        return _plain(x)
    if x.dtype == np.int64 and x.ndim <= 1 and x.size <= _LONGEST:
        return repr(tuple(x.tolist()) if x.ndim else x.item())
    if x.ndim == 0 and x.dtype == np.bool_:
        return repr(x.item())
    if x.ndim == 0 and x.dtype == np.float32:
        return _plain(short(x.item()))
    return None


def is_literal(text: str) -> bool:
    """Whether source is that of a number."""
    return text[0] in "-0123456789" or text.startswith("float(")


def _plain(x: Any) -> str:
    if isinstance(x, float):
        return repr(x) if np.isfinite(x) else f'float("{x}")'
    if isinstance(x, tuple):
        return "(" + "".join(f"{_plain(v)}, " for v in x).rstrip(" " if len(x) == 1 else ", ") + ")"
    return repr(x)


def text(name: str, proto: Any, constant: Callable[[str, Any], str]) -> str:
    """Source of an attribute; `constant` gives the source for an array that has to be kept."""
    found = value(name, proto)
    if isinstance(found, np.ndarray):
        return literal(found) or constant(name, found)
    return _plain(found)
