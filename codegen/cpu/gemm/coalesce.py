"""Which axes of a group whose first member is a contraction are stepped through as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....capture.graph.graph import Node
from ....eager.ops.products.contract import parts
from ...fusion.fusion import Group
from ...ir import loop_ir
from ...ir.affine_index import comparisons, variable
from ...ir.axis_coalescing import merge_axes, whole_numbers
from ...ir.builder import ExprValue
from ...ir.inline import Indices, Inliner, flat, load
from ...ir.loop_ir import Buffer, Expr, Register


def steps_as_one(group: Group, buffers: Mapping[Node, Buffer], axes: list[int],
                 operand: int | None = None) -> bool:
    """Whether these axes can be stepped through as one by everything that a group whose first
    member is computed elsewhere reads and stores; and by that member where it reads an operand."""
    if len(axes) == 1:
        return True
    where = group.variables()

    def leaf(node: Node, index: Indices, mask: Any) -> ExprValue | None:
        if node is group.members[0]:
            return ExprValue(loop_ir.read(Register("sum", node.type.dtype)))
        here = node in buffers and node not in group.members
        return load(buffers[node], node.type, index, mask) if here else None

    with comparisons() as compared:
        found = [Inliner(leaf).value(m, where).expr for m in group.members]
        found += [flat(where, group.domain).expr()]
        found += [] if operand is None else [_element(Inliner(leaf), group, operand)]
    forms = whole_numbers(found) + [dict(x.terms) for x in compared]
    runs = merge_axes(group.domain, where, forms)
    between = range(axes[0], axes[-1] + 1)  # other letters between them would be stepped over
    alone = all(i in axes or group.domain[i] == 1 for i in between)
    return alone and any(set(axes) <= set(run) for run in runs)


def _element(inline: Inliner, group: Group, operand: int) -> Expr:
    """An element of an operand of the group's contraction."""
    node = group.members[0]
    names, source = parts(node.params["spec"]), node.inputs[operand]
    where = dict(zip(names[2], group.variables()))
    summed = {a: variable(f"k{a}", n) for a, n in zip(names[operand], source.type.shape)
              if a not in where}
    return inline.value(source, tuple((where | summed)[a] for a in names[operand])).expr
