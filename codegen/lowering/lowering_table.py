"""Lowers groups to kernels by a back end's table; groups with equal keys are lowered once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...capture.graph.graph import Node
from ...capture.passes.decompose import decomposition_of
from ..cpu.argsort import lower_sort
from ..cpu.attention.select import (
    attention_kernels,
    cached_attention_kernels,
    has_cached_kernel,
    has_kernel,
)
from ..cpu.axis_scatter import lower_add_at, lower_scatter
from ..cpu.gemm.lower import lower_contract
from ..cpu.grouped_product import grouped_kernels, has_grouped_kernel
from ..cpu.lower import lower_loops
from ..cpu.max_pool_grad import has_max_pool_kernel, lower_max_pool_back
from ..cpu.scan import lower_scan
from ..cpu.scatter_rows import lower_scatter_rows
from ..cpu.winograd.select import winograd_kernels
from ..fusion.fusion import Group
from ..fusion.kernel_key import BufferView, KernelKey, kernel_key_of, shift_slices
from ..fusion.launch import Launch
from ..ir.loop_ir import Kernel, KernelBuffer
from ..ir.sizes import is_dynamic
from ..ir.target_info import Machine
from ..outline.concat_placement import placements_of

PackedOperands = dict[Any, dict[KernelBuffer, BufferView]]  # (kernel, operands) -> packed buffers

Lower = Callable[..., list[Kernel]]  # lower(group, buffers, machine, name)


def _contract(group: Group, buffers: dict[Node, KernelBuffer], machine: Machine, name: str,
              persistent: Collection[KernelBuffer] = ()) -> list[Kernel]:
    tiled = winograd_kernels(group, buffers, machine, name, persistent)
    return lower_contract(group, buffers, machine, name, persistent) if tiled is None else tiled


class CompositeKernel(NamedTuple):
    """How a composite becomes kernels, and the nodes for which it can."""

    fits: Callable[[Node, Machine], bool]
    lower: Lower


@dataclass(frozen=True, eq=False)
class LoweringTable:
    """How a back end lowers groups to kernels.

    `lower`: the lowering of each group kind; that of `contract` takes the persistent buffers, too
    `composites`: the kernels of composites, by name; others are decomposed
    `opaque`: the lowerings of opaque ops, by name
    `decomposes_calls`: whether other opaque ops are decomposed where a decomposition exists; they
        are library calls if not
    """

    lower: Mapping[str, Lower]
    composites: Mapping[str, CompositeKernel] = field(default_factory=dict)
    opaque: Mapping[str, Lower] = field(default_factory=dict)
    decomposes_calls: bool = False

    def has_kernel(self, node: Node, machine: Machine) -> bool:
        """True if a composite has a kernel of its own; it is decomposed if not."""
        kernel = self.composites.get(node.op)
        return kernel is not None and kernel.fits(node, machine)

    def has_lowering(self, call: Node) -> bool:
        """True if an opaque node becomes kernels."""
        return call.op in self.opaque or (self.decomposes_calls
                                          and decomposition_of(call) is not None)

    def lowering_of(self, group: Group) -> Lower:
        """The lowering of a group."""
        (node, *_) = group.members
        if group.kind == "composite":
            return self.composites[node.op].lower
        return self.opaque[node.op] if group.kind == "opaque" else self.lower[group.kind]


CPU = LoweringTable({
    "pointwise": lower_loops, "inner_reduce": lower_loops, "outer_reduce": lower_loops,
    "contract": _contract, "scan": lower_scan, "sort": lower_sort,
    "scatter_rows": lower_scatter_rows,
}, {
    **dict.fromkeys(("attention", "attention_back"),
                    CompositeKernel(has_kernel, attention_kernels)),
    "cached_attention": CompositeKernel(has_cached_kernel, cached_attention_kernels),
    "grouped_product": CompositeKernel(has_grouped_kernel, grouped_kernels),
    "max_pool_back": CompositeKernel(has_max_pool_kernel, lower_max_pool_back),
}, {"add_at": lower_add_at, "scatter": lower_scatter})


@dataclass(frozen=True)
class _LoweredKernels:
    """The kernels of a structural key; `numbers` maps their buffers to its views."""

    kernels: list[Kernel]
    numbers: Mapping[KernelBuffer, int]

    def launches(self, views: list[BufferView], values: Mapping[KernelBuffer, frozenset[Node]],
                 packed: PackedOperands) -> list[Launch]:
        """The kernels launched on these views.

        Temporaries get fresh buffers, except packed operands: a kernel that packs the same `values`
        again reuses the buffers recorded in `packed`."""
        temporaries: dict[KernelBuffer, BufferView] = {}
        launches = []
        for kernel in self.kernels:
            outputs = {b: BufferView(KernelBuffer(b.name, b.dtype, b.size))
                       for b in kernel.arguments
                       if b not in self.numbers and b not in temporaries}
            if self._packs(kernel, outputs):
                read = [views[self.numbers[b]] for b in kernel.inputs]
                key = kernel, *[(p, values.get(p.buffer)) for p in read]
                if key in packed and all(p.buffer in values for p in read):
                    temporaries |= packed[key]
                    continue
                packed[key] = outputs
            temporaries |= outputs
            arguments = [views[self.numbers[b]] if b in self.numbers else temporaries[b]
                         for b in kernel.arguments]
            launches.append(Launch(kernel, tuple(arguments)))
        return launches

    def _packs(self, kernel: Kernel, outputs: Collection[KernelBuffer]) -> bool:
        """True if a kernel only reads operands, and writes buffers that no other of these kernels
        writes."""
        return all(b in self.numbers for b in kernel.inputs) and set(kernel.outputs) == {*outputs} \
            and all(sum(b in k.outputs for k in self.kernels) == 1 for b in outputs)


class KernelCache:
    """Lowers groups to kernels, once per structural key."""

    def __init__(self, machine: Machine, table: LoweringTable = CPU) -> None:
        self.machine, self.table = machine, table
        self._lowered: dict[Any, _LoweredKernels] = {}

    def launches(self, group: Group, buffers: Mapping[Node, KernelBuffer], name: str,
                 persistent: Collection[KernelBuffer], packed: PackedOperands) -> list[Launch]:
        """The kernels of a group whose values are in `buffers`, in order.

        Kernels are left out that pack an operand which is `packed` already. Operands made of
        `persistent` buffers alone are prepacked."""
        views = {n: BufferView(buffers[n]) for n in (*group.reads, *group.members) if n in buffers}
        if group.kind != "split_concat":
            return self._launches(group, views, name, persistent, packed)
        return [launch for operand_group, operand_views in concat_operand_groups(group, views)
                for launch in self._launches(operand_group, operand_views, name, persistent,
                                             packed)]

    def _launches(self, group: Group, views: Mapping[Node, BufferView], name: str,
                  persistent: Collection[KernelBuffer], packed: PackedOperands) -> list[Launch]:
        kernel_key = kernel_key_of(group, views)
        packs = group.kind == "contract"  # no other lowering depends on persistence
        full_key = kernel_key.key, tuple([p.buffer in persistent
                                          for p in kernel_key.views]) if packs else ()
        if full_key not in self._lowered:
            self._lowered[full_key] = self._lower(group, views, kernel_key, name, persistent)
        launches = self._lowered[full_key].launches(kernel_key.views, _values(group, views), packed)
        refusals = tuple(group.refusals)
        return [replace(x, refusals=refusals) for x in launches] if refusals else launches

    def _lower(self, group: Group, views: Mapping[Node, BufferView], kernel_key: KernelKey,
               name: str, persistent: Collection[KernelBuffer]) -> _LoweredKernels:
        numbers = {p.buffer: i for i, p in enumerate(kernel_key.views)}
        moved, new = shift_slices(group, views, kernel_key.shifts)
        values = [n for n in (*group.reads, *group.members) if n in views]
        buffers = {new.get(n, n): views[n].buffer for n in values}
        extra_arguments = (persistent,) if group.kind == "contract" else ()
        return _LoweredKernels(self.table.lowering_of(group)(moved, buffers, self.machine, name,
                                                             *extra_arguments),
                               numbers)


def _values(group: Group, views: Mapping[Node, BufferView]) -> dict[KernelBuffer, frozenset[Node]]:
    """The nodes in each buffer that a group reads and does not write."""
    written = {views[n].buffer for n in group.members if n in views}
    values: dict[KernelBuffer, frozenset[Node]] = {}
    for n in group.reads:
        if n in views and (buffer := views[n].buffer) not in written:
            values[buffer] = values.get(buffer, frozenset()) | {n}
    return values


def concat_operand_groups(
    group: Group, views: dict[Node, BufferView]
) -> Iterator[tuple[Group, Mapping[Node, BufferView]]]:
    """Each operand of a split concat as a group of its own, which writes to its slice of the
    result."""
    (concat,) = group.members
    for operand, offset in placements_of(concat):
        copy = Node("alias", (operand,), {}, operand.type, concat.site)
        inside, outside = (offset, 0) if is_dynamic(offset) else (0, offset)
        group = Group("pointwise", operand.type.shape, None, [copy], group.reads,
                      layout=concat.type.shape, offset=inside)
        target = BufferView(views[concat].buffer, views[concat].offset + outside)
        yield group, ChainMap({copy: target}, views)
