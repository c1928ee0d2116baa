"""Programs: several kernels as one native function."""

import numpy as np
import pytest

from fusewire.codegen.ir.loop_ir import For, Kernel, KernelBuffer, Store, Var, call, const, load
from fusewire.codegen.program.native_program import Arena, Argument, ProgramStep, build

F32 = np.dtype("float32")
TASK = Var("task")


def doubling(tasks=1, cost=0.0, scratch=()):
    """y = x + x for 20 elements in each task."""
    x, y, j = KernelBuffer("x", F32, 20 * tasks), KernelBuffer("y", F32, 20 * tasks), Var("j")
    first = call("mul", (TASK, const(20)), np.int64)
    here = call("add", (first, j), np.int64)
    store = Store(y, here, call("add", (load(x, here), load(x, here)), F32))
    body = (For(j, const(0), const(20), (store,), 16),)
    return Kernel("double", (x,), (y,), scratch, TASK, tasks, body, cost)


def addresses(*arrays):
    """The table of the arrays, which must stay alive while it is used."""
    return np.array([a.ctypes.data for a in arrays])


def test_equal_kernels_share_their_code_and_slots_may_lie_in_the_arena():
    first, second = doubling(), doubling()
    steps = [ProgramStep(first, [Argument(0), Arena(64)]),
             ProgramStep(second, [Arena(64), Argument(1)])]
    program = build(steps)
    assert program.ir.count("define ") == 1  # nothing but the task
    x, y, arena = np.arange(20, dtype=F32), np.zeros(20, F32), np.zeros(64, F32)
    table = addresses(x, y)
    program.run(table.ctypes.data, arena.ctypes.data)
    np.testing.assert_array_equal(y, 4 * x)


def test_kernels_that_differ_in_a_number_do_not_share_code():
    y = KernelBuffer("y", F32, 1)
    kernels = [
        Kernel("set", (), (y,), (), TASK, 1, (Store(y, const(0), const(value, F32)),))
        for value in (0.0, -0.0, 1.0, np.nan)
    ]
    result = [np.ones(1, F32) for _ in kernels]
    program = build([ProgramStep(k, [Argument(i)]) for i, k in enumerate(kernels)])
    table = addresses(*result)
    program.run(table.ctypes.data, 0)
    np.testing.assert_array_equal(np.concatenate(result), np.array([0, 0, 1, np.nan], F32))
    assert [bool(np.signbit(r[0])) for r in result[:3]] == [False, True, False]


def test_each_step_can_be_timed_and_the_code_read():
    program = build([ProgramStep(doubling(), [Argument(0), Argument(1)])] * 3)
    x, y = np.arange(20, dtype=F32), np.zeros(20, F32)
    table = addresses(x, y)
    assert len(program.profile(table.ctypes.data, 0)) == 3
    np.testing.assert_array_equal(y, 2 * x)
    assert "ret" in program.assembly()


@pytest.mark.parametrize("cost", [0.0, 1e9])
def test_all_tasks_run_be_it_serially_or_in_parallel(cost):
    program = build([ProgramStep(doubling(37, cost), [Argument(0), Argument(1)])])
    x, y = np.arange(20 * 37, dtype=F32), np.zeros(20 * 37, F32)
    table = addresses(x, y)
    program.run(table.ctypes.data, 0)
    np.testing.assert_array_equal(y, 2 * x)


def test_an_empty_program_does_nothing():
    build([]).run(0, 0)


def test_a_step_needs_a_place_for_each_argument():
    with pytest.raises(ValueError, match="kernel double has 2 arguments, got 1 slots"):
        build([ProgramStep(doubling(), [Argument(0)])])


def test_scratch_must_fit_on_a_stack():
    large = KernelBuffer("large", F32, 1 << 24, scratch=True)
    with pytest.raises(ValueError, match="put large temporary buffers into the arena"):
        build([ProgramStep(doubling(scratch=(large,)), [Argument(0), Argument(1)])])
