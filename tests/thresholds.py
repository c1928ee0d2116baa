"""Lowers the size thresholds of the code, so that small arrays take every path, and makes inputs of
every layout and size.

Compiled code and native eager ops use sizes of arrays to choose threads, chunks of sums, cached
rows, and streaming stores. Each such threshold is a constant of a module. `LOWERED` has a small
value for each, so that arrays of some hundred elements lie on both sides of all of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.capture.runtime.specialization_cache import Specializations, costlier_after
from fusewire.codegen.eager_jit import op_compiler, vjp
from fusewire.eager.settings import settings

Array = Any
Inputs = Sequence[Array]

ELEMENTS = ("eager.core.dispatch", "eager.ops.layers.entropy", "eager.nn.functional.attention",
            "codegen.partition.partition")
"""Modules that read `LARGE`, the number of elements from which on eager ops are native code."""

LOWERED: dict[str, dict[str, int]] = {
    **{module: {"LARGE": 1} for module in ELEMENTS},
    "eager.autograd.engine": {"MIN_NATIVE_ELEMENTS": 1},
    "eager.arrays.memory": {"SMALLEST": 64},  # bytes from which on results are aligned
    "codegen.eager_jit.exact": {"MIN_NUMPY_NANOSECONDS": 0},
    "codegen.eager_jit.op_compiler": {
        "_BLOCK_ELEMENTS": 8,
        "_REDUCTION_ROW_ELEMENTS": 3,
        "_MIN_REDUCTION_ROWS": 3,
    },
    "codegen.eager_jit.rnn": {"_MIN_MULTIPLICATIONS": 1},
    "codegen.cpu.loop_nest": {"MIN_ELEMENTS_PER_TASK": 8, "_MIN_TASK_NS": 1},
    "codegen.cpu.lower": {"MIN_ELEMENTS_PER_TASK": 8, "_MAX_ROWS_WITH_CACHED_SUMS": 16,
                          "_MAX_REDUCTION_CHUNK": 8},
    "codegen.cpu.loop_body": {"_MAX_CACHED_ROW_ELEMENTS": 4},
    "codegen.fusion.fusion": {
        "_LARGE_ARRAY_ELEMENTS": 16,
        "_MIN_ROWS_TO_OUTER_REDUCE": 2,
        "_MAX_ROW_TO_OUTER_REDUCE": 16,
    },
    "codegen.fusion.concat_splitting": {"_MIN_ELEMENTS": 1},
    "codegen.cpu.long_columns": {
        "_PAGE_BYTES": 16,
        "_LEAST_ROWS": 4,
        "MIN_ELEMENTS_PER_TASK": 8,
    },
    "codegen.cpu.nontemporal": {"_MIN_STREAMED_BYTES": 64},
    "codegen.cpu.prefetch": {"_MAX_CACHED_BYTES": 16},
    "codegen.cpu.scatter_rows": {"_MIN_ELEMENTS_PER_TASK": 8},
    "codegen.cpu.axis_scatter": {"_MIN_ELEMENTS_PER_TASK": 8},
    "codegen.cpu.grouped_product": {"_MIN_CODES_PER_TASK": 64},
    "codegen.cpu.max_pool_grad": {"_MIN_ELEMENTS_PER_TASK": 8},
    "codegen.cpu.transposed_rows": {"_MAX_BLOCK_BYTES": 1 << 11},
    "codegen.cpu.window_sums": {"_MAX_BAND_BYTES": 64},
    "codegen.cpu.scan": {"_MIN_ELEMENTS_PER_TASK": 8},
    "codegen.cpu.argsort": {
        "_COMPARED_NS": 1e6,
        "_SELECTED_NS": 1e6,
        "_MIN_ELEMENTS_PER_TASK": 8,
        "_MAX_SCRATCH_BYTES": 64,
    },
    "codegen.control_vm.native_control": {"_MAX_COPY_BYTES": 16},
    "codegen.cpu.gemm.plan": {
        "_MAX_COLUMNS_PER_BLOCK": 16,
        "_MAX_DEPTH_PER_BLOCK": 4,
        "_MAX_ROWS_TO_PREPACK": 8,
    },
    "codegen.cpu.winograd.select": {
        "_MIN_CHANNELS": 1,
        "_MIN_TILES": 1,
        "_MIN_MULTIPLICATION_RATIO": 0,
    },
    "codegen.cpu.attention.forward": {"_MIN_QUERIES_PER_BLOCK": 4},
    "codegen.cpu.attention.backward": {"_MAX_QUERIES_PER_BLOCK": 4, "_MAX_POWERS_PER_BLOCK": 64},
    "codegen.llvm.step_table": {"PARALLEL_NANOSECONDS": 0},
    "codegen.runtime.thread_pool": {"WAKE_NANOSECONDS": 1},
}
"""The thresholds in tests, by module and name."""


def lower(patch: pytest.MonkeyPatch, elements: int = 1) -> None:
    """Sets all thresholds of `LOWERED`, and `elements` as the least elements of native ops. Hides
    compiled programs of other tests until `patch` is undone."""
    for module, values in LOWERED.items():
        for name, value in values.items():
            value = elements if name == "LARGE" and module in ELEMENTS else value
            patch.setattr(importlib.import_module(f"fusewire.{module}"), name, value)
    for module, name in ((op_compiler, "_PROGRAMS"), (op_compiler, "_CALLS"), (vjp, "_ELEMENTS"),
                         (vjp, "_PLANS"), (vjp, "_SHAPED")):
        patch.setattr(module, name, fresh_cache(getattr(module, name).name))


def fresh_cache(name: str, free: int = 1 << 20) -> Specializations[Any]:
    """An empty cache that makes the first `free` values of a group for any work."""
    cache: Specializations[Any] = Specializations(name)
    cache.policy = cache.policy._replace(least_work=costlier_after(free))
    return cache


def by_numpy(patch: pytest.MonkeyPatch, call: Callable[..., Any], *args: Any) -> Any:
    """The result of `call(*args)` without compiled code, or its error."""
    with patch.context() as inner:
        inner.setattr(settings, "compile", False)
        try:
            return call(*args)
        except fw.FusewireError as error:
            return error


# ---- layouts: equal values in other memory
def _plain(a: Array) -> Array:
    return a


def _transposed(a: Array) -> Array:
    return np.asfortranarray(a)


def _reversed(a: Array) -> Array:
    step = (slice(None, None, -1),) * a.ndim
    return np.ascontiguousarray(a[step])[step] if a.ndim else a


def _sliced(a: Array) -> Array:
    padded = np.zeros([2 * n + 1 for n in a.shape], a.dtype)
    step = (slice(1, None, 2),) * a.ndim
    padded[step] = a
    return padded[step] if a.ndim else a


def _unaligned(a: Array) -> Array:
    buffer = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    buffer[...] = a
    return buffer


# ---- broadcast values: one element or one row everywhere
def _one(a: Array) -> Array:
    return np.broadcast_to(a[(slice(1),) * a.ndim], a.shape) if a.size else a


def _first_row(a: Array) -> Array:
    return np.broadcast_to(a[:1], a.shape) if a.ndim and a.size else a


def _first_column(a: Array) -> Array:
    return np.broadcast_to(a[..., :1], a.shape) if a.ndim and a.size else a


LAYOUTS = (_plain, _transposed, _reversed, _sliced, _unaligned, _one, _first_row, _first_column)


def laid_out(inputs: Inputs) -> Iterator[tuple[str, list[Array]]]:
    """The inputs, all in each layout; and with only one of them in each broadcast layout."""
    for layout in LAYOUTS:
        yield layout.__name__, [layout(a) for a in inputs]
        if layout in LAYOUTS[5:] and len(inputs) > 1:
            for number in range(len(inputs)):
                changed = [layout(a) if i == number else a for i, a in enumerate(inputs)]
                yield f"{layout.__name__} of input {number}", changed


# ---- sizes
def resized(inputs: Inputs, sizes: Sequence[int] = (1, 37)) -> Iterator[tuple[str, list[Array]]]:
    """The inputs with each of their sizes changed to each of `sizes`, in all inputs at once."""
    for old in sorted({n for a in inputs for n in a.shape if n}):
        for new in sizes:
            if new != old:
                yield f"{old} -> {new}", [repeated(a, old, new) for a in inputs]


def repeated(a: Array, old: int, new: int) -> Array:
    """`a` with axes of `old` elements extended or cut to `new` ones; values repeat."""
    for axis, size in enumerate(a.shape):
        if size == old:
            a = a.take(np.arange(new) % old, axis)
    return a
