"""Rows written at places known only at run time: a copy of what they are written into, where it is
not that itself, and a kernel that writes one row after the other.

The last of several rows for one place stays, so tasks share the columns, not the rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..capture.graph import Node
from ..eager.shapes import product
from . import loops
from .forms import flat_source
from .fuse import Group
from .index import Index, as_index, atom
from .inline import Inliner, flat, in_memory, unflat
from .loops import INT, Buffer, For, Kernel, Stmt, const
from .lower import lower
from .machine import Machine
from .nest import counter
from .tasks import bounds, buffers_of, chunks
from .values import Value, call, cast

_TASK = 8192  # elements that make a task worth while
_VECTORS = 4  # at once


def lower_put(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str
              ) -> list[Kernel]:
    """The kernels of rows that are written; none where nobody reads the result."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    whole, rows, _ = node.inputs
    into = flat_source(whole, lambda n: n in buffers)
    copies = [] if buffers.get(into) is buffers[node] else _copied(group, buffers, machine, name)
    return [*copies, _written(node, buffers, machine, name)] if rows.type.size else copies


def _copied(group: Group, buffers: Mapping[Node, Buffer], machine: Machine, name: str
            ) -> list[Kernel]:
    """What the rows are written into, in the result's memory."""
    (node,) = group.members
    copy = Node("alias", (node.inputs[0],), {}, node.type, node.site)
    given = {copy if n is node else n: b for n, b in buffers.items()}
    return lower(Group("rows", group.domain, None, [copy], group.reads), given, machine,
                 f"{name}_copy")


def _written(node: Node, buffers: Mapping[Node, Buffer], machine: Machine, name: str) -> Kernel:
    """The kernel that writes rows, in their order: a task has some of their columns."""
    _, rows, places = node.inputs
    count, width = int(places.type.size), int(product(node.type.shape[1:]))
    lanes = min(_VECTORS * machine.lanes(max(4, node.type.dtype.itemsize)),
                1 << (width - 1).bit_length())
    smallest = max(lanes, _TASK // machine.most(count))
    tasks, piece = chunks(width, -(-smallest // lanes) * lanes, machine)
    var, task = counter("task", tasks)
    number, n = counter("n", count)
    column, c = counter("i", width)

    inline = Inliner(in_memory(buffers))
    row, within = _split(n, places.type.shape), _split(c, node.type.shape[1:])
    place = _inside(inline.value(places, row), node.type.shape[0])
    value = inline.value(rows, (*row, *within)).expr
    store = loops.Store(buffers[node], flat((place, c), (1, width)).expr(), value)
    line = For(column, *bounds(task, piece, width), (store,), lanes if lanes > 1 else 0)
    body: tuple[Stmt, ...] = (For(number, const(0), const(count), (line,)),)
    cost = count * width / (2.5 * machine.lanes())
    return Kernel(name, *buffers_of(body), (), var, tasks, body, cost,
                  (node.site,) if node.site else ())


def _split(place: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The index of an element by its place in row-major memory."""
    return tuple([i if n > 1 else as_index(0) for n, i in zip(shape, unflat(place, shape))])


def _inside(value: Value, size: int) -> Index:
    """An index as one of 0 ... size - 1: it is checked around the program, and until then nothing
    outside may be touched."""
    inside = call("minimum", call("maximum", cast(value, INT), 0), size - 1)
    return atom(inside.expr, (0, size - 1))
