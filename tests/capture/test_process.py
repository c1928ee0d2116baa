"""Compiled functions in processes and threads: forked, spawned, and called at the same time."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import assert_equal
from jobs import together

import fusewire as fw
from fusewire import nn

X = fw.tensor([1.0, 2.0, 3.0])
MAIN_WAITS = 60


@fw.compile
def decided(x: fw.Tensor) -> fw.Tensor:
    return fw.tanh(x) * 2 if x.sum() > 0 else x - 1


def expected(k: float) -> list[float]:
    return decided.original(X * k).tolist()  # type: ignore[no-any-return, attr-defined]


def in_child(send: Any, scales: list[float]) -> None:
    """What the function gives in another process, and how often it was replayed there."""
    send.put(([decided(X * k).tolist() for k in scales], decided.stats.replays))


def other_process(method: str, scales: list[float]) -> Any:
    return given_by(method, in_child, scales)


def given_by(method: str, function: Callable[..., None], *args: Any) -> Any:
    """What a function, called in another process, puts into the queue that it is given."""
    context = multiprocessing.get_context(method)
    results = context.Queue()
    process = context.Process(target=function, args=(results, *args))
    process.start()
    try:
        return results.get(timeout=MAIN_WAITS)
    finally:
        process.join(MAIN_WAITS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_replays_and_records() -> None:
    decided.clear()
    for k in (1.0, 2.0):
        assert decided(X * k).tolist() == expected(k)
    results, replays = other_process("fork", [3.0, -1.0, -2.0])
    for k, result in zip((3.0, -1.0, -2.0), results):
        assert result == pytest.approx(expected(k))
    assert replays >= 3  # one before the fork, two in the child
    assert decided(X * 4).tolist() == expected(4.0)


def test_a_spawned_process_records_anew() -> None:
    decided.clear()
    for k in (1.0, 2.0, -1.0):
        decided(X * k)
    scales = [3.0, 1.0, -1.0, -2.0]
    results, replays = other_process("spawn", scales)
    for k, result in zip(scales, results):
        assert result == pytest.approx(expected(k))
    assert replays == 2  # each way was recorded first


def trained(send: Any, model: nn.Module) -> None:
    """What a model computes in another process, and its weights after a step there."""
    first = model(X)
    first.sum().backward()
    fw.optim.SGD(model.parameters(), lr=0.5).step()
    send.put([t.tolist() for t in (first, *model.parameters(), model(X))])


def test_a_compiled_model_in_a_spawned_process() -> None:
    model, here = fw.compile(nn.Linear(3, 2)), queue.Queue[Any]()
    for _ in range(3):
        model(X)
    before = [p.numpy().copy() for p in model.parameters()]
    there = given_by("spawn", trained, model)
    for was, parameter in zip(before, model.parameters()):
        assert parameter.tolist() == was.tolist()  # it got a model of its own
    trained(here, model)
    for one, other in zip(there, here.get()):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_a_thread_records() -> None:
    """The child finds no lock held that nobody will ever release."""
    entered, go_on = threading.Event(), threading.Event()

    @fw.compile
    def slow(x: fw.Tensor) -> fw.Tensor:
        entered.set()
        go_on.wait(MAIN_WAITS)
        return x * 2

    thread = threading.Thread(target=slow, args=(X,))
    thread.start()
    entered.wait(MAIN_WAITS)
    pid = os.fork()
    if pid == 0:
        go_on = threading.Event()  # the other's lock may be held by the thread that is not here
        go_on.set()
        ok = slow(X).tolist() == [2.0, 4.0, 6.0] and decided(X).tolist() == expected(1.0)
        os._exit(0 if ok else 1)
    go_on.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0


def test_compiled_functions_and_models_are_sent_to_another_process() -> None:
    import pickle

    model = fw.compile(nn.Linear(3, 2).requires_grad_(False))
    model(X), model(X)
    again = pickle.loads(pickle.dumps([decided, model]))
    assert again[0] is decided
    assert_equal(again[1](X), model(X))


# ---- threads
def test_threads_call_one_function_from_its_first_call() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        for _ in range(5):
            x = fw.tanh(x * 1.1) if x.sum() > 0 else x * 0.5 - 0.1
        return x

    for _ in range(3):
        compiled = fw.compile(f, fullgraph=True)
        scales = [0.5, -1.0, 2.0, -3.0]
        jobs = [lambda k=k, c=compiled: [c(X * k) for _ in range(20)] for k in scales]
        for k, results in zip(scales, together(*jobs)):
            for result in results:
                assert_equal(result, f(X * k))


def test_new_outcomes_are_recorded_while_others_replay() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        if x[0] > 2:
            return x * 3
        if x[0] > 1:
            return x + 5
        return x - 7 if x[0] > 0 else -x

    compiled = fw.compile(f, fullgraph=True)
    compiled(X * 0.5), compiled(X * 0.5)
    scales = [0.5, 1.5, 2.5, -1.0]
    jobs = [lambda k=k: [compiled(X * k) for _ in range(30)] for k in scales * 2]
    for k, results in zip(scales * 2, together(*jobs)):
        for result in results:
            assert_equal(result, f(X * k))
    assert compiled.stats.recordings <= 4


@pytest.mark.filterwarnings("ignore:slow. graph break")
def test_one_function_is_called_while_another_is_recorded() -> None:
    """What the other thread computes, compiled, is no part of the recording."""
    inside, called = threading.Event(), threading.Event()

    def slow(x: fw.Tensor) -> fw.Tensor:
        y = x * 2
        inside.set()
        called.wait(MAIN_WAITS)
        return y + 1

    recorded, other = fw.compile(slow), fw.compile(lambda x: fw.exp(x) - 3, fullgraph=True)
    other(X), other(X)

    def beside() -> list[fw.Tensor]:
        inside.wait(MAIN_WAITS)
        results = [other(X * k) for k in range(3)]
        called.set()
        return results

    first, results = together(lambda: recorded(X), beside)
    assert_equal(first, X * 2 + 1)
    for k, result in enumerate(results):
        assert_equal(result, fw.exp(X * k) - 3)
    assert other.stats.fallbacks == 0


def test_a_counter_of_one_thread_is_not_seen_by_the_other_as_a_symbol() -> None:
    class Model:
        def __init__(self) -> None:
            self.step = 0

        def __call__(self, x: fw.Tensor) -> fw.Tensor:
            self.step += 1
            return x * self.step

    models = [Model(), Model()]
    runs = [fw.compile(m.__call__) for m in models]
    seen: set[type] = set()

    def watch() -> None:
        for _ in range(2000):
            seen.update(type(m.step) for m in models)

    def work(i: int) -> list[fw.Tensor]:
        return [runs[i](X) for _ in range(25)]

    one, two, _ = together(lambda: work(0), lambda: work(1), watch)
    for results in (one, two):
        for k, result in enumerate(results, 1):
            assert_equal(result, X * k)
    assert [m.step for m in models] == [25, 25]
