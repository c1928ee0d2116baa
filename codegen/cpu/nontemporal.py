"""Selects non-temporal stores for large results that no kernel reads soon.

A store to a line that is in no cache fetches the line first, so that writing 32 MiB moves 64 MiB. A
non-temporal store of whole lines does not. Data that would still be in a cache when it is read is
better left there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...eager.arrays.memory import LINE  # results of this size begin on a line
from ..fusion.kernel_key import BufferView
from ..fusion.launch import Launch
from ..ir import loop_ir
from ..ir.loop_ir import Kernel, KernelBuffer, Store

# little of such an array is in a cache when its last element is written
_MIN_STREAMED_BYTES = 1 << 24


def use_nontemporal_stores(launches: Sequence[Launch],
                           results: Collection[KernelBuffer]) -> list[Launch]:
    """The launches, with non-temporal stores to the large `results` that no launch reads."""
    read = {p.buffer for x in launches for b, p in zip(x.kernel.arguments, x.views)
            if b in x.kernel.inputs}
    streamed = {b for b in results if b not in read and b.dtype.kind != "V"
                and b.size * b.dtype.itemsize >= _MIN_STREAMED_BYTES}
    return [_with_streamed(x, streamed) for x in launches] if streamed else list(launches)


def _with_streamed(launch: Launch, results: Collection[KernelBuffer]) -> Launch:
    kernel = launch.kernel
    streamed = {b for b, p in zip(kernel.arguments, launch.views)
                if p.buffer in results and _begins_line(p) and _written_once(kernel, b)}
    return replace(launch,
                   kernel=replace(kernel, streamed=frozenset(streamed))) if streamed else launch


def _begins_line(view: BufferView) -> bool:
    return view.offset * view.buffer.dtype.itemsize % LINE == 0


def _written_once(kernel: Kernel, buffer: KernelBuffer) -> bool:
    """True if exactly one statement stores to the buffer."""
    stores = [s for s in loop_ir.walk(kernel.body) if isinstance(s, (Store, loop_ir.Transpose))]
    return [isinstance(s, Store) for s in stores if s.buffer is buffer] == [True]
