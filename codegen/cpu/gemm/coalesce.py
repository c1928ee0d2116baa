"""Tests which axes of a contraction group are always stepped through as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....capture.graph.graph import Node
from ....eager.ops.products.contract import parts
from ...fusion.fusion import Group
from ...ir import loop_ir
from ...ir.affine_index import collect_comparisons, variable
from ...ir.axis_coalescing import linear_forms, merge_axes
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, flatten, load
from ...ir.loop_ir import Expr, KernelBuffer, Register


def can_coalesce(group: Group, buffers: Mapping[Node, KernelBuffer], axes: list[int],
                 operand: int | None = None) -> bool:
    """True if all reads and stores of the epilogue step through these axes as one.

    The reads of an operand of the contraction are included if `operand` is given."""
    if len(axes) == 1:
        return True
    where = group.variables()

    def read(node: Node, index: Indices, mask: Any) -> ExprValue | None:
        if node is group.members[0]:
            return ExprValue(loop_ir.read(Register("sum", node.type.dtype)))
        in_buffer = node in buffers and node not in group.members
        return load(buffers[node], node.type, index, mask) if in_buffer else None

    with collect_comparisons() as compared:
        expressions = [Inliner(read).value(m, where).expr for m in group.members]
        expressions += [flatten(where, group.domain).expr()]
        expressions += [] if operand is None else [_operand_element(Inliner(read), group, operand)]
    forms = linear_forms(expressions) + [dict(x.terms) for x in compared]
    runs = merge_axes(group.domain, where, forms)
    between = range(axes[0], axes[-1] + 1)  # an axis between them would be skipped
    contiguous = all(i in axes or group.domain[i] == 1 for i in between)
    return contiguous and any(set(axes) <= set(run) for run in runs)


def _operand_element(inline: Inliner, group: Group, operand: int) -> Expr:
    """An element of an operand of the group's contraction."""
    node = group.members[0]
    names, source = parts(node.params["spec"]), node.inputs[operand]
    where = dict(zip(names[2], group.variables()))
    summed = {a: variable(f"k{a}", n) for a, n in zip(names[operand], source.type.shape)
              if a not in where}
    return inline.value(source, tuple((where | summed)[a] for a in names[operand])).expr
