"""Groups -> kernels on buffers. Groups of one form are lowered once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..capture.graph import Node
from .contract import lower_contract
from .forms import Form, Place, form_of, shifted
from .fuse import Group
from .loops import Buffer, Kernel
from .lower import lower
from .machine import Machine
from .scan import lower_scan
from .winograd.choice import winograd_kernels


@dataclass(frozen=True)
class Launch:
    """A kernel and where each of its arguments lies."""

    kernel: Kernel
    places: tuple[Place, ...]


@dataclass(frozen=True)
class _Lowered:
    """The kernels of a form, and which of their buffers stand for its places."""

    kernels: list[Kernel]
    numbers: Mapping[Buffer, int]

    def launches(self, places: list[Place]) -> list[Launch]:
        """The kernels on these places; what only they use is new each time."""
        own: dict[Buffer, Place] = {}
        out = []
        for kernel in self.kernels:
            for b in kernel.arguments:
                if b not in self.numbers and b not in own:
                    own[b] = Place(Buffer(b.name, b.dtype, b.size))
            found = [places[self.numbers[b]] if b in self.numbers else own[b]
                     for b in kernel.arguments]
            out.append(Launch(kernel, tuple(found)))
        return out


class Lowering:
    """Makes kernels of groups. Those of a form that was met before are made of its kernels."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._made: dict[Any, _Lowered] = {}

    def launches(self, group: Group, buffers: Mapping[Node, Buffer], name: str,
                 kept: Collection[Buffer] = ()) -> list[Launch]:
        """The kernels of a group whose values lie in `buffers`, in order. What is made of `kept`
        alone need not be made in every call."""
        places = {n: Place(buffers[n]) for n in (*group.reads, *group.members) if n in buffers}
        if group.kind != "pieces":
            return self._launches(group, places, name, kept)
        return [launch for piece, place in pieces(group, places)
                for launch in self._launches(piece, place, name, kept)]

    def _launches(self, group: Group, places: Mapping[Node, Place], name: str,
                  kept: Collection[Buffer]) -> list[Launch]:
        form = form_of(group, places)
        key = form.key, tuple([p.buffer in kept for p in form.places])
        if key not in self._made:
            self._made[key] = self._lower(group, places, form, name, kept)
        return self._made[key].launches(form.places)

    def _lower(self, group: Group, places: Mapping[Node, Place], form: Form, name: str,
               kept: Collection[Buffer]) -> _Lowered:
        numbers = {p.buffer: i for i, p in enumerate(form.places)}
        moved, new = shifted(group, places, form.shifts)
        values = [n for n in (*group.reads, *group.members) if n in places]
        buffers = {new.get(n, n): places[n].buffer for n in values}
        if group.kind == "scan":
            return _Lowered(lower_scan(moved, buffers, self.machine, name), numbers)
        tiled = winograd_kernels(moved, buffers, self.machine, name)
        if tiled is not None:
            return _Lowered(tiled, numbers)
        if group.kind == "contract":
            return _Lowered(lower_contract(moved, buffers, self.machine, name, kept), numbers)
        return _Lowered(lower(moved, buffers, self.machine, name), numbers)


def pieces(
    group: Group, places: dict[Node, Place]
) -> Iterator[tuple[Group, Mapping[Node, Place]]]:
    """Each piece of a concat as a group of its own that writes to its part of the whole."""
    (whole,) = group.members
    shape, axis = whole.type.shape, whole.params["axis"]
    step = 1
    for n in shape[axis + 1:]:
        step *= n
    at = places[whole].offset
    for piece in whole.inputs:
        copy = Node("alias", (piece,), {}, piece.type, whole.site)
        own = Group("rows", piece.type.shape, None, [copy], group.reads, layout=shape)
        yield own, ChainMap({copy: Place(places[whole].buffer, at)}, places)
        at += piece.type.shape[axis] * step
