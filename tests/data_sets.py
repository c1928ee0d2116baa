"""Defines data sets for tests of the loader, which worker processes can import."""

from __future__ import annotations

import os
import random
import threading
import time

import numpy as np

import fusewire as fw
from fusewire.eager.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info


def numbered(n=10):
    """Sample i is (i, (2 * i, 2 * i + 1)), in tensors."""
    return TensorDataset(fw.arange(n), fw.arange(n * 2).reshape(n, 2))


class Squares(Dataset):
    """Sample i is (i, i * i). Early samples take longer, so that workers overtake one another."""

    def __init__(self, n, delay=0.0):
        self.n, self.delay = n, delay
        self.threads = set()

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.threads.add(threading.current_thread().name)
        time.sleep(self.delay * (self.n - i))
        return i, float(i * i)


class Images(Dataset):
    """Sample i is an array of `size` numbers i, which may exceed a pipe's buffer, and a name."""

    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.full(self.size, i, np.float32), f"number {i}"


class Failing(Squares):
    """Squares, but sample 5 is the result of `failure(5)`."""

    def __init__(self, n, failure):
        super().__init__(n)
        self.failure = failure

    def __getitem__(self, i):
        return self.failure(i) if i == 5 else super().__getitem__(i)


class Refused(Exception):
    """An error that takes two arguments, and shows neither."""

    def __init__(self, code, reason):
        super().__init__(reason)
        self.code = code


def refuse(i):
    raise Refused(7, f"sample {i} is refused")


def key_error(i):
    raise KeyError(f"sample {i}\nis broken")


def no_file(i):
    with open(f"nowhere/{i}.png"):
        pass


def bad_text(i):
    return b"ab\xff".decode()


def shape_error(i):
    return fw.ones(2) + fw.ones(3)


def unsendable(i):
    class Local(ValueError):
        pass

    raise Local(f"sample {i}", lambda: 0)


def sys_exit(i):
    raise SystemExit(3)


def os_exit(i):
    os._exit(7)


def killed(i):
    os.kill(os.getpid(), 9)


def asleep(i):
    time.sleep(30)


class Count(IterableDataset):
    """The numbers 0 to n - 1. `shared`: each worker has its share of them."""

    def __init__(self, n, shared=False):
        self.n, self.shared, self.start, self.step = n, shared, 0, 1

    def __iter__(self):
        info = get_worker_info()
        if self.shared and info is not None:
            return iter(range(info.id, self.n, info.num_workers))
        return iter(range(self.start, self.n, self.step))

    def __len__(self):
        return self.n


def take_share(number):
    """A worker_init_fn as in PyTorch's documentation, which changes the worker's data set."""
    info = get_worker_info()
    info.dataset.start, info.dataset.step = info.id, info.num_workers


class Draws(Dataset):
    """Sample i is random numbers that the worker draws, with its id and seed."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        info = get_worker_info()
        numbers = info.rng.random_generator.random(), float(info.rng.numpy_generator.random())
        return (info.id, info.seed, info.worker_method, fw.rand(1).item(), *numbers,
                np.random.rand(), random.random())


class Modes(Dataset):
    """Sample i is the grad mode, and the gradient of a square that the worker computed."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        x = fw.tensor(float(i), requires_grad=True)
        (x * x).backward()
        return fw.is_grad_enabled(), x.grad.item()


class Sums(Dataset):
    """Sample i is the sum of a large array, which native code computes on several threads."""

    def __init__(self, n):
        self.x = fw.ones(1 << 18)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return float((self.x * i).sum().item())


def as_list(samples):
    return samples


def of_dtypes(samples):
    """A batch of unusual parts."""
    return {"bf16": fw.ones(3).astype(fw.bfloat16), "none": None, "empty": fw.ones((0, 2)),
            "turned": np.arange(6).reshape(2, 3).T, "grad": fw.ones(2).requires_grad_(),
            "text": "a" * 100_000}


def make_lambda(samples):
    return lambda: samples
