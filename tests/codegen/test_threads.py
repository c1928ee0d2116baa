"""The thread pool: results never depend on it, and it survives what processes do."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from fusewire.codegen.ir.loop_ir import (
    Assign,
    For,
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
from fusewire.codegen.program import native_threads
from fusewire.codegen.program.native_program import Argument, ProgramStep, build

F32, INT = np.dtype("float32"), np.dtype("int64")
ROW, ROWS = 256, 200


def row_sums():
    """A program of ROWS tasks: the sum of each row, in an order that lanes and unrolling decide."""
    x, y = KernelBuffer("x", F32, ROW * ROWS), KernelBuffer("y", F32, ROWS)
    task, j, r = Var("task"), Var("j"), Register("r", F32)
    here = call("add", (call("mul", (task, const(ROW)), INT), j), INT)
    body = (
        Assign(r, const(0, F32)),
        For(j, const(0), const(ROW), (Update(r, "add", load(x, here)),), 16, 2),
        Store(y, task, read(r)),
    )
    return Kernel("sums", (x,), (y,), (), task, ROWS, body, cost=1e6)


class Sums:
    """The program with arrays of its own."""

    def __init__(self, program, seed=0):
        self.program = program
        self.x = np.random.default_rng(seed).random(ROW * ROWS, F32)
        self.y = np.zeros(ROWS, F32)
        self.table = np.array([self.x.ctypes.data, self.y.ctypes.data])

    def __call__(self):
        self.y[:] = 0
        self.program.run(self.table.ctypes.data, 0)
        return self.y.copy()


@pytest.fixture(scope="module")
def program():
    return build([ProgramStep(row_sums(), [Argument(0), Argument(1)])])


@pytest.fixture(autouse=True)
def threads_as_before():
    before = native_threads.get_num_threads()
    yield
    native_threads.set_num_threads(before)


def test_the_number_of_threads_changes_no_bit(program):
    sums, results = Sums(program), []
    for count in (1, 2, 4, 1, 3):
        native_threads.set_num_threads(count)
        assert native_threads.get_num_threads() == count
        results += [sums() for _ in range(50)]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], sums.x.reshape(ROWS, ROW).sum(1), rtol=1e-5)


def test_a_number_below_one_is_refused():
    with pytest.raises(ValueError, match="expected at least 1 thread, got 0"):
        native_threads.set_num_threads(0)


def test_several_callers_at_once(program):
    native_threads.set_num_threads(3)
    callers = [Sums(program, seed) for seed in range(4)]
    wanted = [caller() for caller in callers]
    wrong = []

    def repeat(number):
        for _ in range(300):
            if not np.array_equal(callers[number](), wanted[number]):
                wrong.append(number)

    running = [threading.Thread(target=repeat, args=(n,)) for n in range(4)]
    for thread in running:
        thread.start()
    for count in (1, 2, 3, 2):  # changed while jobs run
        native_threads.set_num_threads(count)
    for thread in running:
        thread.join()
    assert not wrong


def test_workers_that_sleep_are_woken(program):
    native_threads.set_num_threads(2)
    sums = Sums(program)
    wanted = sums()
    pause = threading.Event()
    for _ in range(20):
        pause.wait(0.002)  # longer than they look for work
        np.testing.assert_array_equal(sums(), wanted)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
                    reason="threads can't be placed, or there is one processor")
def test_workers_keep_off_the_processor_of_the_caller():
    body = """
allowed = os.sched_getaffinity(0)
native_threads.set_num_threads(3)
sums = Sums(build([ProgramStep(row_sums(), [Argument(0), Argument(1)])]))
before = set(os.listdir("/proc/self/task"))
wanted = sums()
workers = set(os.listdir("/proc/self/task")) - before
for cpu in allowed:
    os.sched_setaffinity(0, {cpu})
    assert np.array_equal(sums(), wanted)
    print(all(os.sched_getaffinity(int(w)) == allowed - {cpu} for w in workers), len(workers))
"""
    assert run_script(body) == ["True", "2"] * len(os.sched_getaffinity(0))


def run_script(body):
    """Runs a script in a process of its own, with this file's names; returns what it printed."""
    script = f"import sys\nsys.path.insert(0, {os.path.dirname(__file__)!r})\n"
    script += "from test_threads import *\n" + body
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_environment_names_the_number(monkeypatch):
    monkeypatch.setenv("FUSEWIRE_NUM_THREADS", "3")
    assert run_script("print(native_threads.get_num_threads())") == ["3"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_workers_of_its_own():
    """Also when the parent's workers sleep, or run a job of another thread at that moment."""
    body = """
import time, warnings
warnings.simplefilter("ignore")
native_threads.set_num_threads(2)
sums = Sums(build([ProgramStep(row_sums(), [Argument(0), Argument(1)])]))
wanted = sums()
stop = threading.Event()
def work():
    mine = Sums(sums.program)
    while not stop.is_set():
        mine()
other = threading.Thread(target=work)
for number in range(8):
    if number == 4:
        other.start()
    time.sleep(0.001 * number)
    child = os.fork()
    if child == 0:
        good = all(np.array_equal(sums(), wanted) for _ in range(20))
        team = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 2
        os._exit(0 if good and team == 2 else 1)
    print(os.waitpid(child, 0)[1])
stop.set()
other.join()
assert np.array_equal(sums(), wanted)
"""
    assert run_script(body) == ["0"] * 8


def test_a_process_ends_while_workers_sleep_or_look_for_work():
    body = """
import time
native_threads.set_num_threads(3)
sums = Sums(build([ProgramStep(row_sums(), [Argument(0), Argument(1)])]))
sums()
time.sleep(PAUSE)
print("end")
"""
    assert run_script(body.replace("PAUSE", "0")) == ["end"]
    assert run_script(body.replace("PAUSE", "0.01")) == ["end"]
