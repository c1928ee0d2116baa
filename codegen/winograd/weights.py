"""Weights transformed: panel by panel of filters, as products read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import loops
from ..index import Index, as_index
from ..loops import Buffer, For, Kernel, Stmt, const
from ..lower import buffers_of
from ..machine import Machine
from ..nest import counter
from ..pack import pack_loops
from ..values import Value
from .grid import least
from .matrices import KERNEL, Matrix, on_both_sides

_CHANNELS = 32  # that are transformed by one task


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights (filter, channel, y, x), and what they become: [panel][point][channel][filter of the
    panel]; in the last panel filters that are not there are 0."""

    filters: int
    channels: int
    element: Callable[[Index, Index, Index, Index], Value]
    matrix: Matrix
    machine: Machine
    name: str
    dtype: loops.DType

    @property
    def panel(self) -> int:
        """The filters of a panel, which are computed side by side."""
        return 2 * self.machine.lanes()

    @property
    def panels(self) -> int:
        return -(-self.filters // self.panel)

    @cached_property
    def data(self) -> Buffer:
        points = len(self.matrix) ** 2
        return Buffer(self.name, self.dtype, self.panels * points * self.channels * self.panel)

    def place(self, panel: Index, point: Index | int, channel: Index) -> Index:
        """Where a panel's weights of one point and one channel begin."""
        points = len(self.matrix) ** 2
        return ((panel * points + point) * self.channels + channel) * self.panel

    @property
    def _size(self) -> int:
        """The channels of a task."""
        return min(_CHANNELS, self.channels)

    @cached_property
    def _held(self) -> Buffer:
        """The weights of a task, with the filters side by side."""
        return Buffer("held", self.dtype, self._size * KERNEL ** 2 * self.panel, scratch=True)

    def kernel(self, sites: tuple[str, ...]) -> Kernel:
        """The kernel that transforms them: a task for some channels of one panel."""
        chunks = -(-self.channels // self._size)
        tasks = self.panels * chunks
        var, task = counter("task", tasks)
        panel, first = task // chunks, task % chunks * self._size
        there = least(self.panel, self.filters - panel * self.panel)
        channels = least(self._size, self.channels - first)
        clear = [] if isinstance(there, loops.Const) else [self._cleared()]
        body = (*clear, *self._packed(panel, first, there, channels),
                self._transformed(panel, first, channels))
        return Kernel(self.name, *buffers_of(body), (self._held,), var, tasks, body,
                      self.data.size * 16.0 / self.panel, sites)

    def _packed(self, panel: Index, first: Index, filters: loops.Expr, channels: loops.Expr
                ) -> list[Stmt]:
        def store(local: dict[str, Index]) -> loops.Store:
            c, y, x, lane = (local[name] for name in ("c", "y", "x", "lane"))
            value = self.element(panel * self.panel + lane, first + c, y, x)
            return loops.Store(self._held, self._place(c, y, x, lane).expr(), value.expr)

        sizes = {"lane": self.panel, "c": self._size, "y": KERNEL, "x": KERNEL}
        return pack_loops(sizes, {"lane": filters, "c": channels}, store, self.machine.lanes())

    def _place(self, c: Index, y: Index, x: Index, lane: Index) -> Index:
        return ((c * KERNEL + y) * KERNEL + x) * self.panel + lane

    def _cleared(self) -> Stmt:
        var, lane = counter("z", self._held.size)
        zero = loops.Store(self._held, lane.expr(), loops.const(0, self.dtype))
        return For(var, const(0), const(self._held.size), (zero,), self.machine.lanes())

    def _transformed(self, panel: Index, first: Index, count: loops.Expr) -> Stmt:
        channel, c = counter("c", self._size)
        var, lane = counter("f", self.panel)
        kernel = range(KERNEL)
        square: Sequence[Sequence[loops.Expr]] = [
            [loops.load(self._held, self._place(c, as_index(y), as_index(x), lane).expr())
             for x in kernel] for y in kernel]
        body, results = on_both_sides(self.matrix, square, "w")
        body += [loops.Store(self.data, (self.place(panel, n, first + c) + lane).expr(),
                             loops.read(r)) for n, r in enumerate(results)]
        lanes = For(var, const(0), const(self.panel), tuple(body), self.machine.lanes())
        return For(channel, const(0), count, (lanes,))
