"""Every test here has two GPUs, which are not there, and so no kernels of ours run on them; but for
tests with BOTH, which run on a GPU as well: `pytest -m gpu`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from eager_cuda import fake_cupy
from gpus import real_cupy

import fusewire as fw
from fusewire.codegen.cuda.runtime import eager, multi_device
from fusewire.eager.core import on_device
from fusewire.eager.ops import range_checks


@pytest.fixture(autouse=True)
def cupy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if getattr(request, "param", "stand-in") == "gpu":
        yield real_cupy()
        return

    def no_kernels(number: int) -> NoReturn:
        raise fw.CodegenError("kernels of ours need a GPU that is there")

    assert eager.run_op  # is imported, or CuPy would bring it back
    monkeypatch.setattr(on_device, "compiled", None)
    monkeypatch.setattr(range_checks, "on_gpu", None)
    monkeypatch.setattr(multi_device, "gpu", no_kernels)
    with fake_cupy.installed() as module:
        yield module
