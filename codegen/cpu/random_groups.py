"""Builds loops over random numbers in which neighbours share the work of the generator.

Philox makes blocks of four words, and 64 neighbours take the words of 16 blocks (see
eager/ops/random/philox.py). An iteration computes 64 of them, so each block is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...eager.core.op import OPS
from ...eager.ops.random.philox import GROUP, LANES, WORDS
from ..fusion.fusion import Group
from ..ir.affine_index import Index, counter
from ..ir.loop_ir import For, Kernel, Stmt, const
from ..ir.sizes import Size, is_dynamic
from .loop_nest import LoopNest, kernel
from .partition_work import chunk_bounds, split_into_tasks


def draws_groups(group: Group, size: Size) -> bool:
    """True if a loop of this size over the elements of a group draws whole groups of neighbours."""
    return not is_dynamic(size) and size % GROUP == 0 and \
        any(OPS[n.op].draws for n in group.members if n.op in OPS)


def lower_groups(nest: LoopNest, run: tuple[list[int], int]) -> Kernel:
    """The kernel of one loop over all elements, in groups of neighbours."""
    axes, size = run
    tasks, chunk = split_into_tasks(size // GROUP, nest.chunks_per_task(GROUP), nest.machine)
    var, task = counter("task", tasks)
    group, number = counter("group", size // GROUP)
    body = _one_group(number * GROUP, lambda i: nest.body.element_statements(
        0, nest.axes.where([(axes, i)])))
    return kernel(nest, var, tasks, [For(group, *chunk_bounds(task, chunk, size // GROUP), body)])


def group_loop(size: int, statements: Callable[[Index], Sequence[Stmt]]) -> For:
    """The loop over all elements of an axis of this size, whose statements are those of an index.
    """
    group, number = counter("group", size // GROUP)
    return For(group, const(0), const(size // GROUP), _one_group(number * GROUP, statements))


def _one_group(first: Index, statements: Callable[[Index], Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """The statements of the neighbours from an index on."""
    word, w = counter("word", WORDS)
    lane, i = counter("i", LANES)
    lanes = For(lane, const(0), const(LANES), tuple(statements(first + w * LANES + i)), LANES)
    return (For(word, const(0), const(WORDS), (lanes,), 0, WORDS),)
