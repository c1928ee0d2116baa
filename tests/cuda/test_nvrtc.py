"""NVRTC: sources become machine code for GPUs that are not here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from fusewire.codegen.cuda.runtime import nvrtc

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")

DOUBLED = """
extern "C" __global__ void doubled(float* x, long long n) {
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < n) x[i] = x[i] * 2.0f;
}
extern "C" __global__ void __launch_bounds__(256) reversed(float* x, int far) {
    __shared__ float row[256];
    float own[32];
    for (int i = 0; i < 32; ++i) own[i * far & 31] = x[i];
    row[threadIdx.x] = own[far];
    __syncthreads();
    x[threadIdx.x] = row[255 - threadIdx.x];
}
"""
SUM = 'extern "C" __global__ void sum(float* x) { x[0] = x[1] * x[2] + x[3]; }'


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
def test_a_source_becomes_machine_code(arch: str) -> None:
    compiled = nvrtc.compile(DOUBLED, arch)
    assert compiled.cubin.startswith(b"\x7fELF") and b"reversed" in compiled.cubin
    assert set(compiled.resources) == {"doubled", "reversed"}


def test_each_kernel_tells_what_it_takes() -> None:
    found = nvrtc.compile(DOUBLED).resources
    assert 4 <= found["doubled"].registers <= 16
    assert found["doubled"] == nvrtc.Resources(found["doubled"].registers, 0, 0, 0, 0)
    assert (found["reversed"].stack, found["reversed"].shared) == (32 * 4, 256 * 4)


def test_spills_are_told() -> None:
    """As many values as that are not held by 40 registers, which 1536 threads leave each."""
    source = """extern "C" __global__ void __launch_bounds__(768, 2) many(float* x) {
        float own[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) own[i] = x[threadIdx.x + i * 768];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 64; ++i) x[threadIdx.x + i * 768] = own[i] * own[i * 7 % 64];
    }"""
    found = nvrtc.compile(source).resources["many"]
    assert found.registers <= 40 and found.spill_stores > 0 < found.spill_loads


def test_a_called_function_is_told_of_too() -> None:
    """As CUDA 13 says it, with times."""
    found = nvrtc.resources("""
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
ptxas         .     160 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 160 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 4.128 ms
ptxas info    : Function properties for helper
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
""")
    assert found == {"one": nvrtc.Resources(32, 160, 8, 12, 1024),
                     "helper": nvrtc.Resources(0, 16, 4, 4, 0)}


def test_a_sum_is_not_contracted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two roundings as on the CPU: the compiler's own choice would be one."""
    ours = nvrtc.compile(SUM).cubin
    monkeypatch.setattr(nvrtc, "FLAGS", tuple(f for f in nvrtc.FLAGS if "fmad" not in f))
    assert ours != nvrtc.compile(SUM).cubin


def test_the_same_source_gives_the_same_bytes_on_every_thread() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: nvrtc.compile(DOUBLED).cubin, range(8)))
    assert len(found) == 1


def test_a_mistake_is_shown_with_its_line() -> None:
    source = DOUBLED.replace("x[i] * 2.0f", "twice(x[i])")
    with pytest.raises(fw.CodegenError) as error:
        nvrtc.compile(source)
    assert 'kernels.cu(4): error: identifier "twice" is undefined' in str(error.value)
    assert ">    4 |     if (i < n) x[i] = twice(x[i]);\n     5 | }" in str(error.value)


def test_an_architecture_that_is_not_known() -> None:
    with pytest.raises(fw.CodegenError,
                       match=r"(?s)cannot compile for sm_123.*it supports .*sm_80.*sm_90"):
        nvrtc.compile(SUM, "sm_123")


def test_the_compiler_has_a_version_and_an_identity() -> None:
    found = nvrtc.library()
    assert found.version[0] in nvrtc.VERSIONS and {"sm_80", "sm_90"} <= set(found.archs)
    assert nvrtc.identity() == nvrtc.identity()


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What was found before is looked for again, and afterwards again."""
    for cached in (nvrtc.find, nvrtc.library):
        cached.cache_clear()
    yield
    for cached in (nvrtc.find, nvrtc.library):
        cached.cache_clear()


def test_where_there_is_none_the_error_names_a_package(
    forgetful: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "_name", lambda version: f"libnothing.so.{version}")
    for newest, packages in [(None, "nvidia-cuda-nvrtc or pip install nvidia-cuda-nvrtc-cu12"),
                             (12, "nvidia-cuda-nvrtc-cu12")]:
        with pytest.raises(fw.CodegenError, match=f"no NVRTC(?s:.*): pip install {packages}$"):
            nvrtc.compile(SUM, newest=newest)
    with pytest.raises(fw.CodegenError, match=r"no NVRTC for CUDA 11(?s:.*)install a driver for"):
        nvrtc.compile(SUM, newest=11)


def test_one_that_is_damaged_is_named(
    forgetful: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lib64").mkdir()
    damaged = tmp_path / "lib64" / nvrtc._name(13)
    damaged.write_text("nothing")
    without_packages: Any = {13: ()}
    monkeypatch.setattr(nvrtc, "_FOLDERS", without_packages)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert nvrtc.find(13) == str(damaged)
    with pytest.raises(fw.CodegenError, match="cannot be loaded"):
        nvrtc.compile(SUM, newest=13)
