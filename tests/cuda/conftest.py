"""Tests that take `make_device` run in the emulator, and with `pytest -m gpu` on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from gpus import EMULATOR, GPU


@pytest.fixture(scope="session", params=[EMULATOR, GPU])
def make_device(request: pytest.FixtureRequest) -> Any:
    """make_device(order) is a device that programs run on."""
    return request.param
