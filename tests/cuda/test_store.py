"""Cubins are made once, and found again by other processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fusewire.codegen.cuda.runtime import cubin_cache, nvrtc
from fusewire.eager.settings import settings

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")

SOURCE = 'extern "C" __global__ void set(float* x) { __shared__ float y[8]; *x = y[threadIdx.x]; }'


@pytest.fixture
def made(tmp_path: Path, monkeypatch: Any) -> Iterator[list[str]]:
    """The architectures that NVRTC had to compile for, with an empty folder for entries."""
    found: list[str] = []
    compile = nvrtc.compile

    def noting(source: str, arch: str, *more: Any) -> nvrtc.CompiledModule:
        found.append(arch)
        return compile(source, arch, *more)

    before = settings.disk_mb, settings.disk_dir
    settings.disk_mb, settings.disk_dir = 64, str(tmp_path)
    monkeypatch.setattr(nvrtc, "compile", noting)
    cubin_cache._MODULES.clear()
    yield found
    cubin_cache._MODULES.clear()
    settings.disk_mb, settings.disk_dir = before


def test_a_source_is_compiled_once(made: list[str], tmp_path: Path) -> None:
    first = cubin_cache.compile_cached(SOURCE, "sm_80")
    assert cubin_cache.compile_cached(SOURCE, "sm_80") is first and made == ["sm_80"]
    cubin_cache._MODULES.clear()  # as another process begins
    again = cubin_cache.compile_cached(SOURCE, "sm_80")
    assert made == ["sm_80"] and again == first and again.resources["set"].shared == 32
    assert len(list(tmp_path.glob("*.cubin"))) == 1


def test_what_code_depends_on_has_entries_of_its_own(made: list[str], monkeypatch: Any) -> None:
    calls: list[Any] = [(SOURCE, "sm_80"), (SOURCE, "sm_90"), (SOURCE, "sm_90", ["-lineinfo"]),
                        (SOURCE + " ", "sm_90")]
    for call in calls:
        cubin_cache.compile_cached(*call)
    monkeypatch.setattr(nvrtc, "identity", lambda newest: "another compiler")
    cubin_cache._MODULES.clear()
    cubin_cache.compile_cached(*calls[0])
    assert len(made) == 5
