"""Every test here has two GPUs, which are not there, and no code of ours for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from eager_cuda import fake_cupy

from fusewire.eager import on_device


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(on_device, "compiled", None)
    with fake_cupy.installed() as module:
        yield module
