"""Every test here has two GPUs, which are not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from eager_cuda import fake_cupy


@pytest.fixture(autouse=True)
def cupy() -> Iterator[Any]:
    with fake_cupy.installed() as module:
        yield module
