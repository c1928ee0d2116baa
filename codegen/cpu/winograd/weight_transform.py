"""Transforms weights, one panel of filters at a time, in the order in which products read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir import loop_ir
from ...ir.affine_index import Index, as_index, counter
from ...ir.builder import ExprValue
from ...ir.loop_ir import For, Kernel, KernelBuffer, Stmt, const
from ...ir.target_info import Machine
from ..gemm.pack_loops import pack_loops
from ..partition_work import buffers_of
from .input_transform import odd_lines
from .matrices import KERNEL, FractionMatrix, on_both_sides
from .tile_grid import clipped_count, even_part

_MAX_CHANNELS_PER_TASK = 32  # transformed at once


@dataclass(frozen=True, eq=False)
class WeightTransform:
    """Weights (filter, channel, y, x), transformed to [panel][point][channel][filter of the panel].

    Missing filters of the last panel are 0."""

    filters: int
    channels: int
    element: Callable[[Index, Index, Index, Index], ExprValue]
    matrix: FractionMatrix
    machine: Machine
    name: str
    dtype: loop_ir.DType
    # whether each task has memory for its own channels of one panel, instead of one buffer
    per_task: bool = False

    @property
    def panel(self) -> int:
        """The number of filters of a panel, which are computed side by side."""
        return 2 * self.machine.lanes()

    @property
    def panels(self) -> int:
        return -(-self.filters // self.panel)

    @cached_property
    def data(self) -> KernelBuffer:
        points, panels = len(self.matrix) ** 2, 1 if self.per_task else self.panels
        return KernelBuffer(self.name, self.dtype, panels * points * self.point_pitch,
                      scratch=self.per_task)

    @cached_property
    def point_pitch(self) -> int:
        """Elements from one point to the next; the points of a channel are written together."""
        return odd_lines((self.size if self.per_task else self.channels) * self.panel)

    def index_of(self, panel: Index, point: Index | int, channel: Index) -> Index:
        """The index of a panel's weights of one point and one channel.

        With `per_task` memory, the channel is counted from the task's first one."""
        points = len(self.matrix) ** 2
        panel = as_index(0) if self.per_task else panel
        return (panel * points + point) * self.point_pitch + channel * self.panel

    @property
    def size(self) -> int:
        """The number of channels transformed together."""
        return even_part(self.channels, _MAX_CHANNELS_PER_TASK)

    @property
    def chunks(self) -> int:
        """The number of chunks of so many channels."""
        return -(-self.channels // self.size)

    @cached_property
    def untransformed(self) -> KernelBuffer:
        """The weights of a task, with the filters contiguous."""
        return KernelBuffer("held", self.dtype, self.size * KERNEL ** 2 * self.panel, scratch=True)

    def kernel(self, sites: tuple[str, ...]) -> Kernel:
        """The kernel that transforms the weights, with a task for some channels of one panel."""
        tasks = self.panels * self.chunks
        var, task = counter("task", tasks)
        body = tuple(self.statements(task // self.chunks, task % self.chunks))
        return Kernel(self.name, *buffers_of(body), (self.untransformed,), var, tasks, body,
                      self.data.size * 16.0 / self.panel, sites)

    def statements(self, panel: Index, chunk: Index) -> list[Stmt]:
        """Statements that transform some channels of one panel."""
        first = chunk * self.size
        filter_count = clipped_count(self.panel, self.filters - panel * self.panel)
        clear = [] if isinstance(filter_count, loop_ir.Const) else [self._cleared()]
        return [*clear, *self._packed(panel, first, filter_count, self.count(chunk)),
                self._transformed(panel, first, self.count(chunk))]

    def count(self, chunk: Index) -> loop_ir.Expr:
        """The number of channels of a chunk."""
        return clipped_count(self.size, self.channels - chunk * self.size)

    def _packed(self, panel: Index, first: Index, filters: loop_ir.Expr, channels: loop_ir.Expr
                ) -> list[Stmt]:
        def store(local: dict[str, Index]) -> loop_ir.Store:
            c, y, x, lane = (local[name] for name in ("c", "y", "x", "lane"))
            value = self.element(panel * self.panel + lane, first + c, y, x)
            return loop_ir.Store(
                self.untransformed, self._untransformed_index(c, y, x, lane).expr(), value.expr
            )

        sizes = {"lane": self.panel, "c": self.size, "y": KERNEL, "x": KERNEL}
        return pack_loops(sizes, {"lane": filters, "c": channels}, store, self.machine.lanes())

    def _untransformed_index(self, c: Index, y: Index, x: Index, lane: Index) -> Index:
        return ((c * KERNEL + y) * KERNEL + x) * self.panel + lane

    def _cleared(self) -> Stmt:
        var, lane = counter("z", self.untransformed.size)
        zero = loop_ir.Store(self.untransformed, lane.expr(), loop_ir.const(0, self.dtype))
        return For(var, const(0), const(self.untransformed.size), (zero,), self.machine.lanes())

    def _transformed(self, panel: Index, first: Index, count: loop_ir.Expr) -> Stmt:
        channel, c = counter("c", self.size)
        var, lane = counter("f", self.panel)
        kernel = range(KERNEL)
        square: Sequence[Sequence[loop_ir.Expr]] = [
            [
                loop_ir.load(
                    self.untransformed,
                    self._untransformed_index(c, as_index(y), as_index(x), lane).expr(),
                )
                for x in kernel
            ]
            for y in kernel
        ]
        body, results = on_both_sides(self.matrix, square, "w")
        channel_index = c if self.per_task else first + c
        body += [loop_ir.Store(self.data, (self.index_of(panel, n, channel_index) + lane).expr(),
                               loop_ir.read(r))
                 for n, r in enumerate(results)]
        lanes = For(var, const(0), const(self.panel), tuple(body), self.machine.lanes())
        return For(channel, const(0), count, (lanes,))
