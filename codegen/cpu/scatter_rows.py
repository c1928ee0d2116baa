"""Rows written at places known only at run time: a copy of what they are written into, where it is
not that itself, and a kernel that writes one row after the other.

The last of several rows for one place stays, so tasks share the columns, not the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...capture.graph.graph import Node
from ...eager.arrays.shapes import product
from ..fusion.fusion import Group
from ..fusion.kernel_key import flat_source
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, atom, counter
from ..ir.builder import ExprValue, call, cast
from ..ir.inline import Inliner, flat, in_memory, unflat
from ..ir.loop_ir import INT, Buffer, For, Kernel, Stmt, const
from ..ir.target_info import Machine
from .loop_nest import lower
from .partition_work import bounds, buffers_of, chunks

_TASK = 8192  # elements that make a task worth while
_VECTORS = 4  # at once


def lower_scatter_rows(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
              ) -> list[Kernel]:
    """The kernels of rows that are written; none where nobody reads the result."""
    return put_kernels(group, buffers, machine, name, lower, _written)


def put_kernels(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
                copy: Callable[..., list[Kernel]], write: Callable[..., list[Kernel]]
                ) -> list[Kernel]:
    """Those that `copy` what is written into, where it is not the result's own memory, and those
    that `write` rows."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    whole, rows, _ = node.inputs
    into = flat_source(whole, lambda n: n in buffers)
    copies = []
    if buffers.get(into) is not buffers[node]:
        alias, given = _copied(group, buffers)
        copies = copy(alias, given, machine, f"{name}_copy")
    return [*copies, *write(node, buffers, machine, name)] if rows.type.size else copies


def _copied(group: Group, buffers: Mapping[Node, Buffer]) -> tuple[Group, dict[Node, Buffer]]:
    """What the rows are written into, as a group of its own, in the result's memory."""
    (node,) = group.members
    alias = Node("alias", (node.inputs[0],), {}, node.type, node.site)
    given = {alias if n is node else n: b for n, b in buffers.items()}
    return Group("rows", group.domain, None, [alias], group.reads), given


def _written(node: Node, buffers: Mapping[Node, Buffer], machine: Machine, name: str
             ) -> list[Kernel]:
    """The kernel that writes rows, in their order: a task has some of their columns."""
    places = node.inputs[2]
    count, width = int(places.type.size), int(product(node.type.shape[1:]))
    lanes = min(_VECTORS * machine.lanes(max(4, node.type.dtype.itemsize)),
                1 << (width - 1).bit_length())
    smallest = max(lanes, _TASK // machine.most(count))
    tasks, piece = chunks(width, -(-smallest // lanes) * lanes, machine)
    var, task = counter("task", tasks)
    number, n = counter("n", count)
    column, c = counter("i", width)

    inline = Inliner(in_memory(buffers))
    store = row_written(node, buffers, inline, n, c)
    line = For(column, *bounds(task, piece, width), (store,), lanes if lanes > 1 else 0)
    body: tuple[Stmt, ...] = (For(number, const(0), const(count), (line,)),)
    cost = count * width / (2.5 * machine.lanes())
    return [Kernel(name, *buffers_of(body), (), var, tasks, body, cost,
                   (node.site,) if node.site else ())]


def place_of(node: Node, inline: Inliner, n: Index) -> Index:
    """Where row number `n` is written."""
    places = node.inputs[2]
    return inside(inline.value(places, split(n, places.type.shape)), node.type.shape[0])


def row_written(node: Node, buffers: Mapping[Node, Buffer], inline: Inliner, n: Index, c: Index
                ) -> loop_ir.Store:
    """Writes column `c` of row number `n`."""
    _, rows, places = node.inputs
    index = (*split(n, places.type.shape), *split(c, node.type.shape[1:]))
    width = int(product(node.type.shape[1:]))
    at = flat((place_of(node, inline, n), c), (1, width)).expr()
    return loop_ir.Store(buffers[node], at, inline.value(rows, index).expr)


def split(place: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The index of an element by its place in row-major memory."""
    return tuple([i if n > 1 else as_index(0) for n, i in zip(shape, unflat(place, shape))])


def inside(value: ExprValue, size: int) -> Index:
    """An index as one of 0 ... size - 1: it is checked around the program, and until then nothing
    outside may be touched."""
    inside = call("minimum", call("maximum", cast(value, INT), 0), size - 1)
    return atom(inside.expr, (0, size - 1))
