"""Batches come to the device ahead of the loop; dead and hanging workers are named."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

import fusewire as fw
from fusewire.data import DeviceLoader, moved
from fusewire.utils.data import DataLoader, Dataset, TensorDataset


class Killed(Dataset[int]):
    """A data set whose worker is killed by the system while it reads sample 9."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> int:
        if index == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


class Hanging(Dataset[int]):
    """A data set that hangs at sample 5."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> int:
        if index == 5:
            self.released.wait(60)
        return index


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "fusewire-device-loader"]


def loader_of(workers: int = 0, **options: Any) -> DeviceLoader:
    fw.manual_seed(5)
    data = TensorDataset(fw.arange(23))
    return DeviceLoader(DataLoader(data, 4, shuffle=True, num_workers=workers, **options), "cpu")


def numbers(batches: Any) -> list[list[int]]:
    return [x.tolist() for x, in batches]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_the_loader(workers: int) -> None:
    fw.manual_seed(5)
    data = TensorDataset(fw.arange(23))
    plain = DataLoader(data, 4, shuffle=True, num_workers=workers)
    expected = numbers(plain), numbers(plain)
    loader = loader_of(workers)
    assert (numbers(loader), numbers(loader)) == expected and len(loader) == 6


def test_batches_are_read_ahead() -> None:
    read: list[int] = []

    def batches() -> Any:
        for i in range(10):
            read.append(i)
            yield i

    loop = iter(DeviceLoader(batches(), "cpu", ahead=3))
    next(loop)
    wanted = time.monotonic() + 60
    while len(read) < 5 and time.monotonic() < wanted:
        time.sleep(0.01)
    time.sleep(0.05)
    assert read == [0, 1, 2, 3, 4]  # that of the loop, three in the queue, one in the hand
    assert list(loop) == list(range(1, 10))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [1, 3, 6])
def test_a_state_is_the_position_of_the_loop(workers: int, taken: int) -> None:
    """Batches that were read ahead come again."""
    uninterrupted = loader_of(workers)
    expected = numbers(uninterrupted)
    first = loader_of(workers)
    loop = iter(first)
    begun = numbers(next(loop) for _ in range(taken))
    time.sleep(0.05)  # the thread is ahead by now
    resumed = loader_of(workers)
    resumed.load_state_dict(first.state_dict())
    assert begun + numbers(resumed) == expected


def test_random_numbers_of_the_loop_are_those_without_a_thread() -> None:
    drawn = []
    for wrap in (lambda loader: loader, lambda loader: DeviceLoader(loader, "cpu")):
        fw.manual_seed(1)
        loader = wrap(DataLoader(TensorDataset(fw.arange(20)), 2, shuffle=True))
        drawn.append([(x.tolist(), fw.rand(1).item()) for x, in loader])
    assert drawn[0] == drawn[1]


def test_leaving_the_loop_ends_the_thread() -> None:
    for _ in loader_of(2):
        break
    for thread in threads():
        thread.join(30)
    assert threads() == []


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_worker_that_is_killed_is_named(method: str) -> None:
    loader = DeviceLoader(DataLoader(Killed(), 2, num_workers=2, multiprocessing_context=method),
                          "cpu")
    with pytest.raises(fw.WorkerError, match=r"worker 0 \(process \d+\) was killed by signal 9"):
        list(loader)


def test_a_worker_that_hangs_is_named() -> None:
    data = Hanging()
    loader = DeviceLoader(DataLoader(data, 2, num_workers=2, timeout=0.5), "cpu")
    with pytest.raises(fw.WorkerError, match=r"worker 0 is reading the batch \[4, 5\]"):
        list(loader)
    data.released.set()


def test_a_loader_that_hangs_is_named() -> None:
    data = Hanging()
    loader = DeviceLoader(DataLoader(data, 2), "cpu", timeout=0.5)
    with pytest.raises(fw.WorkerError, match=r"batch number 2 did not come within timeout=0\.5"):
        list(loader)
    data.released.set()


def test_an_error_of_a_sample_is_raised_in_the_loop() -> None:
    def batches() -> Any:
        yield 1
        raise KeyError("sample 2")

    loop = iter(DeviceLoader(batches(), "cpu"))
    assert next(loop) == 1
    with pytest.raises(KeyError, match="sample 2"):
        next(loop)


def test_containers_keep_their_kinds() -> None:
    batch = {"x": fw.ones(1), "y": [fw.ones(2), "name"], "z": (1, None)}
    assert str(moved(batch, "cpu")) == str(batch)
