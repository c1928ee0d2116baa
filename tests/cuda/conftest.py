"""Tests that take `make_device`, or with BOTH `gpus`, run in the emulator, and with `pytest -m gpu`
on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from emulated_gpu import EmulatedGpu, emulated_gpus
from gpus import EMULATOR, GPU, real_cupy


@pytest.fixture(scope="session", params=[EMULATOR, GPU])
def make_device(request: pytest.FixtureRequest) -> Any:
    """make_device(order) is a device that programs run on."""
    return request.param


@pytest.fixture
def gpus(request: pytest.FixtureRequest) -> Iterator[list[EmulatedGpu]]:
    """Tensors can be on GPUs: two that are emulated, or with BOTH on those of this machine."""
    if getattr(request, "param", "emulator") == "gpu":
        real_cupy()
        yield []
    else:
        with emulated_gpus() as found:
            yield found
