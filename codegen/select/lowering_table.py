"""Groups -> kernels on buffers. Groups of one form are lowered once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...capture.graph.graph import Node
from ...capture.passes.decompose import decomposition_of
from ..cpu.argsort import lower_sort
from ..cpu.attention.select import attention_kernels, has_kernel
from ..cpu.gemm.lower import lower_contract
from ..cpu.loop_nest import lower
from ..cpu.scan import lower_scan
from ..cpu.scatter_rows import lower_scatter_rows
from ..cpu.winograd.select import winograd_kernels
from ..fusion.fusion import Group
from ..fusion.kernel_key import BufferView, KernelKey, kernel_key_of, shifted
from ..fusion.launch import Launch
from ..ir.loop_ir import Buffer, Kernel
from ..ir.target_info import Machine
from ..outline.concat_placement import placements_of

Packed = dict[Any, dict[Buffer, BufferView]]  # memory, by what is packed there

Lower = Callable[..., list[Kernel]]  # lower(group, buffers, machine, name)


def _contract(group: Group, buffers: dict[Node, Buffer], machine: Machine, name: str,
              kept: Collection[Buffer] = ()) -> list[Kernel]:
    tiled = winograd_kernels(group, buffers, machine, name, kept)
    return lower_contract(group, buffers, machine, name, kept) if tiled is None else tiled


@dataclass(frozen=True, eq=False)
class LoweringTable:
    """How a group of each kind becomes kernels; `contract` is told what is kept, too. Whether a
    composite has kernels, as a group of its own: it is opened if not. How opaque ops become
    kernels, by their names; and whether others are opened, where it is known how: they are calls
    of a library if not."""

    lower: Mapping[str, Lower]
    has_kernel: Callable[[Node, Machine], bool]
    opaque: Mapping[str, Lower] = field(default_factory=dict)
    opens_calls: bool = False

    def runs(self, call: Node) -> bool:
        """Whether an opaque node becomes kernels."""
        return call.op in self.opaque or (self.opens_calls and decomposition_of(call) is not None)

    def of(self, group: Group) -> Lower:
        """How a group becomes kernels."""
        (node, *_) = group.members
        return self.opaque[node.op] if group.kind == "opaque" else self.lower[group.kind]


CPU = LoweringTable({
    "rows": lower, "columns": lower, "contract": _contract, "scan": lower_scan, "sort": lower_sort,
    "put": lower_scatter_rows, "composite": attention_kernels,
}, has_kernel)


@dataclass(frozen=True)
class _LoweredKernels:
    """The kernels of a form, and which of their buffers stand for its places."""

    kernels: list[Kernel]
    numbers: Mapping[Buffer, int]

    def launches(self, places: list[BufferView], values: Mapping[Buffer, frozenset[Node]],
                 packed: Packed) -> list[Launch]:
        """The kernels on these places. What only they use is new each time, but for what one of
        them makes of nothing but the same `values` as before: that is among `packed`."""
        own: dict[Buffer, BufferView] = {}
        out = []
        for kernel in self.kernels:
            new = {b: BufferView(Buffer(b.name, b.dtype, b.size)) for b in kernel.arguments
                   if b not in self.numbers and b not in own}
            if self._packs(kernel, new):
                read = [places[self.numbers[b]] for b in kernel.inputs]
                key = kernel, *[(p, values.get(p.buffer)) for p in read]
                if key in packed and all(p.buffer in values for p in read):
                    own |= packed[key]
                    continue
                packed[key] = new
            own |= new
            found = [places[self.numbers[b]] if b in self.numbers else own[b]
                     for b in kernel.arguments]
            out.append(Launch(kernel, tuple(found)))
        return out

    def _packs(self, kernel: Kernel, new: Collection[Buffer]) -> bool:
        """Whether a kernel only reads operands, and writes what no other of these kernels does."""
        return all(b in self.numbers for b in kernel.inputs) and set(kernel.outputs) == {*new} \
            and all(sum(b in k.outputs for k in self.kernels) == 1 for b in new)


class KernelCache:
    """Makes kernels of groups. Those of a form that was met before are made of its kernels."""

    def __init__(self, machine: Machine, kinds: LoweringTable = CPU) -> None:
        self.machine, self.kinds = machine, kinds
        self._made: dict[Any, _LoweredKernels] = {}

    def launches(self, group: Group, buffers: Mapping[Node, Buffer], name: str,
                 kept: Collection[Buffer], packed: Packed) -> list[Launch]:
        """The kernels of a group whose values lie in `buffers`, in order, but for those that pack
        what was `packed` for a group of the same plan before. What is made of `kept` alone is
        mostly there already."""
        places = {n: BufferView(buffers[n]) for n in (*group.reads, *group.members) if n in buffers}
        if group.kind != "pieces":
            return self._launches(group, places, name, kept, packed)
        return [launch for piece, place in pieces(group, places)
                for launch in self._launches(piece, place, name, kept, packed)]

    def _launches(self, group: Group, places: Mapping[Node, BufferView], name: str,
                  kept: Collection[Buffer], packed: Packed) -> list[Launch]:
        form = kernel_key_of(group, places)
        packs = group.kind == "contract"  # others do not look at what is kept
        key = form.key, tuple([p.buffer in kept for p in form.places]) if packs else ()
        if key not in self._made:
            self._made[key] = self._lower(group, places, form, name, kept)
        return self._made[key].launches(form.places, _values(group, places), packed)

    def _lower(self, group: Group, places: Mapping[Node, BufferView], form: KernelKey, name: str,
               kept: Collection[Buffer]) -> _LoweredKernels:
        numbers = {p.buffer: i for i, p in enumerate(form.places)}
        moved, new = shifted(group, places, form.shifts)
        values = [n for n in (*group.reads, *group.members) if n in places]
        buffers = {new.get(n, n): places[n].buffer for n in values}
        more = (kept,) if group.kind == "contract" else ()
        return _LoweredKernels(self.kinds.of(group)(moved, buffers, self.machine, name, *more),
                               numbers)


def _values(group: Group, places: Mapping[Node, BufferView]) -> dict[Buffer, frozenset[Node]]:
    """What lies in each buffer that a group reads and does not write."""
    written = {places[n].buffer for n in group.members if n in places}
    found: dict[Buffer, frozenset[Node]] = {}
    for n in group.reads:
        if n in places and (buffer := places[n].buffer) not in written:
            found[buffer] = found.get(buffer, frozenset()) | {n}
    return found


def pieces(
    group: Group, places: dict[Node, BufferView]
) -> Iterator[tuple[Group, Mapping[Node, BufferView]]]:
    """Each piece of a concat as a group of its own that writes to its part of the whole."""
    (whole,) = group.members
    for piece, at in placements_of(whole):
        copy = Node("alias", (piece,), {}, piece.type, whole.site)
        own = Group("rows", piece.type.shape, None, [copy], group.reads, layout=whole.type.shape)
        to = BufferView(places[whole].buffer, places[whole].offset + at)
        yield own, ChainMap({copy: to}, places)
