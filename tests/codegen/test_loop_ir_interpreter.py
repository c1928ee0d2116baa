"""The interpreter defines the meaning of kernels, and reports accesses of incorrect ones."""

import numpy as np
import pytest

from fusewire.codegen.ir.loop_ir import (
    INT,
    Assign,
    For,
    If,
    Kernel,
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
from fusewire.codegen.ir.loop_ir_interpreter import run

F32, BOOL = np.dtype("float32"), np.dtype("bool")
TASK = Var("task")


def kernel(inputs, outputs, *body, tasks=1, scratch=()):
    return Kernel("sample", tuple(inputs), tuple(outputs), tuple(scratch), TASK, tasks, body)


def loop(var, stop, *body):
    return For(var, const(0), const(stop), body)


def test_a_row_sum_with_a_register():
    x, y, j, r = KernelBuffer("x", F32, 6), KernelBuffer("y", F32, 2), Var("j"), Register("r", F32)
    here = call("add", (call("mul", (TASK, const(3)), INT), j), INT)
    k = kernel(
        [x], [y],
        Assign(r, const(0, F32)), loop(j, 3, Update(r, "add", load(x, here))),
        Store(y, TASK, read(r)), tasks=2,
    )  # fmt: skip
    result = np.zeros(2, F32)
    run(k, {x: np.arange(6, dtype=F32), y: result})
    assert result.tolist() == [3, 12]


def test_tasks_run_in_any_order_that_one_asks_for():
    y, n = KernelBuffer("y", INT, 1), 5
    k = kernel([y], [y], Store(y, const(0), TASK), tasks=n)
    last = np.zeros(1, INT)
    for order in (None, range(n), reversed(range(n)), [3, 1, 2, 0, 4]):
        expected = 0 if isinstance(order, type(reversed(range(n)))) else n - 1
        run(k, {y: last}, order=order)
        assert last[0] == expected


def test_sizes_given_at_run_time():
    x, j, n = KernelBuffer("x", F32, 4), Var("j"), Var("n")
    k = kernel([x], [x], For(j, const(0), n, (Store(x, j, const(1, F32)),)))
    array = np.zeros(4, F32)
    run(k, {x: array}, sizes={n: 2})
    assert array.tolist() == [1, 1, 0, 0]


def test_values_wrap_and_divide_as_in_numpy():
    i8 = np.dtype("int8")
    x, y = KernelBuffer("x", i8, 1), KernelBuffer("y", i8, 2)
    k = kernel(
        [x], [y],
        Store(y, const(0), call("add", (load(x, const(0)), const(100, i8)), i8)),
        Store(y, const(1), call("floor_divide", (load(x, const(0)), const(0, i8)), i8)),
    )  # fmt: skip
    result = np.zeros(2, i8)
    run(k, {x: np.array([100], i8), y: result})
    assert result.tolist() == [-56, 0]


def test_a_masked_load_reads_nothing():
    x, y = KernelBuffer("x", F32, 1), KernelBuffer("y", F32, 1)
    k = kernel([x], [y], Store(y, const(0), load(x, const(99), const(False, BOOL), const(7, F32))))
    result = np.zeros(1, F32)
    run(k, {x: np.zeros(1, F32), y: result})
    assert result[0] == 7


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_out_of_bounds(index):
    x, y = KernelBuffer("x", F32, 4), KernelBuffer("y", F32, 4)
    arrays = {x: np.zeros(4, F32), y: np.zeros(4, F32)}
    with pytest.raises(IndexError, match=rf"sample: load of x\[{index}\], which has 4 elements"):
        run(kernel([x], [y], Store(y, const(0), load(x, const(index)))), arrays)
    with pytest.raises(IndexError, match=rf"sample: store of y\[{index}\], which has 4 elements"):
        run(kernel([x], [y], Store(y, const(index), load(x, const(0)))), arrays)


def test_scratch_that_this_task_has_not_written():
    s, y = KernelBuffer("s", F32, 4, scratch=True), KernelBuffer("y", F32, 4)
    first = call("eq", (TASK, const(0)), BOOL)
    k = kernel(
        [], [y],
        If(first, (Store(s, const(2), const(1, F32)),)), Store(y, TASK, load(s, const(2))),
        tasks=2, scratch=[s],
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"scratch s\[2\] is read before it is set"):
        run(k, {y: np.zeros(4, F32)})


def test_a_register_ends_with_its_block():
    y, r, i = KernelBuffer("y", F32, 1), Register("r", F32), Var("i")
    k = kernel([], [y], loop(i, 2, Assign(r, const(1, F32))), Store(y, const(0), read(r)))
    with pytest.raises(ValueError, match="register r is read before it is assigned"):
        run(k, {y: np.zeros(1, F32)})


def test_an_array_that_does_not_fit_its_buffer():
    y = KernelBuffer("y", F32, 1)
    with pytest.raises(ValueError, match=r"y is float32\[1\], got float64\[2\]"):
        run(kernel([], [y]), {y: np.zeros(2)})


def test_an_expression_may_be_deep():
    y, value = KernelBuffer("y", F32, 1), const(0, F32)
    for _ in range(5000):
        value = call("add", (value, const(1, F32)), F32)
    result = np.zeros(1, F32)
    run(kernel([], [y], Store(y, const(0), value)), {y: result})
    assert result[0] == 5000
