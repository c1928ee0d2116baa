"""Lowers sums over the rows of a large matrix, such as a vector times a weight: (k,) @ (k, n).

Lanes over columns that go down all rows would read a few elements of each row, on another page of
memory each time: the processor then fetches little ahead, and rows a power of two apart displace
each other in its caches. Here a task goes along a strip of a few rows, with the sums of the strip's
columns in the innermost cache, and a second kernel adds the strips' sums up.
"""

from __future__ import annotations

from dataclasses import replace

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ..ir import loop_ir
from ..ir.affine_index import counter
from ..ir.blocked_sums import MAX_SEQUENTIAL_ADDS
from ..ir.loop_ir import For, Kernel, KernelBuffer, Stmt
from ..ir.sizes import Size, ceil_div, is_dynamic
from .loop_body import identity
from .loop_nest import MIN_ELEMENTS_PER_TASK, LoopNest, kernel
from .partition_work import chunk_bounds

_PAGE_BYTES = 4096  # of memory
_STRIP_BYTES = 16384  # of the sums of a strip: a part of the innermost cache
_LEAST_ROWS = 2 * MAX_SEQUENTIAL_ADDS


def has_long_columns(nest: LoopNest, width: Size) -> bool:
    """True if a group sums one large matrix over its rows, each of a page or more."""
    if is_dynamic(nest.inner_size) or is_dynamic(width) or width != nest.outer_size \
            or len(nest.axes.inner) != 1 or len(nest.body.sweeps) != 1:
        return False
    narrowest = min(n.type.dtype.itemsize for n in nest.body.sweeps[0].reductions)
    return width * narrowest >= _PAGE_BYTES // 2 and nest.inner_size >= _LEAST_ROWS \
        and nest.inner_size * width >= 8 * MIN_ELEMENTS_PER_TASK


def strip_sums(nest: LoopNest, partial: dict[Node, KernelBuffer], width: int) -> Kernel:
    """The kernel that stores in `partial` the sums (strips of rows, width)."""
    reductions, rows = nest.body.sweeps[0].reductions, nest.inner_size
    widest = max(summed_in(n.type.dtype).itemsize for n in reductions)
    columns = _STRIP_BYTES // widest // len(reductions) // nest.lanes * nest.lanes
    strips, blocks = ceil_div(rows, MAX_SEQUENTIAL_ADDS), ceil_div(width, columns)
    var, task = counter("task", strips * blocks)
    strip, block = task // blocks, task % blocks
    together = next(n for n in (4, 2, 1) if rows % n == 0)  # rows, for one access of the sums
    (group, g), (lane, i) = counter("g", rows // together), counter("i", width)
    limits, lanes = chunk_bounds(block, columns, width), nest.lanes_for(width)
    sums = {n: KernelBuffer(f"sums{number}", summed_in(n.type.dtype), columns, scratch=True)
            for number, n in enumerate(reductions)}
    at = (i - block * columns).expr()
    load: list[Stmt] = [loop_ir.Assign(nest.body.registers[n], loop_ir.load(b, at))
                        for n, b in sums.items()]
    save = [loop_ir.Store(b, at, loop_ir.read(nest.body.registers[n])) for n, b in sums.items()]
    clear = [loop_ir.Store(b, at, loop_ir.const(identity(n), b.dtype)) for n, b in sums.items()]
    out = [loop_ir.Store(partial[n], (strip * width + i).expr(), loop_ir.load(b, at))
           for n, b in sums.items()]
    add = [s for n in range(together) for s in nest.body.element_statements(0, nest.axes.where(
        [(nest.axes.outer[-1], i), (nest.axes.inner[0], g * together + n)]))]
    groups = chunk_bounds(strip, MAX_SEQUENTIAL_ADDS // together, rows // together)

    def along(body: tuple[Stmt, ...]) -> For:
        return For(lane, *limits, body, lanes)

    body = [along(tuple(clear)),
            For(group, *groups, (along((*load, *add, *save)),)),
            along(tuple(out))]
    made = kernel(nest, var, strips * blocks, body)
    return replace(made, scratch=(*made.scratch, *sums.values()))
