"""Every test here has two GPUs, which are not there, and so no kernels of ours run on them; but for
tests with BOTH, which run on a GPU as well: `pytest -m gpu`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from eager_cuda import fake_cupy
from gpus import real_cupy

import fusewire as fw
from fusewire.codegen import backend
from fusewire.codegen.cuda.runtime.backend import CUDA_BACKEND
from fusewire.eager.upper_layer import UPPER


@pytest.fixture(autouse=True)
def cupy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if getattr(request, "param", "stand-in") == "gpu":
        yield real_cupy()
        return

    def no_kernels(number: int) -> NoReturn:
        raise fw.CodegenError("kernels of ours need a GPU that is there")

    monkeypatch.setattr(UPPER, "device_op", None)
    monkeypatch.setattr(UPPER, "device_in_range", None)
    monkeypatch.setitem(backend._LOADED, "cuda", replace(CUDA_BACKEND, device=no_kernels))
    with fake_cupy.installed() as module:
        yield module
