"""Data sets, samplers and loaders: what comes in which order, and errors that leave threads."""

import threading
import time
import traceback
from collections import namedtuple

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import ArgumentError, DTypeError, ShapeError
from fusewire.eager.ops.random import Generator
from fusewire.eager.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)


class Squares(Dataset):
    """Sample i is (i, i * i); early samples take longer, so that threads overtake one another."""

    def __init__(self, n, delay=0.0, bad=None):
        self.n, self.delay, self.bad = n, delay, bad
        self.threads = set()

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.threads.add(threading.current_thread().name)
        time.sleep(self.delay * (self.n - i))
        if i == self.bad:
            raise KeyError(f"sample {i} is broken")
        return i, float(i * i)


class Count(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def numbered(n=10):
    return TensorDataset(fw.arange(n), fw.arange(n * 2).reshape(n, 2))


# ---- data sets
def test_tensor_dataset_gives_rows():
    data = numbered()
    first, second = data[3]
    assert len(data) == 10 and first.item() == 3 and second.tolist() == [6, 7]
    with pytest.raises(ShapeError, match=r"got shapes \(2,\), \(3,\)"):
        TensorDataset(fw.ones(2), fw.ones(3))


def test_random_split_parts_are_disjoint_and_repeatable():
    data = Squares(10)
    parts = random_split(data, [7, 3], Generator(5))
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    assert parts[0].indices == random_split(data, [0.7, 0.3], Generator(5))[0].indices
    assert [len(p) for p in random_split(Squares(11), [0.5, 0.25, 0.25])] == [6, 3, 2]
    with pytest.raises(ArgumentError, match="add up to 9, the data set has 10"):
        random_split(data, [6, 3])


# ---- samplers
def test_samplers():
    data = Squares(7)
    assert list(SequentialSampler(data)) == list(range(7))
    drawn = list(RandomSampler(data, generator=Generator(1)))
    assert sorted(drawn) == list(range(7)) and drawn == list(
        RandomSampler(data, generator=Generator(1)))
    assert len(list(RandomSampler(data, num_samples=17))) == 17
    many = list(RandomSampler(data, replacement=True, num_samples=50))
    assert len(many) == 50 and set(many) <= set(range(7))
    assert list(BatchSampler(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    batches = BatchSampler(range(7), 3, drop_last=True)
    assert list(batches) == [[0, 1, 2], [3, 4, 5]] and len(batches) == 2
    with pytest.raises(ArgumentError, match="batch_size"):
        BatchSampler(range(7), 0)


def test_shuffling_differs_from_pass_to_pass_and_follows_the_seed():
    loader = DataLoader(numbered(50), batch_size=50, shuffle=True)
    fw.manual_seed(2)
    first, second = (next(iter(loader))[0].tolist() for _ in range(2))
    fw.manual_seed(2)
    assert first != second and first == next(iter(loader))[0].tolist()


# ---- batches
def test_batches_of_tensors_come_in_order():
    loader = DataLoader(numbered(), batch_size=4)
    batches = list(loader)
    assert [b[0].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2][1].tolist() == [[16, 17], [18, 19]] and len(loader) == 3
    assert len(DataLoader(numbered(), batch_size=4, drop_last=True)) == 2


def test_a_subset_is_read_at_once_as_well():
    class Counting(TensorDataset):
        def __getitem__(self, index):
            raise AssertionError("one by one")

    part = Subset(Subset(numbered(), [9, 8, 7, 6]), [0, 3])
    x, y = next(iter(DataLoader(part, batch_size=2)))
    assert x.tolist() == [9, 6] and y.tolist() == [[18, 19], [12, 13]]
    with pytest.raises(AssertionError, match="one by one"):  # what a subclass overrides counts
        next(iter(DataLoader(Counting(fw.ones(3)))))


def test_default_collate():
    Point = namedtuple("Point", "x name")
    batch = default_collate([Point(1, "a"), Point(2, "b")])
    assert isinstance(batch, Point) and batch.x.tolist() == [1, 2] and batch.name == ["a", "b"]
    batch = default_collate([{"x": np.ones(2, np.float64), "y": (0.5, True)}] * 3)
    assert batch["x"].shape == (3, 2) and batch["x"].dtype == fw.float64
    assert batch["y"][0].dtype == fw.float32 and batch["y"][1].dtype == fw.bool
    assert default_collate([fw.ones(2), fw.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    with pytest.raises(ShapeError, match=r"\(2,\), \(3,\)[\s\S]*pad them"):
        default_collate([fw.ones(2), fw.ones(3)])
    with pytest.raises(DTypeError, match="samples of object"):
        default_collate([object()])


def test_own_collate_function_and_no_batches():
    loader = DataLoader(Squares(3), batch_size=2, collate_fn=lambda samples: samples)
    assert list(loader) == [[(0, 0.0), (1, 1.0)], [(2, 4.0)]]
    assert list(DataLoader(Squares(2), batch_size=None)) == [[0, 0.0], [1, 1.0]]
    loader = DataLoader(numbered(), batch_sampler=[[3, 1], [2]])
    assert [b[0].tolist() for b in loader] == [[3, 1], [2]] and len(loader) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_dataset(workers):
    def read(**options):
        loader = DataLoader(Count(7), num_workers=workers, **options)
        return [b.tolist() for b in loader]

    assert read(batch_size=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert read(batch_size=3, drop_last=True) == [[0, 1, 2], [3, 4, 5]]
    assert read(batch_size=7) == [list(range(7))]
    assert list(DataLoader(Count(2), batch_size=None, num_workers=workers)) == [0, 1]


# ---- threads
def test_workers_keep_the_order():
    data = Squares(24, delay=2e-4)
    loader = DataLoader(data, batch_size=2, num_workers=4)
    numbers = [n for x, _ in loader for n in x.tolist()]
    assert numbers == list(range(24))
    assert len(data.threads) > 1 and "MainThread" not in data.threads


def test_workers_read_only_so_far_ahead():
    data = Squares(100)
    batches = iter(DataLoader(data, batch_size=1, num_workers=2, prefetch_factor=3))
    seen = []
    data.__class__ = type("Noting", (Squares,), {
        "__getitem__": lambda self, i: (seen.append(i), Squares.__getitem__(self, i))[1]})
    next(batches)
    time.sleep(0.05)
    assert max(seen) <= 6
    batches.close()


@pytest.mark.parametrize("workers", [0, 3])
def test_an_error_comes_out_in_its_turn_with_its_own_traceback(workers):
    loader = DataLoader(Squares(10, bad=5), batch_size=2, num_workers=workers)
    batches, got = iter(loader), []
    with pytest.raises(KeyError, match="sample 5 is broken") as info:
        for x, _ in batches:
            got.append(x.tolist())
    assert got == [[0, 1], [2, 3]]
    assert "__getitem__" in [f.name for f in traceback.extract_tb(info.tb)]
    assert list(batches) == []  # the loader has ended
    assert threading.active_count() < 20


def test_choices_that_contradict_one_another():
    data = Squares(4)
    for options in ({"shuffle": True, "sampler": SequentialSampler(data)},
                    {"batch_sampler": [[0]], "batch_size": 2},
                    {"batch_size": None, "drop_last": True}):
        with pytest.raises(ArgumentError, match="DataLoader: "):
            DataLoader(data, **options)
    with pytest.raises(ArgumentError, match="an order of its own"):
        DataLoader(Count(3), shuffle=True)
