"""Kernels by hand give the same results as CUDA C in the emulator and in `interpret`, and the text
of some main kernels is kept beside: `pytest --update-golden` writes it anew."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import program_of
from emulated import run_kernels
from loop_kernels import (
    ARITY,
    BOOL,
    DTYPES,
    F32,
    F64,
    INTS,
    REDUCTIONS,
    TASK,
    accepts,
    add,
    compare_all,
    kernel,
    loop,
    one_op,
    reduction,
    result_of,
    same,
    tile,
    times,
)
from oracle import recorded

import fusewire as fw
from emulator.emulator import AVAILABLE
from fusewire.codegen.cuda import scalar
from fusewire.codegen.cuda.module import module_of
from fusewire.codegen.cuda.prelude import PRELUDE
from fusewire.codegen.gpu.thread_mapping import thread_mapping_of
from fusewire.codegen.ir.loop_ir import (
    INT,
    Assign,
    For,
    If,
    Kernel,
    KernelBuffer,
    Register,
    Store,
    Transpose,
    Update,
    Var,
    call,
    const,
    load,
    read,
)
from fusewire.codegen.ir.loop_ir_interpreter import run
from fusewire.codegen.ir.scalar_ops import SCALAR, TRANSCENDENTAL

runs = pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")
in_all_orders = pytest.mark.parametrize("order", [0, 1, 5])

SMALL = [fw.float16, fw.bfloat16]
INEXACT = {*TRANSCENDENTAL, "pow"}


def check_all(kernels: list[Kernel], order: int = 0, rtol: float = 0.0, given: Any = None) -> None:
    """Compares every array with the interpreter's."""
    compare_all(kernels, functools.partial(run_kernels, order=order), rtol=rtol, given=given)


def numbers(buffers: Any, dtype: Any, seed: int = 0) -> dict[KernelBuffer, Any]:
    rng = np.random.default_rng(seed)
    return {b: (rng.standard_normal(b.size) * 3).astype(dtype) for b in buffers}


# ---- operations


def test_every_operation_has_a_row() -> None:
    assert scalar.SCALAR.keys() == SCALAR.keys()


@runs
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_exact_operation(dtype: Any) -> None:
    check_all([one_op(op, [dtype] * ARITY[op], result_of(op, dtype), 32)
               for op in sorted(SCALAR.keys() - INEXACT) if accepts(op, dtype)])


@runs
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_functions(dtype: Any) -> None:
    check_all([one_op(op, [dtype] * ARITY[op], dtype, 32) for op in sorted(INEXACT)],
              rtol=1e-5 if dtype == F32 else 1e-13)


@runs
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_operations_on_floats_of_16_bits(dtype: Any) -> None:
    """Computed in float32, as NumPy does, and rounded where NumPy rounds: bit for bit."""
    ops = [op for op in sorted(SCALAR.keys() - INEXACT) if accepts(op, F32) and op != "bits"]
    kernels = [one_op(op, [np.dtype(dtype)] * ARITY[op], result_of(op, np.dtype(dtype)), 32)
               for op in ops]
    check_all(kernels, given=numbers([b for k in kernels for b in k.arguments if b.dtype == dtype],
                                     dtype))


@runs
def test_casts_between_all_dtypes() -> None:
    """What a float has no integer for is left open, so floats are small and positive here."""
    dtypes = [*DTYPES, *map(np.dtype, SMALL)]
    kernels = [one_op("cast", [source], to, 32) for source in dtypes for to in dtypes]
    rng, given = np.random.default_rng(1), {}
    for x, y in ((k.inputs[0], k.outputs[0]) for k in kernels):
        if x.dtype.kind not in "biu":
            given[x] = (rng.random(27) * 100).astype(x.dtype)
        if y.dtype in SMALL:
            given[y] = np.zeros(27, y.dtype)
    check_all(kernels, given=given)


# ---- lanes


@runs
@in_all_orders
def test_lane_loops_of_any_length(order: int) -> None:
    kernels = []
    for size in (0, 1, 3, 31, 32, 33, 63, 64, 65, 300):
        for lanes in (8, 32, 64, 1024):
            x, y, j = KernelBuffer("x", F32, size + 3), KernelBuffer("y", F32, size + 3), Var("j")
            value = call("add", (load(x, j), const(1.5, F32)), F32)
            kernels.append(kernel([x], [y], [loop(j, size + 3, Store(y, j, value), lanes=lanes,
                                                  start=3)]))
    check_all(kernels, order)


@runs
@in_all_orders
@pytest.mark.parametrize("dtype", [BOOL, INTS[0], INTS[3], INTS[6], F32, F64], ids=str)
def test_reductions_over_lanes(dtype: Any, order: int) -> None:
    """By one warp, and by several."""
    kernels = [reduction(op, dtype, size, 1, masked, lanes)
               for op in (*REDUCTIONS, "and", "or") if accepts(op, dtype)
               for size, masked, lanes in [(7, False, 8), (67, True, 32), (0, False, 32),
                                           (300, True, 64), (1100, False, 1024)]]
    check_all(kernels, order, rtol=1e-3 if dtype == F32 else 1e-9)


@runs
def test_reductions_let_nan_win_and_sums_keep_minus_zero() -> None:
    x, y, j, r = KernelBuffer("x", F32, 70), KernelBuffer("y", F32, 1), Var("j"), Register("r", F32)
    for op, fill, start, wanted in [
        ("maximum", [1, np.nan, 3], -np.inf, np.nan),
        ("minimum", [1, 2, np.nan], np.inf, np.nan),
        ("add", [-0.0, -0.0, -0.0], -0.0, -0.0),
    ]:
        body = [Assign(r, const(start, F32)), loop(j, 70, Update(r, op, load(x, j)), lanes=64),
                Store(y, const(0), read(r))]
        memory = {x: np.resize(np.array(fill, F32), 70), y: np.ones(1, F32)}
        run_kernels([kernel([x], [y], body)], [memory])
        same(memory[y], np.array([wanted], F32), 0, op)


@runs
@in_all_orders
def test_registers_of_lanes_live_through_serial_loops(order: int) -> None:
    rng = np.random.default_rng(3)
    kernels, given = [], {}
    for rows, columns, depth, lanes, known in [(3, 32, 7, 32, True), (2, 21, 9, 64, True),
                                               (4, 32, 8, 16, False), (1, 19, 1, 32, False)]:
        k, sizes = tile(rows, columns, depth, lanes, 4, known)
        kernels.append(k)
        given |= sizes | {b: rng.random(b.size, F32) for b in k.inputs[:2]}
    check_all(kernels, order, rtol=1e-5, given=given)


@runs
@pytest.mark.parametrize("size", [0, 2, 40, 77])
def test_bounds_that_are_known_at_run_time_only(size: int) -> None:
    x, y = KernelBuffer("x", F32, 80), KernelBuffer("y", F32, 80)
    n, total = KernelBuffer("n", INT, 2), KernelBuffer("total", F64, 1)
    i, j, r = Var("i"), Var("j"), Register("r", F64)
    low, high = load(n, const(0)), load(n, const(1))
    body = [
        Assign(r, const(0, F64)),
        For(j, low, high, (Store(y, j, load(x, j)),
                           Update(r, "add", call("cast", (load(x, j),), F64))), 32),
        For(i, low, high, (Update(r, "maximum", call("cast", (i,), F64)),), 0, 3),
        Store(total, const(0), read(r)),
    ]
    k = kernel([x, n], [y, total], body)
    check_all([k], given={n: np.array([3, size]), x: np.ones(80, F32)})


@runs
def test_what_must_not_be_loaded_is_not_touched() -> None:
    """Far away there is no memory: by masks and by branches, for one element or for each lane."""
    x, y = KernelBuffer("x", F32, 4), KernelBuffer("y", F32, 32)
    no, j = KernelBuffer("no", BOOL, 32), Var("j")
    few, none = call("lt", (j, const(4)), BOOL), load(no, const(0))
    cases = [(j, few), (times(j, 1 << 40), call("lt", (j, const(1)), BOOL))]
    cases += [(const(1 << 45), mask) for mask in (load(no, j), none, const(False, BOOL))]
    kernels = []
    for index, mask in cases:
        masked = Store(y, j, load(x, index, mask, const(7, F32)))
        inside = If(mask, (Store(y, j, load(x, index)),))
        nested = If(mask, (loop(Var("k"), 2, Store(y, j, load(x, index))),))
        bodies = [masked, inside, nested]
        kernels += [kernel([x, no], [y], [loop(j, 30, s, lanes=n)]) for s in bodies for n in (0, 8)]
    check_all(kernels, given={b: np.zeros(b.size, b.dtype) for b in (x, y, no)})


# ---- memory


def reversed_rows(size: int, tasks: int = 3) -> tuple[Kernel, KernelBuffer]:
    """Each row is written to scratch, and read from there by other lanes."""
    x, s = KernelBuffer("x", F32, tasks * size), KernelBuffer("s", F32, size, scratch=True)
    i, j = Var("i"), Var("j")
    here = add(times(TASK, size), j)
    other = load(s, call("sub", (const(size - 1), j), INT))
    body = [loop(i, size, Store(s, i, load(x, add(times(TASK, size), i))), lanes=32),
            loop(j, size, Store(x, here, call("add", (load(x, here), other), F32)), lanes=32)]
    return kernel([x], [x], body, tasks=tasks, scratch=[s]), s


def own_elements(size: int) -> tuple[Kernel, KernelBuffer]:
    """Each lane writes an element of scratch, and reads it again."""
    x, s = KernelBuffer("x", F32, size), KernelBuffer("s", F32, size, scratch=True)
    i, j = Var("i"), Var("j")
    body = [loop(i, size, Store(s, i, load(x, i)), lanes=size),
            loop(j, size, Store(x, j, call("neg", (load(s, j),), F32)), lanes=size)]
    return kernel([x], [x], body, scratch=[s]), s


@runs
@in_all_orders
@pytest.mark.parametrize(("made", "place"), [
    (own_elements(64), "thread_local"), (reversed_rows(60), "shared"),
    (reversed_rows(13_000), "device"),
], ids=["own", "shared", "device"])
def test_scratch_lies_in_three_places(made: tuple[Kernel, KernelBuffer], place: str,
                                      order: int) -> None:
    k, scratch = made
    assert scratch in getattr(thread_mapping_of(k), place)
    check_all([k], order)


@runs
@in_all_orders
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_blocks_are_turned(rows: int, order: int) -> None:
    x, y = KernelBuffer("x", F32, 200), KernelBuffer("y", F32, 200)
    turned = Transpose(y, times(TASK, 64), 8, x, add(times(TASK, 80), const(3)), 9, 8, rows)
    check_all([kernel([x], [y], [turned], tasks=2)], order)


@runs
def test_a_store_is_seen_by_loads_behind_it() -> None:
    """Loads are remembered, but not across a store to their buffer."""
    x, y, i = KernelBuffer("x", F32, 8), KernelBuffer("y", F32, 8), Var("i")
    one = call("add", (load(x, const(0)), const(1, F32)), F32)
    body = [
        Store(y, const(0), load(x, const(0))),
        loop(i, 5, Store(x, const(0), one), Store(y, i, load(x, const(0))), unroll=2),
        Store(y, const(7), load(x, const(0))),
    ]
    check_all([kernel([x], [x, y], body)], given={x: np.zeros(8, F32)})


@runs
@pytest.mark.parametrize("dtype", [BOOL, np.dtype("int16"), F32, F64, *map(np.dtype, SMALL)],
                         ids=str)
@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_neighbours_are_moved_as_one_vector(dtype: Any, count: int) -> None:
    """And those that begin in between are not."""
    x, y = KernelBuffer("x", dtype, 12 * count), KernelBuffer("y", dtype, 12 * count)
    kernels = []
    for first in (0, 1):
        j, n = Var("j"), Var("n")
        at = add(times(j, count), n)
        store = Store(y, at, load(x, add(at, const(first))))
        kernels.append(kernel([x], [y], [loop(j, 11, loop(n, count, store, unroll=count),
                                              lanes=32)]))
    memory = [{b: np.arange(b.size).astype(dtype) for b in (x, y)} for _ in kernels]
    wanted = [{b: a.copy() for b, a in own.items()} for own in memory]
    for k, own in zip(kernels, wanted):
        run(k, own)
    source = run_kernels(kernels, memory)
    for got, own in zip(memory, wanted):
        np.testing.assert_array_equal(got[y], own[y])
    loads = source[len(PRELUDE):].count(f"fw_move<{count * dtype.itemsize}>(vector")
    assert loads == 1


def test_an_expression_may_be_deep() -> None:
    x, y, j = KernelBuffer("x", F32, 20), KernelBuffer("y", F32, 20), Var("j")
    value: Any = load(x, j)
    for n in range(1500):
        value = call("sub", (const(n % 3, F32), value), F32)
    k = kernel([x], [y], [loop(j, 20, Store(y, j, value), lanes=16)])
    assert module_of([("k", [k])], {k: frozenset()}).source.count("\n") > 300


# ---- the text of main kernels


def ones(*shape: int, dtype: Any = fw.float32) -> fw.Tensor:
    return fw.ones(shape, dtype=dtype)


def layer_norm(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
    return fw.nn.functional.layer_norm(x, (130,), w, b)


GOLDEN: dict[str, tuple[Callable[..., Any], ...]] = {
    "bias_relu": (lambda x, b: fw.relu(x + b), lambda: (ones(64, 96), ones(96))),
    "half_exp": (lambda x: fw.exp(x), lambda: (ones(33, 6, dtype=fw.float16),)),
    "softmax": (lambda x: fw.softmax(x, -1), lambda: (ones(64, 101),)),
    "softmax_of_long_rows": (lambda x: fw.softmax(x, -1), lambda: (ones(10, 3001),)),
    "layer_norm": (layer_norm, lambda: (ones(64, 130), ones(130), ones(130))),
    "column_sums": (lambda x: x.sum(0), lambda: (ones(100, 500),)),
    "column_sums_cut": (lambda x: x.sum(0), lambda: (ones(3000, 40),)),
    "sum_cut": (lambda x: x.sum(), lambda: (ones(99_999),)),
    "product": (lambda a, b: fw.relu(a @ b), lambda: (ones(16, 40), ones(40, 16))),
    "cumulative_sum": (lambda x: fw.cumsum(x, -1), lambda: (ones(1, 100),)),
    "transposed": (lambda x: x.T + 1, lambda: (ones(65, 127),)),
    "max_pool": (lambda x: fw.nn.functional.max_pool2d(x, 2), lambda: (ones(2, 3, 16, 16),)),
    "embedding": (lambda w, i: fw.nn.functional.embedding(i, w),
                  lambda: (ones(50, 17), fw.arange(7))),
    "three_at_once": (lambda x, y, z: (x * 2, y * 2, z + 1),
                      lambda: (ones(600), ones(600), ones(7))),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_source_of_kernels(name: str, golden: Callable[..., None]) -> None:
    fn, given = GOLDEN[name]
    graph, _ = recorded(fn, *given())
    source = program_of(graph, checks=False).module.source
    golden(name, source.removeprefix(PRELUDE.strip()).lstrip(), "cu")
