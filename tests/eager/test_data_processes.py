"""Loaders whose workers are processes: what comes back, what is left behind, who failed how."""

import glob
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import data_sets
import numpy as np
import pytest
from data_sets import Count, Draws, Failing, Images, Modes, Squares, Sums

import fusewire as fw
from fusewire.capture.heap import code_tracker
from fusewire.eager.errors import ArgumentError, ShapeError, WorkerError
from fusewire.eager.utils.data import DataLoader, TensorDataset

METHODS = multiprocessing.get_all_start_methods()
# The quickest method that there is; what differs between methods is tested with each.
QUICK = "fork" if "fork" in METHODS else "spawn"
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def loader(data, method=QUICK, **options):
    return DataLoader(data, num_workers=2, multiprocessing_context=method, **options)


def shared(pid):
    """The shared memory of the loaders of a process."""
    return glob.glob(f"/dev/shm/fusewire-{pid}-*")


def nothing_left():
    """No process, thread or shared memory of a loader of ours is there any more."""
    threads = [t for t in threading.enumerate() if t.name.startswith("fusewire-loader")]
    return (multiprocessing.active_children(), threads, shared(os.getpid())) == ([], [], [])


# ---- what comes back
@pytest.mark.parametrize("method", METHODS)
def test_every_way_to_start_processes(method):
    batches = DataLoader(Squares(7), 3, num_workers=1, multiprocessing_context=method)
    read = [(x.tolist(), y.tolist()) for x, y in batches]
    assert [x for x, _ in read] == [[0, 1, 2], [3, 4, 5], [6]] and read[1][1] == [9, 16, 25]
    assert nothing_left()


def test_a_context_object_chooses_too_and_nothing_means_threads():
    context = multiprocessing.get_context(QUICK)
    assert len(list(loader(Squares(4), context, batch_size=2))) == 2
    assert DataLoader(Squares(4), num_workers=1).multiprocessing_context is None
    with pytest.raises(ArgumentError, match="'threads' is not known"):
        loader(Squares(4), "threads")


def test_large_batches_come_through_memory_that_is_used_again():
    mapped = []
    for i, (x, names) in enumerate(loader(Images(60, 20_000), batch_size=2)):
        assert x.shape == (2, 20_000) and x.dtype == fw.float32
        assert (x.numpy() == np.array([[2 * i], [2 * i + 1]])).all()
        assert names == (f"number {2 * i}", f"number {2 * i + 1}")
        mapped.append(x._data.__array_interface__["data"][0])
    assert len(set(mapped)) <= 12 and nothing_left()  # of 30 batches


def test_batches_may_be_kept():
    batches = list(loader(Images(80, 10_000), batch_size=1))
    assert [int(x.numpy().max()) for x, _ in batches] == list(range(80))
    assert [int(x.numpy().min()) for x, _ in batches] == list(range(80)) and nothing_left()


def test_batches_of_growing_sizes():
    data = [np.full(1 << min(i, 16), i, np.float32) for i in range(24)]
    for i, x in enumerate(loader(data, batch_size=None, prefetch_factor=1)):
        assert x.shape == (1 << min(i, 16),) and (x.numpy() == i).all()


def test_without_shared_memory_all_goes_through_the_pipe(monkeypatch):
    def full(path, size):
        raise OSError(28, "No space left on device")

    if QUICK == "fork":  # the children have it from here
        monkeypatch.setattr("fusewire.eager.utils.data.shared_memory._create", full)
    read = [x.numpy().max() for x, _ in loader(Images(6, 100_000), batch_size=1)]
    assert read == [0, 1, 2, 3, 4, 5] and nothing_left()


def test_parts_of_all_kinds():
    batch = next(iter(loader(Squares(2), collate_fn=data_sets.of_dtypes)))
    assert batch["bf16"].dtype == fw.bfloat16 and batch["bf16"].tolist() == [1, 1, 1]
    assert batch["none"] is None and batch["empty"].shape == (0, 2)
    assert batch["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert batch["grad"].requires_grad and len(batch["text"]) == 100_000
    batch["turned"][0, 0] = 7  # what comes as NumPy's array can be written to


def test_a_tensor_dataset():
    x = fw.arange(60_000).reshape(6, 10_000)
    batches = list(loader(TensorDataset(x, fw.arange(6)), batch_size=4))
    assert batches[1][0].tolist() == x[4:].tolist() and batches[1][1].tolist() == [4, 5]


# ---- random numbers, and what a worker takes along
def test_what_workers_draw_differs_and_follows_from_the_seed():
    def draw():
        fw.manual_seed(11)
        return list(loader(Draws(), collate_fn=data_sets.as_list, batch_size=2))

    first = draw()
    flat = [sample for batch in first for sample in batch]
    assert first == draw()
    for part in range(3, 8):  # fusewire's, the worker's own two, NumPy's, Python's
        assert len({sample[part] for sample in flat}) == 8
    assert {(s[0], s[1] - flat[0][1], s[2]) for s in flat} == {
        (0, 0, "multiprocessing"), (1, 1, "multiprocessing")}


def test_workers_do_not_take_part_in_what_the_loop_does():
    with fw.no_grad():
        assert list(loader(Modes(), batch_size=None)) == [[True, 2.0 * i] for i in range(4)]

    @fw.compile
    def total(x):
        parts = [x * float(s) for s in loader(Sums(3), batch_size=None)]
        return parts[0] + parts[1] + parts[2]

    with pytest.warns(UserWarning, match="total"):
        assert [total(fw.ones(1)).item() for _ in range(3)] == [3.0 * (1 << 18)] * 3


@pytest.mark.skipif("fork" not in METHODS, reason="this system does not fork")
def test_a_process_that_a_traced_function_starts_is_not_traced():
    def traced_in_child(x):
        ours, theirs = multiprocessing.get_context("fork").Pipe()
        process = multiprocessing.get_context("fork").Process(
            target=lambda: theirs.send(code_tracker.observing()))
        here = code_tracker.observing()
        process.start()
        there = ours.recv()
        process.join()
        return x, here, there

    with pytest.warns(UserWarning, match="traced_in_child"):
        assert fw.compile(traced_in_child)(fw.ones(1))[1:] == (True, False)


@pytest.mark.skipif("fork" not in METHODS, reason="this system does not fork")
def test_a_child_works_whatever_other_threads_were_doing():
    # Threads that compile and run native code all the time: locks are held, memory is in motion.
    stop = []

    def busy(k):
        n = 0
        while not stop:
            n += 1
            (fw.ones((1 << 17) + 64 * n) * (k + 0.5)).exp().sum()

    threads = [threading.Thread(target=busy, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            read = list(loader(Sums(4), "fork", batch_size=None, timeout=20))
            assert read == [float(i << 18) for i in range(4)]
    finally:
        stop.append(True)
        for thread in threads:
            thread.join()


# ---- errors
ERRORS = {"key_error": (KeyError, "sample 5.*is broken"), "no_file": (FileNotFoundError, "5.png"),
          "refuse": (data_sets.Refused, "sample 5 is refused"),
          "bad_text": (UnicodeDecodeError, "can't decode byte 0xff"),
          "shape_error": (ShapeError, r"\(2,\)"), "unsendable": (WorkerError, "Local"),
          "sys_exit": (WorkerError, "SystemExit")}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("method", [None, QUICK])
def test_an_error_comes_with_its_type_its_traceback_and_its_place(name, method):
    if method is None and name == "unsendable":
        kind, text = ValueError, "Local"
    else:
        kind, text = ERRORS[name]
    batches = iter(loader(Failing(12, getattr(data_sets, name)), method, batch_size=2))
    assert [next(batches)[0].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(kind, match=text) as info:
        next(batches)
    assert type(info.value) is kind or name == "unsendable"
    shown = str(info.value)
    where = "thread" if method is None else r"process \d+"
    info.match(rf"DataLoader worker 0 \({where}\), reading sample 5 of the batch \[4, 5\]")
    assert "The worker's own traceback:" in shown and f"in {name}" in shown
    assert list(batches) == [] and nothing_left()
    if name == "refuse":
        assert info.value.code == 7
    if name == "no_file":
        assert (info.value.errno, info.value.filename) == (2, "nowhere/5.png")


@pytest.mark.parametrize("method", [None, QUICK])
def test_an_error_before_the_first_batch(method):
    with pytest.raises(KeyError, match=r"worker 0 .*, before its first batch: 'sample 0"):
        list(loader(Squares(4), method, worker_init_fn=data_sets.key_error))
    assert nothing_left()


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(("failure", "text"), [
    (data_sets.os_exit, "exited with code 7"),
    (data_sets.killed, r"was killed by signal 9 \(SIGKILL\), exit code -9[\s\S]*memory is short")])
def test_a_worker_that_dies_is_named(failure, text):
    batches, got = iter(loader(Failing(40, failure), batch_size=2)), []
    began = time.monotonic()
    with pytest.raises(WorkerError, match=rf"DataLoader worker 0 \(process \d+\) {text}"):
        for x, _ in batches:
            got.append(x.tolist())
    assert got in ([], [[0, 1]], [[0, 1], [2, 3]]) and time.monotonic() - began < 5
    assert list(batches) == [] and nothing_left()


def test_a_batch_that_takes_too_long():
    began = time.monotonic()
    with pytest.raises(WorkerError, match=r"within timeout=3.0 seconds; worker 0 is reading the "
                                          r"batch \[4, 5\]"):
        list(loader(Failing(12, data_sets.asleep), batch_size=2, timeout=3.0))
    assert time.monotonic() - began < 20 and nothing_left()  # not the 30 s that the sample takes


def test_what_cannot_be_sent_is_said_before_anything_runs():
    with pytest.raises(ArgumentError, match=r"cannot be sent to it: [\s\S]*must pickle"):
        iter(loader(Squares(4), "spawn", collate_fn=lambda samples: samples))
    assert nothing_left()


def test_a_batch_that_cannot_be_sent_back():
    with pytest.raises(Exception, match=r"worker 0 \(process \d+\), reading the batch \[0\]"):
        list(loader([0, 1], collate_fn=data_sets.make_lambda))
    assert nothing_left()


# ---- leaving
def test_leaving_early():
    for _ in loader(Squares(100, 1e-4), batch_size=2):
        break
    assert nothing_left()
    batches = iter(loader(Images(100, 50_000), batch_size=2))
    kept = next(batches)[0]
    del batches
    assert nothing_left() and kept.numpy()[1].min() == 1
    iter(loader(Squares(4)))  # never asked for a batch
    assert nothing_left()


def test_leaving_does_not_wait_for_a_sample_that_takes_long():
    began = time.monotonic()
    for _ in loader(Failing(12, data_sets.asleep), batch_size=2):
        break
    assert nothing_left() and time.monotonic() - began < 8


def test_persistent_workers_stay():
    batches = loader(Squares(6), batch_size=2, persistent_workers=True)
    first = [x.tolist() for x, _ in batches]
    workers = set(multiprocessing.active_children())
    for _ in batches:  # left in the middle: what was ahead of it is of no use any more
        break
    assert [x.tolist() for x, _ in batches] == first == [[0, 1], [2, 3], [4, 5]]
    assert set(multiprocessing.active_children()) == workers and len(workers) == 2
    del batches
    assert nothing_left()


def test_persistent_workers_go_through_an_iterable_again():
    batches = loader(Count(5, shared=True), batch_size=2, persistent_workers=True)
    assert [[b.tolist() for b in batches] for _ in range(2)] == [[[0, 2], [1, 3], [4]]] * 2


SCRIPT = """
import os, signal, sys, time, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background
sys.path.insert(0, {tests!r})
import fusewire as fw
from fusewire.utils.data import DataLoader
from data_sets import Squares
if __name__ == "__main__":
    loader = DataLoader(Squares(1000, 1e-5), batch_size=2, num_workers=2,
                        multiprocessing_context={method!r}, persistent_workers={persistent})
    batches = iter(loader)
    next(batches)
    print(*[p.pid for p in __import__("multiprocessing").active_children()], flush=True)
    {end}
"""


def run(tmp_path, end, method=QUICK, persistent=False, interrupt=None):
    """A script's exit code, output on standard error, and numbers of its workers and itself."""
    script = tmp_path / "script.py"
    tests = os.path.dirname(os.path.dirname(__file__))
    script.write_text(SCRIPT.format(tests=tests, method=method, end=end, persistent=persistent))
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, start_new_session=True)
    first = process.stdout.readline()
    if interrupt is not None:
        os.killpg(process.pid, interrupt) if interrupt == signal.SIGINT else process.send_signal(
            interrupt)
    _, said = process.communicate(timeout=30)
    return process.returncode, said, [int(pid) for pid in first.split()], process.pid


def runs(pid):
    """Whether a process exists that has not ended (one that nobody asks for its end stays: Z)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def gone(pids):
    """Whether these processes end within a moment."""
    for _ in range(100):
        if not any(map(runs, pids)):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(("method", "persistent"), [(None, True), (QUICK, False), (QUICK, True)])
def test_a_program_that_ends_in_the_middle_of_a_loop(tmp_path, method, persistent):
    code, said, pids, own = run(tmp_path, "sys.exit(5)", method, persistent)
    assert (code, said) == (5, "") and len(pids) == (2 if method else 0) and gone(pids)
    assert shared(own) == []


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_control_c(tmp_path):
    code, said, pids, own = run(tmp_path, "for _ in batches: pass", interrupt=signal.SIGINT)
    assert code == -signal.SIGINT and said.count("KeyboardInterrupt") == 1  # of the loop alone
    assert gone(pids) and shared(own) == []


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_workers_of_a_program_that_was_killed(tmp_path):
    code, _, pids, own = run(tmp_path, "time.sleep(30)", interrupt=signal.SIGKILL)
    assert code == -signal.SIGKILL and len(pids) == 2 and gone(pids)
    assert shared(own) == []
