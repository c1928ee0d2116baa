"""Large results that are written past the caches: what nobody reads soon is not kept in them.

A store to a line that is in no cache fetches the line first, so that writing 32 MiB moves 64. A
store past the caches does not, where it fills whole lines. What would still lie in a cache when it
is read is better left there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...eager.arrays.memory import LINE  # on which results of this size begin
from ..fusion.kernel_key import BufferView
from ..fusion.launch import Launch
from ..ir import loop_ir
from ..ir.loop_ir import Buffer, Kernel, Store

_LARGE = 1 << 24  # bytes, of which little is left in a cache when its last element is written


def use_nontemporal_stores(launches: Sequence[Launch], results: Collection[Buffer]) -> list[Launch]:
    """The launches, with kernels that write those of the `results` past the caches which are large
    and which no launch reads."""
    read = {p.buffer for x in launches for b, p in zip(x.kernel.arguments, x.places)
            if b in x.kernel.inputs}
    wanted = {b for b in results if b not in read and b.dtype.kind != "V"
              and b.size * b.dtype.itemsize >= _LARGE}
    return [_streaming(x, wanted) for x in launches] if wanted else list(launches)


def _streaming(launch: Launch, wanted: Collection[Buffer]) -> Launch:
    kernel = launch.kernel
    found = {b for b, p in zip(kernel.arguments, launch.places)
             if p.buffer in wanted and _begins_line(p) and _written_once(kernel, b)}
    return replace(launch, kernel=replace(kernel, streamed=frozenset(found))) if found else launch


def _begins_line(place: BufferView) -> bool:
    return place.offset * place.buffer.dtype.itemsize % LINE == 0


def _written_once(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether one statement alone stores to the buffer."""
    stores = [s for s in loop_ir.walk(kernel.body) if isinstance(s, (Store, loop_ir.Transpose))]
    return [isinstance(s, Store) for s in stores if s.buffer is buffer] == [True]
