"""Lowers scatters along an axis: values written or combined at indices known at run time.

One kernel fills the result: with zeros for `add_at`, the gradient of `take`, and with the array
written into for `scatter`. Another one writes one row after the other, so that the results depend
neither on the number of threads nor on the machine. Tasks share the columns, or the slices before
the axis. 16-bit floats are combined in float32, which a last kernel rounds.
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
from ..ir.inline import Indices, Inliner, flatten, memory_reader
from ..ir.loop_ir import INT, Assign, Expr, For, Kernel, KernelBuffer, Register, Store, const, read
from ..ir.sizes import Size, upper_bound
from ..ir.target_info import Machine
from .partition_work import buffers_of, chunk_bounds, split_into_tasks
from .scatter_rows import clamped_index, unflatten_row

_MIN_ELEMENTS_PER_TASK = 8192
_VECTORS_AT_ONCE = 4
_COMBINE = {"add": "add", "prod": "mul", "amax": "maximum", "amin": "minimum"}


def lower_add_at(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                 ) -> list[Kernel]:
    """The kernels of a scatter-add; none if its result is empty or unused."""
    (node,) = group.members
    values, indices = node.inputs
    return _kernels(AxisScatter(node, buffers, machine, name, None, values, indices, "add"))


def lower_scatter(group: Group, buffers: Mapping[Node, KernelBuffer], machine: Machine, name: str
                  ) -> list[Kernel]:
    """The kernels of a scatter into an array; none if its result is empty or unused."""
    (node,) = group.members
    target, indices, values = node.inputs
    return _kernels(AxisScatter(node, buffers, machine, name, target, values, indices,
                                node.params["reduce"]))


def _kernels(scatter: AxisScatter) -> list[Kernel]:
    unused = scatter.node.type.size == 0 or scatter.node not in scatter.buffers
    return [] if unused else scatter.kernels()


class AxisScatter:
    """Values that go to the rows of a result: `count` rows for each of `outer` slices, of `width`
    elements each.

    `target`: the array written into; None for zeros
    `indices`: a row for each value, or for each row of values
    `reduce`: how values for one element are combined; None if the last one replaces the others
    """

    def __init__(self, node: Node, buffers: Mapping[Node, KernelBuffer], machine: Machine,
                 name: str, target: Node | None, values: Node, indices: Node, reduce: str | None
                 ) -> None:
        self.node, self.buffers, self.machine, self.name = node, buffers, machine, name
        self.target, self.values, self.indices, self.reduce = target, values, indices, reduce
        self.axis, shape = int(node.params["axis"]), values.type.shape
        after = node.type.ndim - self.axis - 1
        self.before, self.after = shape[:self.axis], shape[len(shape) - after:]
        self.rows = shape[self.axis:len(shape) - after]
        self.outer, self.count, self.width = map(product, (self.before, self.rows, self.after))
        self.inline = Inliner(memory_reader(buffers))
        dtype = summed_in(node.type.dtype)
        self.result = self.sums = buffers.get(node, KernelBuffer(name, dtype, 0))
        if dtype != node.type.dtype:
            self.sums = KernelBuffer(f"{name}_sums", dtype, self.result.size)

    def kernels(self) -> list[Kernel]:
        """All kernels, in order."""
        kernels = [self._of_elements(f"{self.name}_fill", self._fill)]
        if self.values.type.size:
            kernels.append(self._write_rows())
        if self.sums is not self.result:
            kernels.append(self._of_elements(f"{self.name}_round", self._round))
        return kernels

    def _fill(self, i: Index) -> Store:
        value = const(0, self.sums.dtype) if self.target is None else cast(self.inline.value(
            self.target, unflatten_row(i, self.node.type.shape)), self.sums.dtype).expr
        return Store(self.sums, i.expr(), value)

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

    def _write_rows(self) -> Kernel:
        """The kernel that writes the rows in their order."""
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
        """The loop over the rows of slice `o`: it writes some columns of each."""
        number, n = counter("n", self.count)
        column, c = counter("i", self.width)
        size, at = self.node.type.shape[self.axis], Register("row", INT)
        place = (*unflatten_row(o, self.before), *unflatten_row(n, self.rows),
                 *unflatten_row(c, self.after))
        whole = self.indices.type.ndim == self.values.type.ndim  # an index for each value
        index = clamped_index(self.inline.value(
            self.indices, place if whole else unflatten_row(n, self.rows)), size)
        find = Assign(at, index.expr())
        write = self._write(place, atom(read(at), (0, size - 1)))
        varies = column in loop_ir.subexpressions([index.expr()])
        body = (find, write) if varies else (write,)
        line = For(column, *columns, body, 0 if varies else self._lanes(self.width))
        return For(number, const(0), const(self.count), (line,) if varies else (find, line))

    def _write(self, place: Indices, row: Index) -> Store:
        """The store of the value at `place` into its row of the result."""
        rest = len(self.after)
        target = flatten((*place[:self.axis], row, *place[len(place) - rest:]),
                         self.node.type.shape).expr()
        value = cast(self.inline.value(self.values, place), self.sums.dtype).expr
        if self.reduce is not None:
            value = loop_ir.call(_COMBINE[self.reduce], (loop_ir.load(self.sums, target), value),
                                 self.sums.dtype)
        return Store(self.sums, target, value)

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
