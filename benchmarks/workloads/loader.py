"""A pass over a data set in batches of 64: by the loop itself, and with two workers.

By default, workers are threads in fusewire and processes in torch;
`loader_python_work` has processes in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import fusewire as fw

from ..workload import Call, Inputs, Maker, Workload
from .weights import normal

COUNT, WIDTH, BATCH = 100_000, 16, 64
FEW, STEPS = 4_000, 2_000  # slow samples, and their seconds


class Rows:
    """Sample i is a row of `x` and its label."""

    def __init__(self, inputs: Inputs) -> None:
        self.x, self.labels = inputs["x"], inputs["labels"]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.x[index], int(self.labels[index])


class Worked(Rows):
    """Sample i is a row of `x` and its label, after a tenth of a millisecond of Python code."""

    def __getitem__(self, index: int) -> tuple[Any, int]:
        total = 0
        for step in range(STEPS):
            total += step * index
        row, label = super().__getitem__(index)
        return row, label + total % 2


def inputs(count: int = COUNT) -> Inputs:
    return {"x": normal(3, count, WIDTH), "labels": np.random.default_rng(4).integers(0, 10, count)}


def one_pass(loader: Iterable[Any]) -> Call:
    """A call that passes over all batches and returns the last one."""
    def call() -> Any:
        last: Any = None
        for batch in loader:
            last = batch
        return last

    return call


def fusewire_loader(source: Any, options: Mapping[str, Any]) -> Maker:
    def make(inputs: Inputs) -> Call:
        from fusewire.utils.data import DataLoader, TensorDataset

        data = source(inputs) if source else TensorDataset(*map(fw.from_numpy, inputs.values()))
        return one_pass(DataLoader(data, BATCH, **options))

    return make


def torch_loader(source: Any, workers: int) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        data = source(inputs) if source else TensorDataset(*map(torch.from_numpy, inputs.values()))
        return one_pass(DataLoader(data, BATCH, num_workers=workers))

    return make


def loading(name: str, about: str, source: Any, workers: int, count: int = COUNT, **options: Any
            ) -> Workload:
    options = {"num_workers": workers, **options}
    return Workload(name, f"{about}, {workers} workers, batches of {BATCH}", lambda: inputs(count),
                    {"fusewire eager": fusewire_loader(source, options),
                     "torch": torch_loader(source, workers)})


WORKLOADS = [
    loading("loader_tensors", f"{COUNT} rows of a TensorDataset", None, 0),
    loading("loader_tensors_2", f"{COUNT} rows of a TensorDataset", None, 2),
    loading("loader_python", f"{COUNT} samples made one by one", Rows, 0),
    loading("loader_python_2", f"{COUNT} samples made one by one", Rows, 2),
    loading("loader_python_work", f"{FEW} samples of {STEPS} steps of Python, processes", Worked, 2,
            FEW, multiprocessing_context="fork"),
]
