"""Kernels by hand give the same results as LLVM code and in `interpret`."""

import numpy as np
import pytest
from loop_kernels import (
    ARITY,
    BOOL,
    DTYPES,
    F32,
    F64,
    INTS,
    REDUCTIONS,
    TARGETS,
    TASK,
    accepts,
    add,
    check_all,
    kernel,
    loop,
    one_op,
    reduction,
    result_of,
    tile,
    times,
)

from fusewire.codegen.ir.loop_ir import (
    INT,
    Assign,
    For,
    If,
    KernelBuffer,
    Register,
    Store,
    Update,
    Var,
    call,
    const,
    load,
    read,
)
from fusewire.codegen.ir.scalar_ops import SCALAR, TRANSCENDENTAL
from fusewire.codegen.llvm import scalar as llvm_scalar
from fusewire.codegen.program.native_program import Argument, ProgramStep, build
from fusewire.codegen.runtime.target import named

# Operations


def test_every_operation_has_a_row():
    assert llvm_scalar.SCALAR.keys() == SCALAR.keys()


@pytest.mark.parametrize("target", TARGETS)
def test_every_exact_operation_on_every_dtype(target):
    inexact = {*TRANSCENDENTAL, "pow"}
    kernels = []
    for op in sorted(SCALAR.keys() - inexact):
        for dtype in DTYPES[::3] if target else DTYPES:
            if accepts(op, dtype):
                kernels.append(one_op(op, [dtype] * ARITY[op], result_of(op, dtype), 8))
    check_all(kernels, target)


@pytest.mark.parametrize("target", TARGETS)
def test_casts_between_all_dtypes(target):
    """What a float has no integer for is left open, so floats are small and positive here."""
    rng = np.random.default_rng(1)
    kernels = [one_op("cast", [source], to, 16) for source in DTYPES for to in DTYPES[::2]]
    given = {}
    for k in kernels:
        x = k.inputs[0]
        if x.dtype.kind == "f" and k.outputs[0].dtype.kind in "iu":
            given[x] = (rng.random(27) * 100).astype(x.dtype)
    check_all(kernels, target, given=given)


# Loops


@pytest.mark.parametrize("target", TARGETS)
def test_lane_loops_of_any_length(target):
    kernels = []
    for size in (0, 1, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100):
        for unroll in (1, 3):
            x, y, j = KernelBuffer("x", F32, size + 3), KernelBuffer("y", F32, size + 3), Var("j")
            value = call("add", (load(x, j), const(1.5, F32)), F32)
            body = [loop(j, size + 3, Store(y, j, value), lanes=16, unroll=unroll, start=3)]
            kernels.append(kernel([x], [y], body))
    check_all(kernels, target)


@pytest.mark.parametrize("target", TARGETS)
def test_reductions_over_lanes(target):
    cases = [(7, 1, False), (40, 1, True), (67, 3, False), (67, 2, True), (0, 2, False)]
    dtypes = [BOOL, INTS[0], INTS[3], INTS[6], F32, F64]
    kernels = [
        reduction(op, dtype, size, unroll, masked)
        for op in [*REDUCTIONS, "and", "or"]
        for dtype in dtypes
        for size, unroll, masked in cases
        if accepts(op, dtype) and (dtype is F32 or unroll in (1, 3))
    ]
    check_all(kernels, target, rtol=1e-4)


def test_reductions_let_nan_win_and_sums_keep_minus_zero():
    x, y, j, r = KernelBuffer("x", F32, 20), KernelBuffer("y", F32, 1), Var("j"), Register("r", F32)
    for op, fill, start, wanted in [
        ("maximum", [1, np.nan, 3], -np.inf, np.nan),
        ("minimum", [1, 2, np.nan], np.inf, np.nan),
        ("add", [-0.0, -0.0, -0.0], -0.0, -0.0),
    ]:
        values = np.resize(np.array(fill, F32), 20)
        body = [
            Assign(r, const(start, F32)),
            loop(j, 20, Update(r, op, load(x, j)), lanes=8),
            Store(y, const(0), read(r)),
        ]
        k = kernel([x], [y], body)
        result = np.ones(1, F32)
        table = np.array([values.ctypes.data, result.ctypes.data])
        build([ProgramStep(k, [Argument(0), Argument(1)])]).run(table.ctypes.data, 0)
        np.testing.assert_array_equal(result, np.array([wanted], F32))
        assert np.signbit(result[0]) == np.signbit(np.float32(wanted)) or np.isnan(wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_registers_of_lanes_live_through_serial_loops(target):
    rng = np.random.default_rng(3)
    kernels, given = [], {}
    for rows, columns, depth, unroll, known in [
        (3, 32, 7, 1, True), (2, 21, 9, 4, True), (4, 32, 8, 4, False), (1, 19, 1, 2, False),
    ]:  # fmt: skip
        k, sizes = tile(rows, columns, depth, 16, unroll, known)
        kernels.append(k)
        given |= sizes | {b: rng.random(b.size, F32) for b in k.inputs[:2]}
    check_all(kernels, target, rtol=1e-5, given=given)


def test_an_unmasked_tile_has_one_copy_of_its_body_and_broadcasts_from_memory():
    k, _ = tile(2, 32, 64, 32, 1)
    program = build([ProgramStep(k, [Argument(i) for i in range(4)])], target=named("x86-64-v4"))
    assert program.ir.count("llvm.fmuladd.v32f32(") == 2 + 1  # two calls and the declaration
    assert "masked" not in program.ir


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("size", [0, 2, 40, 77])
def test_bounds_that_are_known_at_run_time_only(start, size):
    x, y = KernelBuffer("x", F32, 80), KernelBuffer("y", F32, 80)
    n, total = KernelBuffer("n", np.dtype("int64"), 2), KernelBuffer("total", F64, 1)
    i, j, r = Var("i"), Var("j"), Register("r", F64)
    low, high = load(n, const(0)), load(n, const(1))
    double = call("cast", (load(x, j),), F64)
    body = [
        Assign(r, const(0, F64)),
        For(j, low, high, (Store(y, j, load(x, j)), Update(r, "add", double)), 8, 2),
        For(i, low, high, (Update(r, "maximum", call("cast", (i,), F64)),), 0, 3),
        Store(total, const(0), read(r)),
    ]
    k = kernel([x, n], [y, total], body)
    check_all([k], given={n: np.array([start, size]), x: np.ones(80, F32)})


def test_what_must_not_be_loaded_is_not_touched():
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
    given = {b: np.zeros(b.size, b.dtype) for b in (x, y, no)}
    check_all(kernels, given=given)


def test_scratch_is_private_to_a_task_and_in_place_updates_see_old_values():
    x, s = KernelBuffer("x", F32, 60), KernelBuffer("s", F32, 20, scratch=True)
    i, j = Var("i"), Var("j")
    here = add(times(TASK, 20), j)
    value = call("add", (load(x, here), load(s, call("sub", (const(19), j), INT))), F32)
    body = [
        loop(i, 20, Store(s, i, load(x, add(times(TASK, 20), i))), lanes=8),
        loop(j, 20, Store(x, here, value), lanes=8),
    ]
    check_all([kernel([x], [x], body, tasks=3, scratch=[s])])


def test_a_store_is_seen_by_loads_behind_it():
    """Loads are remembered and moved out of loops, but not across a store to their buffer."""
    x, y, i = KernelBuffer("x", F32, 8), KernelBuffer("y", F32, 8), Var("i")
    one = call("add", (load(x, const(0)), const(1, F32)), F32)
    body = [
        Store(y, const(0), load(x, const(0))),
        loop(i, 5, Store(x, const(0), one), Store(y, i, load(x, const(0))), unroll=2),
        Store(y, const(7), load(x, const(0))),
    ]
    check_all([kernel([x], [x, y], body)], given={x: np.zeros(8, F32)})


def test_what_does_not_change_in_a_loop_stands_before_it():
    x, w, y = KernelBuffer("x", F32, 64), KernelBuffer("w", F32, 64), KernelBuffer("y", F32, 64)
    i, j = Var("i"), Var("j")
    weight = call("sqrt", (load(w, i),), F32)
    value = call("mul", (load(x, j), weight), F32)
    body = loop(i, 4, loop(j, 64, Store(y, j, value), lanes=8))
    program = check_all([kernel([x, w], [y], [body])])
    inner = program.ir.split("loop2:")[1].split("done2:")[0]
    assert "sqrt" in program.ir and "sqrt" not in inner and "load float" not in inner


def test_flattened_rows_and_columns_need_no_gather():
    """j = 32 * row + column: both are found again when the lanes lie within a row."""
    x, w = KernelBuffer("x", F32, 320), KernelBuffer("w", F32, 32)
    y, j = KernelBuffer("y", F32, 320), Var("j")
    row, column = (call(op, (j, const(32)), INT) for op in ("idiv", "imod"))
    index = add(times(row, 32), column)
    value = call("mul", (load(x, index), load(w, column)), F32)
    aligned = kernel([x, w], [y], [loop(j, 320, Store(y, j, value), lanes=16)])
    shifted = kernel([x, w], [y], [loop(j, 320, Store(y, j, value), lanes=16, start=5)])
    check_all([shifted])
    program = check_all([aligned])
    assert "masked.gather" not in program.ir


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64, np.dtype("int32"), np.dtype("int16")])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_elements_that_lie_apart(step, dtype, target):
    """Of windows with a stride: the first ones lie before the buffer and the last ones behind."""
    x, y, j = KernelBuffer("x", dtype, 60 * step), KernelBuffer("y", dtype, 64), Var("j")
    index = add(times(j, step), const(-2))
    inside = call("and", (call("ge", (index, const(0)), BOOL),
                          call("lt", (index, const(60 * step)), BOOL)), BOOL)
    value = load(x, index, inside, const(7, dtype))
    for lanes in (4, 8, 16):
        check_all([kernel([x], [y], [loop(j, 61, Store(y, j, value), lanes=lanes)])], target)
        inner = load(x, times(j, step))
        check_all([kernel([x], [y], [loop(j, 60, Store(y, j, inner), lanes=lanes)])], target)


def test_conditions_that_the_bounds_decide_cost_nothing():
    x, y, j = KernelBuffer("x", F32, 64), KernelBuffer("y", F32, 64), Var("j")
    inside = call("lt", (j, const(64)), BOOL)
    body = loop(j, 64, Store(y, j, load(x, j, inside, const(0, F32))), lanes=16)
    assert "masked" not in check_all([kernel([x], [y], [body])]).ir


def test_an_expression_may_be_deep():
    x, y, j = KernelBuffer("x", F32, 20), KernelBuffer("y", F32, 20), Var("j")
    value = load(x, j)
    for n in range(1500):
        value = call("sub", (const(n % 3, F32), value), F32)
    check_all([kernel([x], [y], [loop(j, 20, Store(y, j, value), lanes=16)])])


def test_a_register_ends_with_its_block():
    x, y, r, i = KernelBuffer("x", F32, 4), KernelBuffer("y", F32, 4), Register("r", F32), Var("i")
    body = [loop(i, 4, Assign(r, load(x, i))), Store(y, const(0), read(r))]
    with pytest.raises(ValueError, match="register r is read before it is assigned"):
        build([ProgramStep(kernel([x], [y], body), [Argument(0), Argument(1)])])


def test_a_lane_loop_may_only_reduce_registers_from_outside():
    x, r, j = KernelBuffer("x", F32, 4), Register("r", F32), Var("j")
    body = [Assign(r, const(0, F32)), loop(j, 4, Assign(r, load(x, j)), lanes=4)]
    with pytest.raises(ValueError, match="can only be reduced"):
        build([ProgramStep(kernel([x], [x], body), [Argument(0)])])
