"""Lowers scatter-add (rows added at indices known at run time), the gradient of `take`.

One kernel clears the sums; another one adds one row after the other, so that the results depend
neither on the number of threads nor on the machine. Tasks share the columns, or the slices before
the axis. 16-bit floats are added up in float32, which a last kernel rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...capture.graph.graph import Node
from ...eager.arrays.dtypes import summed_in
from ...eager.arrays.shapes import product
from ..fusion.fusion import Group
from ..ir import loop_ir
from ..ir.affine_index import Index, as_index, atom, counter
from ..ir.builder import ExprValue, cast
from ..ir.inline import Inliner, memory_reader
from ..ir.loop_ir import INT, Assign, Expr, For, Kernel, KernelBuffer, Register, Store, const, read
from ..ir.sizes import Size, upper_bound
from ..ir.target_info import Machine
from .partition_work import buffers_of, chunk_bounds, split_into_tasks
from .scatter_rows import clamped_index, unflatten_row

_MIN_ELEMENTS_PER_TASK = 8192
_VECTORS_AT_ONCE = 4


def lower_add_at(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                 ) -> list[Kernel]:
    """The kernels of a scatter-add; none if its result is empty or unused."""
    (node,) = group.members
    if node.type.size == 0 or node not in buffers:
        return []
    return ScatterAdd(node, buffers, machine, name).kernels()


class ScatterAdd:
    """The rows that are added up: `count` rows for each of `outer` slices, of `width` elements
    each."""

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                 ) -> None:
        self.node, self.machine, self.name = node, machine, name
        self.values, self.indices = node.inputs
        axis, shape = int(node.params["axis"]), node.type.shape
        self.before, self.size, self.after = shape[:axis], shape[axis], shape[axis + 1:]
        self.outer, self.width = product(self.before), product(self.after)
        self.count = self.indices.type.size
        self.inline = Inliner(memory_reader(buffers))
        self.result = buffers[node]
        dtype = summed_in(node.type.dtype)
        self.sums = self.result if dtype == node.type.dtype else \
            KernelBuffer(f"{name}_sums", dtype, self.result.size)

    def kernels(self) -> list[Kernel]:
        """All kernels, in order."""
        kernels = [self._of_elements(f"{self.name}_clear", self._clear)]
        if self.count:
            kernels.append(self._add_rows())
        if self.sums is not self.result:
            kernels.append(self._of_elements(f"{self.name}_round", self._round))
        return kernels

    def _clear(self, i: Index) -> Store:
        return Store(self.sums, i.expr(), const(0, self.sums.dtype))

    def _round(self, i: Index) -> Store:
        total = ExprValue(loop_ir.load(self.sums, i.expr()))
        return Store(self.result, i.expr(), cast(total, self.node.type.dtype).expr)

    def _of_elements(self, name: str, statement: Callable[[Index], Store]) -> Kernel:
        """A kernel that executes a statement for each element of the result."""
        total = self.node.type.size
        tasks, chunk = split_into_tasks(total, _MIN_ELEMENTS_PER_TASK, self.machine)
        var, task = counter("task", tasks)
        lane, i = counter("i", total)
        loop = For(lane, *chunk_bounds(task, chunk, total), (statement(i),), self._lanes(total))
        return self._kernel(name, var, tasks, loop, total)

    def _add_rows(self) -> Kernel:
        """The kernel that adds the rows in their order."""
        work = upper_bound(self.count)
        if self.outer == 1:
            lanes = max(1, self._lanes(self.width))
            smallest = max(lanes, _MIN_ELEMENTS_PER_TASK // work)
            tasks, columns = split_into_tasks(self.width, -(-smallest // lanes) * lanes,
                                              self.machine)
            var, task = counter("task", tasks)
            loop = self._rows(as_index(0), chunk_bounds(task, columns, self.width))
        else:
            smallest = _MIN_ELEMENTS_PER_TASK // (work * upper_bound(self.width))
            tasks, slices = split_into_tasks(self.outer, max(1, smallest), self.machine)
            var, task = counter("task", tasks)
            number, o = counter("o", self.outer)
            loop = For(number, *chunk_bounds(task, slices, self.outer),
                       (self._rows(o, (const(0), const(self.width))),))
        return self._kernel(self.name, var, tasks, loop, self.values.type.size)

    def _rows(self, o: Index, columns: tuple[Expr, Expr]) -> For:
        """The loop over the rows of slice `o`: it adds some columns of each."""
        number, n = counter("n", self.count)
        column, c = counter("i", self.width)
        rows = self.indices.type.shape
        at = Register("row", INT)
        index = clamped_index(self.inline.value(self.indices, unflatten_row(n, rows)), self.size)
        row = atom(read(at), (0, self.size - 1))
        target = ((o * self.size + row) * self.width + c).expr()
        value = self.inline.value(self.values, (
            *unflatten_row(o, self.before), *unflatten_row(n, rows), *unflatten_row(c, self.after)))
        total = loop_ir.call("add", (loop_ir.load(self.sums, target),
                                     cast(value, self.sums.dtype).expr), self.sums.dtype)
        add = For(column, *columns, (Store(self.sums, target, total),), self._lanes(self.width))
        return For(number, const(0), const(self.count), (Assign(at, index.expr()), add))

    def _lanes(self, length: Size) -> int:
        """Lanes of a loop over so many elements; 0 for one element."""
        lanes = min(_VECTORS_AT_ONCE * self.machine.lanes(max(4, self.sums.dtype.itemsize)),
                    1 << (upper_bound(length) - 1).bit_length())
        return lanes if lanes > 1 else 0

    def _kernel(self, name: str, var: loop_ir.Var, tasks: Size, loop: For, elements: Size
                ) -> Kernel:
        cost = upper_bound(elements) / (2.5 * self.machine.lanes())
        return Kernel(name, *buffers_of((loop,)), (), var, tasks, (loop,), cost,
                      (self.node.site,) if self.node.site else ())
