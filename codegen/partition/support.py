"""Tells which dtypes and ops native code supports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...capture.graph.graph import SPECIAL, Node
from ...eager.arrays.dtypes import is_small, is_stored, kind
from ...eager.core.op import OPS

_KINDS = {("f", 2), ("f", 4), ("f", 8), ("b", 1)} | {(k, n) for k in "iu" for n in (1, 2, 4, 8)}


def is_supported(dtype: Any) -> bool:
    """True if native code supports this dtype."""
    return (kind(dtype), dtype.itemsize) in _KINDS or is_stored(dtype)


def why_no_code(node: Node, runs: Callable[[Node], bool] = lambda call: False) -> str:
    """The reason why a node has no native code; empty if it has. `runs` tells if an opaque node has
    a kernel."""
    for dtype in (node.type.dtype, *(i.type.dtype for i in node.inputs)):
        if not is_supported(dtype):
            return f"the code generator does not support {dtype.name}"
    if node.op in SPECIAL:
        return ""
    op, reason = OPS[node.op], ""
    if op.kind == "opaque" and not runs(node):
        reason = op.why.get("meaning", "it is a library call")
    elif any(is_small(x.type.dtype) for x in (node, *node.inputs)):
        reason = op.why.get("small floats", "")
    return f"the code generator does not support {node.op}: {reason}" if reason else ""
