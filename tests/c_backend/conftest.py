"""The devices of examples/backends/c_source are there for the tests of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from backends import c_source
from backends.c_source.arrays import CDevices
from thresholds import fresh_cache

from fusewire.codegen.eager_jit import device_ops


@pytest.fixture(autouse=True)
def back_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[CDevices]:
    """The kind of these devices, whose ops get code however many there are."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler here")
    monkeypatch.setattr(device_ops, "_PROGRAMS", fresh_cache("eager GPU programs"))
    c_source.install()
    c_source.C.calls.clear()
    yield c_source.C
    c_source.remove()
