"""`utils.data` beside PyTorch's: names, signatures, what is collated, orders and lengths."""

from __future__ import annotations

import inspect
from collections import OrderedDict, UserDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data as theirs

import fusewire as fw
import fusewire.utils.data as ours

# Public names of torch.utils.data that are not here, and why.
MISSING = {
    "DFIterDataPipe": "data pipes", "DataChunk": "data pipes", "IterDataPipe": "data pipes",
    "MapDataPipe": "data pipes", "functional_datapipe": "data pipes",
    "argument_validation": "data pipes", "runtime_validation": "data pipes",
    "runtime_validation_disabled": "data pipes", "non_deterministic": "data pipes",
    "guaranteed_datapipes_determinism": "data pipes",  # which PyTorch itself has given up
    "_DatasetKind": "not public",
}
NAMES = sorted(set(theirs.__all__) - set(MISSING))


def test_every_public_name_is_here_or_has_a_reason() -> None:
    assert [name for name in NAMES if not hasattr(ours, name)] == []
    assert set(ours.__all__) - set(theirs.__all__) == {"WorkerInfo"}  # theirs is not exported


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each; a generator as default is one of the library's own."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, "generator" if type(p.default).__name__ == "Generator" else p.default)
            for p in found]


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name: str) -> None:
    mine, other = getattr(ours, name), getattr(theirs, name)
    assert parameters(mine) == parameters(other)


@pytest.mark.parametrize(("name", "method"), [
    ("Sampler", "__iter__"), ("DistributedSampler", "set_epoch"), ("Dataset", "__getitem__"),
    ("Dataset", "__add__"), ("StackDataset", "__getitems__"), ("Subset", "__getitems__"),
])
def test_signatures_of_methods(name: str, method: str) -> None:
    mine = parameters(getattr(getattr(ours, name), method))
    assert mine == parameters(getattr(getattr(theirs, name), method))


def test_worker_info() -> None:
    from torch.utils.data._utils.worker import WorkerInfo

    assert parameters(ours.WorkerInfo) == parameters(WorkerInfo)


@pytest.mark.parametrize("module", ["dataloader", "dataset", "distributed", "sampler"])
def test_modules_that_scripts_import_from(module: str) -> None:
    import importlib

    mine = importlib.import_module(f"fusewire.utils.data.{module}")
    other = importlib.import_module(f"torch.utils.data.{module}")
    for name in NAMES:
        if getattr(other, name, None) is getattr(theirs, name) and (
                other.__name__ == getattr(theirs, name).__module__):
            assert getattr(mine, name) is getattr(ours, name)


# ---- samples to batches
Point = namedtuple("Point", "x y")
SAMPLES = {
    "floats": [0.5, 1.5], "ints": [1, 2], "bools": [True, False], "mixed": [1, 2.5],
    "strings": ["a", "b"], "bytes": [b"a", b"b"], "float32": [np.float32(1), np.float32(2)],
    "float64": [np.float64(1), np.float64(2)], "int16": [np.int16(1), np.int16(2)],
    "arrays": [np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)],
    "0-d arrays": [np.array(1.5), np.array(2.5)], "empty": [np.ones((0, 3)), np.ones((0, 3))],
    "half": [np.ones(2, np.float16)] * 3, "bytes of arrays": [np.arange(4, dtype=np.uint8)] * 2,
    "complex": [np.ones(2, np.complex64)] * 2,
    "tuples": [(1, 0.5, "a"), (2, 1.5, "b")], "lists": [[1, [2, 3]], [4, [5, 6]]],
    "dicts": [{"a": 1, "b": (1.0, [2])}, {"a": 3, "b": (4.0, [5])}],
    "ordered": [OrderedDict(a=1, b=2), OrderedDict(a=3, b=4)],
    "named": [Point(1, np.ones(2)), Point(2, np.zeros(2))],
    "user dict": [UserDict(a=1), UserDict(a=2)], "range": [range(3), range(3, 6)],
    "deep": [{"x": [(np.ones(1), {"y": True})]}] * 3,
}


def plain(x: Any) -> Any:
    """A batch of either library as types, dtypes and numbers."""
    if isinstance(x, (fw.Tensor, torch.Tensor)):
        return str(x.dtype).removeprefix("torch."), tuple(x.shape), x.tolist()
    if isinstance(x, (dict, UserDict)):
        return type(x).__name__, {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [plain(v) for v in x]
    return x


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("function", ["default_collate", "default_convert"])
def test_collate(function: str, name: str) -> None:
    samples = SAMPLES[name]
    assert plain(getattr(ours, function)(samples)) == plain(getattr(theirs, function)(samples))


@pytest.mark.parametrize("shape", [(), (2,), (2, 0), (3, 1, 2)])
def test_tensors_are_collated(shape: tuple[int, ...]) -> None:
    arrays = [np.random.default_rng(i).standard_normal(shape) for i in range(3)]
    found = ours.default_collate([fw.tensor(a) for a in arrays])
    assert plain(found) == plain(theirs.default_collate([torch.tensor(a) for a in arrays]))


@pytest.mark.parametrize("samples", [
    [np.ones(2), np.ones(3)], [(1, 2), (1,)], [object()], [None], [np.array(["a"])], [{1, 2}],
], ids=["sizes", "lengths", "object", "None", "texts", "set"])
def test_what_does_not_go_together(samples: list[Any]) -> None:
    for library in (ours, theirs):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            library.default_collate(samples)


# ---- orders and lengths
@pytest.mark.parametrize("total", [0, 1, 7, 10])
@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches(total: int, size: int, drop_last: bool) -> None:
    mine, other = (b.BatchSampler(range(total), size, drop_last) for b in (ours, theirs))
    assert list(mine) == list(other) and len(mine) == len(other)
    mine, other = (b.DataLoader(range(total), size, drop_last=drop_last) for b in (ours, theirs))
    assert [b.tolist() for b in mine] == [b.tolist() for b in other] and len(mine) == len(other)


@pytest.mark.parametrize("lengths", [[0.5, 0.5], [0.3, 0.3, 0.4], [1.0], [0.1, 0.9], [4, 7], [11]])
def test_random_split(lengths: list[float]) -> None:
    parts = [[len(p) for p in library.random_split(range(11), lengths)]
             for library in (ours, theirs)]
    assert parts[0] == parts[1]


@pytest.mark.parametrize(("total", "replicas"), [(11, 3), (12, 3), (2, 5), (1, 4), (9, 1)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed(total: int, replicas: int, drop_last: bool) -> None:
    for rank in range(replicas):
        made = [library.DistributedSampler(range(total), replicas, rank, False, 0, drop_last)
                for library in (ours, theirs)]
        assert list(made[0]) == list(made[1]) and len(made[0]) == len(made[1])


@pytest.mark.parametrize("options", [{}, {"num_samples": 3}, {"num_samples": 25},
                                     {"replacement": True}, {"replacement": True, "num_samples": 99}
                                     ], ids=str)
def test_random_orders_have_the_same_properties(options: dict[str, Any]) -> None:
    found = []
    for library in (ours, theirs):
        sampler = library.RandomSampler(range(10), **options)
        order = list(sampler)
        whole = [sorted(order[i:i + 10]) == list(range(10)) for i in range(0, len(order) - 9, 10)]
        found.append((len(sampler), len(order), options.get("replacement") or whole))
    assert found[0] == found[1]


@pytest.mark.parametrize(("kind", "arguments"), [
    ("RandomSampler", (range(0),)), ("RandomSampler", (range(3), 1)),
    ("RandomSampler", (range(3), False, -1)), ("BatchSampler", (range(3), 0, False)),
    ("BatchSampler", (range(3), 2, None)), ("WeightedRandomSampler", ([1.0], 0)),
    ("WeightedRandomSampler", ([[1.0]], 1)), ("WeightedRandomSampler", ([1.0], 1, 2)),
    ("DistributedSampler", (range(3), 2, 2)), ("DataLoader", (range(3), 0)),
    ("DataLoader", (range(3), 1, True, [0])), ("DataLoader", (range(3), 2, None, None, [[0]])),
    ("DataLoader", (range(3), None, None, None, None, 0, None, False, True)),
    ("DataLoader", (range(3), 1, None, None, None, -1)), ("StackDataset", ()),
    ("ConcatDataset", ([],)),
], ids=str)
def test_what_both_refuse(kind: str, arguments: tuple[Any, ...]) -> None:
    for library in (ours, theirs):
        with pytest.raises((ValueError, TypeError, AssertionError)):
            getattr(library, kind)(*arguments)


# ---- loops
class Shares:
    """Both libraries' IterableDataset, each worker with its share."""

    def __init__(self, library: Any) -> None:
        class Data(library.IterableDataset):  # type: ignore[name-defined,misc]
            def __iter__(self) -> Any:
                info = library.get_worker_info()
                first, step = (0, 1) if info is None else (info.id, info.num_workers)
                return iter(range(first, 11, step))

        self.data = Data()


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # more than cores
@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("options", [{"batch_size": 3}, {"batch_size": 3, "drop_last": True},
                                     {"batch_size": None}], ids=str)
def test_what_is_gone_through(workers: int, options: dict[str, Any]) -> None:
    found = [[plain(b) for b in library.DataLoader(Shares(library).data, num_workers=workers,
                                                   **options)]
             for library in (ours, theirs)]
    assert found[0] == found[1]


def test_attributes_of_a_loader() -> None:
    made = [library.DataLoader(range(5), 2, num_workers=workers)
            for library in (ours, theirs) for workers in (0, 1)]
    names = ("batch_size", "drop_last", "num_workers", "prefetch_factor", "timeout", "pin_memory",
             "pin_memory_device", "persistent_workers", "in_order", "worker_init_fn", "generator",
             "multiprocessing_context")
    values = [[getattr(loader, name) for name in names] for loader in made]
    assert values[:2] == values[2:]
    assert [type(x.sampler).__name__ for x in made[::2]] == ["SequentialSampler"] * 2
