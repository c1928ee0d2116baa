"""Requests that wait are computed together, and each one gets its own rows or its own error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.serving import Model
from fusewire.serving.base.failures import RequestError
from fusewire.serving.base.statistics import Statistics
from fusewire.serving.batching import Batcher


class Slow(Model):
    """A model whose batches wait for `gate`, and are noted."""

    def __init__(self, function: Callable[..., Any], example: Any, **settings: Any) -> None:
        super().__init__(function, example, **settings)
        self.load()
        self.gate, self.sizes = threading.Event(), list[int]()
        self.gate.set()

    def run(self, arrays: Any) -> Any:
        self.gate.wait()
        self.sizes.append(len(arrays[0]))
        return super().run(arrays)


def doubled(**settings: Any) -> Slow:
    return Slow(lambda x: 2 * x, {"x": fw.zeros(1, 2)}, **{"max_batch": 8, **settings})


def row(value: float, rows: int = 1) -> Any:
    return [np.full((rows, 2), value, np.float32)]


def run(model: Model, work: Callable[[Batcher], Awaitable[Any]]) -> tuple[Any, Statistics]:
    """The result of `work` with the batcher of a model, and its statistics."""
    async def main() -> tuple[Any, Statistics]:
        statistics = Statistics()
        batcher = Batcher(model, statistics)
        result = await work(batcher)
        await batcher.drain()
        return result, statistics

    return asyncio.run(main())


def test_what_arrives_together_is_one_batch() -> None:
    async def work(batcher: Batcher) -> Any:
        return await asyncio.gather(*(batcher.submit(row(i)) for i in range(11)))

    model = doubled()
    results, statistics = run(model, work)
    assert [r[0].tolist() for r in results] == [[[2 * i, 2 * i]] for i in range(11)]
    assert model.sizes == [8, 4]  # the second one is 3 rows and a copy of the last
    assert (statistics.rows, statistics.executions, statistics.queue.count) == (11, 2, 11)


def test_a_delay_waits_for_a_full_batch_but_no_longer() -> None:
    async def work(batcher: Batcher) -> Any:
        first = [batcher.submit(row(1)) for _ in range(3)]
        await asyncio.sleep(0.01)
        await asyncio.gather(*first, *(batcher.submit(row(1)) for _ in range(5)))
        return await batcher.submit(row(1))

    model = doubled(delay=0.2)
    run(model, work)
    assert model.sizes == [8, 1]


def test_an_error_of_one_requests_values_is_its_own() -> None:
    table = fw.arange(10.0)
    model = Slow(lambda x: table[x], {"x": np.zeros((1,), np.int64)}, max_batch=8)

    async def work(batcher: Batcher) -> Any:
        values = [1, 99, 2, 55, 3]
        return await asyncio.gather(*(batcher.submit([np.array([v])]) for v in values),
                                    return_exceptions=True)

    results, _ = run(model, work)
    assert [r[0].tolist() for r in results[::2]] == [[1.0], [2.0], [3.0]]
    for wrong, error in zip((99, 55), results[1::2]):
        assert isinstance(error, RequestError) and error.status == 400
        assert str(wrong) in error.reason and "/" not in error.reason


def test_a_model_that_raises_something_else_fails_without_a_stack() -> None:
    class Broken(Slow):
        def run(self, arrays: Any) -> Any:
            raise KeyError("/secret/path")

    async def work(batcher: Batcher) -> Any:
        return await asyncio.gather(batcher.submit(row(1)), return_exceptions=True)

    [error], _ = run(Broken(lambda x: x, {"x": fw.zeros(1, 2)}), work)
    assert (error.status, error.reason) == (500, "the model failed with KeyError")


def test_a_full_queue_refuses_at_once_and_goes_on() -> None:
    model = doubled(queue=4)

    async def work(batcher: Batcher) -> Any:
        model.gate.clear()
        first = batcher.submit(row(0))
        await asyncio.sleep(0.01)  # it runs, and waits no more
        waiting = [batcher.submit(row(i)) for i in range(1, 5)]
        with pytest.raises(RequestError, match="4 rows wait, of 4 at most") as caught:
            batcher.submit(row(9))
        assert caught.value.status == 503
        model.gate.set()
        return await asyncio.gather(first, *waiting)

    results, _ = run(model, work)
    assert [float(r[0][0, 0]) for r in results] == [0, 2, 4, 6, 8]


def test_cancelled_and_late_requests_never_run() -> None:
    model = doubled()

    async def work(batcher: Batcher) -> Any:
        model.gate.clear()
        first = batcher.submit(row(0))
        await asyncio.sleep(0.01)
        gone, late, good = (batcher.submit(row(i), timeout) for i, timeout in
                            ((1, None), (2, 0.02), (3, None)))
        gone.cancel()
        time.sleep(0.05)
        model.gate.set()
        return await asyncio.gather(first, late, good, return_exceptions=True)

    (_, late, good), statistics = run(model, work)
    assert late.status == 504 and good[0].tolist() == [[6, 6]]
    assert model.sizes == [1, 1] and statistics.rows == 2


def test_a_model_that_hangs_answers_with_a_timeout() -> None:
    model = doubled(timeout=0.05)

    async def work(batcher: Batcher) -> Any:
        model.gate.clear()
        first = batcher.submit(row(0))
        await asyncio.sleep(0.01)
        results = await asyncio.gather(first, batcher.submit(row(1)), return_exceptions=True)
        model.gate.set()
        return results

    results, _ = run(model, work)
    assert [error.status for error in results] == [504, 504]


def test_answers_are_those_of_single_calls_to_the_bit_whatever_else_is_in_the_batch() -> None:
    fw.manual_seed(1)
    net = fw.nn.Sequential(fw.nn.Linear(2, 64), fw.nn.GELU(), fw.nn.Linear(64, 5))
    model = Slow(net, {"input": fw.zeros(1, 2)}, max_batch=16, buckets=(16,))
    numbers = np.random.default_rng(0)
    inputs = [numbers.standard_normal((int(numbers.integers(1, 6)), 2)).astype(np.float32)
              for _ in range(200)]

    async def work(batcher: Batcher) -> Any:
        tasks = []
        for array in inputs:
            tasks.append(batcher.submit([array]))
            if numbers.random() < 0.3:
                await asyncio.sleep(float(numbers.random()) / 1000)
        return await asyncio.gather(*tasks)

    results, statistics = run(model, work)
    for array, [result] in zip(inputs, results):
        padded = np.concatenate([array, array[-1:].repeat(16 - len(array), 0)])
        assert result.tobytes() == model.run([padded])[0][:len(array)].tobytes()
    assert statistics.rows == sum(map(len, inputs)) and statistics.executions < 200


def test_draining_answers_what_was_taken_and_refuses_more() -> None:
    model = doubled()

    async def work(batcher: Batcher) -> Any:
        taken = [batcher.submit(row(i)) for i in range(20)]
        await batcher.drain()
        with pytest.raises(RequestError, match="being unloaded"):
            batcher.submit(row(1))
        return await asyncio.gather(*taken)

    results, _ = run(model, work)
    assert len(results) == 20
