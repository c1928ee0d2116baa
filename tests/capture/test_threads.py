"""One compiled function called from several threads, while one of them records."""

from __future__ import annotations

import sys
from threading import Event
from typing import Any

import numpy as np
import pytest
from guarded import in_a_process
from jobs import together
from oracle import assert_same

import fusewire as fw
from fusewire.capture.heap.operand_stack import container_iterators
from fusewire.capture.replay.trace_tree import TraceTree


def test_first_calls_at_the_same_time() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        for _ in range(8):
            x = fw.softmax(x * 1.01 + 0.1, -1) * 8
        return x

    for _ in range(5):
        compiled = fw.compile(f, fullgraph=True)
        given = [fw.from_numpy(np.full((4, 8), k, np.float32)) + fw.arange(8) for k in range(4)]

        def calls(x: fw.Tensor, compiled: Any = compiled) -> list[fw.Tensor]:
            return [compiled(x) for _ in range(20)]

        for x, outs in zip(given, together(*[lambda x=x: calls(x) for x in given])):
            for out in outs:
                assert_same(out, f(x))
        assert compiled.stats.recordings == 1


def test_eager_work_beside_a_recording() -> None:
    """What another thread computes is no part of the recording."""
    def f(x: fw.Tensor) -> fw.Tensor:
        for _ in range(100):
            x = x + 1
        return x

    def other() -> fw.Tensor:
        y = fw.zeros(3)
        for _ in range(300):
            y = fw.softmax(y + 2, -1)
        return y

    for _ in range(5):
        compiled = fw.compile(f, fullgraph=True)
        results = together(lambda: compiled(fw.zeros(3)), other, other)  # noqa: B023
        assert_same(results[0], fw.full(3, 100.0))
        assert_same(compiled(fw.ones(3)), fw.full(3, 101.0))
        graph = compiled.programs[0].segments()[0].graph
        assert {n.op for n in graph.nodes()} <= {"input", "const", "add"}


def test_recordings_at_the_same_time_under_an_audit_hook() -> None:
    done = in_a_process("audited_run.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_each_thread_has_its_own_temporaries() -> None:
    @fw.compile(fullgraph=True)
    def f(x: fw.Tensor) -> fw.Tensor:
        return (fw.softmax(x @ x.T, -1) @ x).sum(axis=0)

    given = [fw.from_numpy(np.random.default_rng(k).standard_normal((40, 16)).astype(np.float32))
             for k in range(4)]
    expected = [f.original(x) for x in given]
    f(given[0])
    for _ in range(3):
        outs = together(*[lambda x=x: [f(x) for _ in range(30)] for x in given])
        for out, want in zip(outs, expected):
            for o in out:
                assert_same(o, want, 10)


def test_recording_in_a_thread_other_than_the_main_one() -> None:
    f = fw.compile(lambda x: x * 2, fullgraph=True)
    (out,) = together(lambda: [f(fw.ones(2) * k) for k in range(3)])
    for k, o in enumerate(out):
        assert_same(o, fw.full(2, 2.0 * k))
    assert f.stats.recordings == 1 and f.stats.replays == 2


def test_calls_that_are_checked_record_one_after_the_other() -> None:
    for _ in range(5):
        f = fw.compile(lambda x: fw.tanh(x @ x.T) + 1, check="always")
        given = [fw.from_numpy(np.full((n, 4), 0.1, np.float32)) for n in (3, 5, 9)]
        outs = together(*[lambda x=x, f=f: [f(x) for _ in range(6)] for x in given])
        for x, found in zip(given, outs):
            for out in found:
                assert_same(out, f.original(x), 10)


def test_a_thread_ends_its_tuples_while_another_looks_for_iterators() -> None:
    """CPython raises SystemError if something else refers to a tuple that it is about to end."""
    done, before = Event(), sys.getswitchinterval()

    def look() -> int:
        wanted = iter([1, 2])
        found = sum(any(i is wanted for i in container_iterators()) for _ in range(100))
        done.set()
        return found

    def end_tuples() -> int:
        count = 0
        while not done.is_set():
            count += len(tuple(i for i in range(30)))
        return count

    sys.setswitchinterval(1e-6)
    try:
        found, *_ = together(look, end_tuples, end_tuples)
    finally:
        sys.setswitchinterval(before)
    assert found == 100


def test_a_path_that_is_added_between_the_guards_and_the_run(monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    """Such a path has a guard that was not checked: that `y` is no view of `x`."""
    def f(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        if x.sum() > 1:
            x = x + 1
        elif x.sum() < -1:
            x = x - 1
        else:
            y += 1
        return x * 2 if x.max() > 9 else x * 4

    def fits_and_waits(program: TraceTree, args: Any, kwargs: Any) -> bool:
        holds = fits(program, args, kwargs)
        monkeypatch.setattr(TraceTree, "fits", fits)
        compiled(fw.zeros(2), fw.zeros(2))  # stands for the call of another thread
        return holds

    compiled, fits = fw.compile(f), TraceTree.fits
    for sign in (1, -1) * 3:
        compiled(sign * fw.ones(2), fw.zeros(2))
    monkeypatch.setattr(TraceTree, "fits", fits_and_waits)
    x = fw.zeros(2)
    assert compiled(x, x[:]).tolist() == [4.0, 4.0]
