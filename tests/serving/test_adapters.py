"""The adapters for KServe and Ray Serve, as far as they run without these packages."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.serving import Model
from fusewire.serving.kserve import kserve_model
from fusewire.serving.ray import Replica, ray_deployment


def double() -> Model:
    return Model(lambda x: 2 * x, {"x": fw.zeros(1, 2)}, max_batch=4, outputs=["y"])


def test_a_replica_of_ray_collects_requests_in_batches() -> None:
    async def main() -> Any:
        replica = Replica(double)
        return await asyncio.gather(*(replica.infer({"x": np.full((1, 2), i, np.float32)})
                                      for i in range(4)))

    assert [result["y"].tolist() for result in asyncio.run(main())] == [
        [[2 * i, 2 * i]] for i in range(4)]


class Infer:
    """The names of KServe that the adapter calls, with the arguments that they get."""

    def __init__(self, *values: Any) -> None:
        self.values, self.array = values, None

    def set_data_from_numpy(self, array: Any, binary_data: bool) -> None:
        self.array = array


class Asked:
    id, name = None, "x"

    @property
    def inputs(self) -> list[Any]:
        return [self]

    def as_numpy(self) -> Any:
        return np.ones((1, 2), np.float32)


def test_kserve_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    package: Any = ModuleType("kserve")
    package.Model = type("Model", (), {"__init__": lambda self, name: setattr(self, "name", name)})
    package.InferOutput = package.InferResponse = Infer
    monkeypatch.setitem(sys.modules, "kserve", package)
    served = kserve_model("double", double())
    answer = asyncio.run(served.predict(Asked()))
    assert served.ready and answer.values[:2] == ("-", "double")
    [output] = answer.values[2]
    assert output.values == ("y", [1, 2], "FP32") and output.array.tolist() == [[2, 2]]


def test_ray_is_imported_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="ray"):
        ray_deployment(double)
