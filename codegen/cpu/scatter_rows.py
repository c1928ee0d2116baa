"""Lowers scatters of rows to indices known at run time.

One kernel copies the array written into, unless the result already has its memory; another one
writes one row after the other. Of several rows for one index the last one wins, so tasks share the
columns, not the rows.
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
from ..ir.inline import Inliner, flatten, memory_reader, unflatten
from ..ir.loop_ir import INT, For, Kernel, KernelBuffer, Stmt, const
from ..ir.sizes import Size, upper_bound
from ..ir.target_info import Machine
from .lower import lower_loops
from .partition_work import buffers_of, chunk_bounds, split_into_tasks

_MIN_ELEMENTS_PER_TASK = 8192
_VECTORS_AT_ONCE = 4


def lower_scatter_rows(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str
                       ) -> list[Kernel]:
    """The kernels of a scatter of rows; none where the result has no reader."""
    return scatter_kernels(group, buffers, machine, name, lower_loops, _write_rows)


def scatter_kernels(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str,
                    copy: Callable[..., list[Kernel]], write: Callable[..., list[Kernel]]
                    ) -> list[Kernel]:
    """The kernels by which `copy` fills the result, unless it has the memory already, and those by
    which `write` scatters the rows."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    target, rows, _ = node.inputs
    source = flat_source(target, lambda n: n in buffers)
    copies = []
    if buffers.get(source) is not buffers[node]:
        alias, alias_buffers = _alias_group(group, buffers)
        copies = copy(alias, alias_buffers, machine, f"{name}_copy")
    return [*copies, *write(node, buffers, machine, name)] if rows.type.size else copies


def _alias_group(group: Group, buffers: Mapping[Node, KernelBuffer]
                 ) -> tuple[Group, dict[Node, KernelBuffer]]:
    """The array written into as a group of its own, stored in the result's memory."""
    (node,) = group.members
    alias = Node("alias", (node.inputs[0],), {}, node.type, node.site)
    alias_buffers = {alias if n is node else n: b for n, b in buffers.items()}
    return Group("pointwise", group.domain, None, [alias], group.reads), alias_buffers


def _write_rows(node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                ) -> list[Kernel]:
    """The kernel that writes rows in their order. A task has some of the columns."""
    indices = node.inputs[2]
    count, width = indices.type.size, product(node.type.shape[1:])
    lanes = min(_VECTORS_AT_ONCE * machine.lanes(max(4, node.type.dtype.itemsize)),
                1 << (upper_bound(width) - 1).bit_length())
    smallest = max(lanes, _MIN_ELEMENTS_PER_TASK // upper_bound(count))
    tasks, columns_per_task = split_into_tasks(width, -(-smallest // lanes) * lanes, machine)
    var, task = counter("task", tasks)
    row_var, n = counter("n", count)
    column, c = counter("i", width)

    inline = Inliner(memory_reader(buffers))
    store = store_row_element(node, buffers, inline, n, c)
    line = For(column, *chunk_bounds(task, columns_per_task, width), (store,), lanes
               if lanes > 1 else 0)
    body: tuple[Stmt, ...] = (For(row_var, const(0), const(count), (line,)),)
    cost = upper_bound(count * width) / (2.5 * machine.lanes())
    return [Kernel(name, *buffers_of(body), (), var, tasks, body, cost,
                   (node.site,) if node.site else ())]


def target_row(node: Node, inline: Inliner, n: Index) -> Index:
    """The index at which row number `n` is written."""
    indices = node.inputs[2]
    return clamped_index(inline.value(indices, unflatten_row(n, indices.type.shape)),
                         node.type.shape[0])


def store_row_element(node: Node, buffers: Mapping[Node, KernelBuffer], inline: Inliner, n: Index,
                      c: Index) -> loop_ir.Store:
    """The store of column `c` of row number `n`."""
    _, rows, indices = node.inputs
    index = (*unflatten_row(n, indices.type.shape), *unflatten_row(c, node.type.shape[1:]))
    width = product(node.type.shape[1:])
    at = flatten((target_row(node, inline, n), c), (1, width)).expr()
    return loop_ir.Store(buffers[node], at, inline.value(rows, index).expr)


def unflatten_row(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The index of an element from its position in row-major memory; axes of size 1 give 0."""
    return tuple([as_index(0) if n == 1 else i for n, i in zip(shape, unflatten(position, shape))])


def clamped_index(value: ExprValue, size: Size) -> Index:
    """An index clamped to [0, size).

    The check of indices runs around the program; clamping keeps writes in bounds until then."""
    clamped = call("minimum", call("maximum", cast(value, INT), 0), size - 1)
    return atom(clamped.expr, (0, size - 1))
