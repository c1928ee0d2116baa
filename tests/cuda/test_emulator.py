"""The emulator of CUDA: correct kernels give NumPy's values in every order of their threads, and
every fault is caught at its line, which is marked with `// here`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.build import BuildError, compiler
from emulator.emulator import AVAILABLE, KernelFault, Module

needs_compiler = pytest.mark.skipif(not AVAILABLE, reason="no g++ here")
CORRECT = Path(__file__).with_name("correct.cu").read_text(encoding="utf-8")
in_all_orders = pytest.mark.parametrize("order", [0, 1, 2, 3])


def numbers(*shape: int, seed: int = 0) -> Any:
    """Read-only, as inputs are."""
    made = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    made.flags.writeable = False
    return made


@pytest.fixture(params=["check", "fast"])
def correct(request: pytest.FixtureRequest) -> Module:
    return Module(CORRECT, request.param)


# ---- correct kernels ---------------------------------------------------------------------------


@needs_compiler
@in_all_orders
def test_softmax(correct: Module, order: int) -> None:
    x, y = numbers(5, 300), np.zeros((5, 300), np.float32)
    correct.launch("softmax", (5,), (128,), [x, y, np.int32(300)], order=order)
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-5)


@needs_compiler
@in_all_orders
def test_sum_of_blocks(correct: Module, order: int) -> None:
    x, total = numbers(1000), np.zeros((), np.float64)
    correct.launch("block_sum", (3,), (128,), [x, total, np.int64(1000)], order=order)
    np.testing.assert_allclose(total, x.sum(dtype=np.float64), rtol=1e-12)


@needs_compiler
@in_all_orders
def test_histogram_with_atomics(correct: Module, order: int) -> None:
    x = np.random.default_rng(1).integers(0, 50, 2000).astype(np.uint8)
    counts = np.zeros(50, np.uint32)
    correct.launch("histogram", (4,), (64,), [x, counts, np.int32(2000), np.int32(50)],
                   shared=200, order=order)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=50))


@needs_compiler
@in_all_orders
def test_tiled_matmul(correct: Module, order: int) -> None:
    a, b, c = numbers(20, 37), numbers(37, 25, seed=1), np.zeros((20, 25), np.float32)
    correct.launch("matmul", (2, 2), (16, 16), [a, b, c, *map(np.int32, (20, 25, 37))], order=order)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@needs_compiler
@in_all_orders
def test_copy_of_vectors(correct: Module, order: int) -> None:
    x, y = numbers(400), np.zeros(400, np.float32)
    correct.launch("copy4", (4,), (32,), [x, y, np.int32(100)], order=order)
    np.testing.assert_array_equal(x, y)


@needs_compiler
@in_all_orders
def test_scan_of_a_warp(correct: Module, order: int) -> None:
    x, sums = np.arange(96, dtype=np.int32) % 7, np.zeros(96, np.int32)
    correct.launch("warp_scan", (3,), (32,), [x, sums], order=order)
    np.testing.assert_array_equal(sums, np.cumsum(x.reshape(3, 32), 1).ravel())


@needs_compiler
@in_all_orders
def test_lanes_that_wait_for_each_other_alone(correct: Module, order: int) -> None:
    x, y = numbers(4, 32), np.zeros((3, 4, 32), np.float32)
    correct.launch("warp_reverse", (1,), (128,), [x, y], order=order)
    np.testing.assert_array_equal(y, [x[:, ::-1] + np.float32(turn) for turn in range(3)])


@needs_compiler
@in_all_orders
def test_loop_around_compare_and_swap(correct: Module, order: int) -> None:
    x, most = np.abs(numbers(200)), np.zeros((), np.float32)
    correct.launch("largest", (3,), (96,), [x, most, np.int32(200)], order=order)
    assert most == x.max()


# ---- faults --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """A kernel with a fault, in the line with `// here`, and words of what is said of it."""

    says: str
    source: str
    block: tuple[int, ...] = (64,)
    grid: tuple[int, ...] = (1,)
    shared: int = 0
    read_only: bool = False


def without(words: str, here: str) -> str:
    """The correct kernels, the first line with these words left empty; another one is marked."""
    lines = CORRECT.splitlines()
    lines[next(i for i, line in enumerate(lines) if words in line)] = ""
    marked = next(i for i, line in enumerate(lines) if here in line)
    lines[marked] += "  // here"
    return "\n".join(lines)


def kernel(body: str) -> str:
    return f'extern "C" __global__ void kernel(float* out, int n) {{\n{body}\n}}\n'


FAULTS = {
    "a write behind the end": Planted("out of bounds: a write of 4 bytes at out[100]", kernel("""
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i <= n) out[i] = 1.0f;  // here
        """), grid=(2,)),
    "a read before the beginning": Planted("out of bounds: a read of 4 bytes at out[-1]", kernel("""
        const float left = out[(int)threadIdx.x - 1];  // here
        out[threadIdx.x] = left;
        """), block=(1,)),
    "a vector across the end": Planted("out of bounds: a read of 16 bytes at out[99]", kernel("""
        struct __align__(4) Four { float x, y, z, w; };
        const Four four = *(const Four*)(out + 99);  // here
        out[0] = four.x;
        """), block=(1,)),
    "behind a shared array, where another begins": Planted("a write of 4 bytes at tile[16]", kernel(
        """
        __shared__ float tile[16];
        __shared__ float other[16];
        other[threadIdx.x] = 0.0f;
        float* const next = tile + 1;
        next[threadIdx.x] = 0.0f;  // here
        """), block=(16,)),
    "behind dynamic shared memory": Planted("out of bounds: a write of 4 bytes at tile[16]", kernel(
        """
        extern __shared__ float tile[];
        tile[threadIdx.x] = 0.0f;  // here
        """), shared=64),
    "a pointer to nowhere": Planted("out of bounds: a write of 4 bytes", kernel("""
        float* nowhere = 0;
        nowhere[threadIdx.x] = 0.0f;  // here
        """)),
    "behind an array of the thread's own": Planted(
        "index 4 of an array of type 'float [4]'", kernel("""
        float own[4] = {1.0f, 2.0f, 3.0f, 4.0f};
        out[0] = own[n / 25];  // here
        """), block=(1,)),
    "a division by zero": Planted("a division by zero", kernel("""
        out[n / (int)threadIdx.x] = 1.0f;  // here
        """), block=(1,)),
    "an index that is too large for its type": Planted(
        "overflow: a product does not fit into 'int'", kernel("""
        const int i = n * n * n * n * n;  // here
        out[i % n] = 1.0f;
        """), block=(1,)),
    "a shift by all bits": Planted("a shift of 'unsigned int' by 100 bits", kernel("""
        out[0] = (float)(1u << n);  // here
        """), block=(1,)),
    "a write to what is read-only": Planted("a write to out, which is read-only", kernel("""
        out[threadIdx.x] = 0.0f;  // here
        """), read_only=True),
    "a vector that is not aligned": Planted("misaligned: a read of 16 bytes", kernel("""
        const float4 four = *(const float4*)(out + threadIdx.x);  // here
        out[0] = four.x;
        """), block=(2,)),
    "a vector in a shared array of floats": Planted("misaligned: a write of 8 bytes", kernel("""
        __shared__ float tile[64];
        *(float2*)&tile[0] = make_float2(1.0f, 2.0f);  // here
        """), block=(1,)),
    "a vector that a function returns, written behind the end": Planted(
        "out of bounds: a write of 16 bytes at out[100]", kernel("""
        ((float4*)out)[threadIdx.x] = make_float4(1.0f, 2.0f, 3.0f, 4.0f);  // here
        """)),
    "two threads write one element": Planted("race on out[0]: written here, written by", kernel("""
        out[threadIdx.x / 2] = 1.0f;  // here
        """), block=(2,)),
    "one writes what another reads": Planted("race on out[", kernel("""
        const float mine = out[threadIdx.x];
        if (threadIdx.x > 0) out[threadIdx.x - 1] = mine;  // here
        """)),
    "an atomic and a plain write": Planted("race on out[0]: changed atomically here", kernel("""
        if (threadIdx.x == 0) out[0] = 0.0f;
        atomicAdd(out, 1.0f);  // here
        """)),
    "shuffles are no barriers": Planted("race on values[1]", kernel("""
        __shared__ float values[32];
        values[threadIdx.x] = 1.0f;
        const float any = __shfl_sync(0xffffffffu, values[threadIdx.x], 0);
        out[threadIdx.x] = any + values[threadIdx.x ^ 1];  // here
        """), block=(32,)),
    "a barrier of warps where one of the block is needed": Planted("race on values[", kernel("""
        __shared__ float values[64];
        values[threadIdx.x] = 1.0f;
        __syncwarp();
        out[threadIdx.x] = values[63 - threadIdx.x];  // here
        """)),
    "two blocks write one element": Planted("race between blocks on out[0]", kernel("""
        if (threadIdx.x == 0) out[0] = 1.0f;  // here
        """), grid=(2,)),
    "one block reads what another writes": Planted("race between blocks on out[", kernel("""
        out[blockIdx.x] = out[blockIdx.x ^ 1] + 1.0f;  // here
        """), block=(1,), grid=(2,)),
    "shared memory that nobody wrote": Planted("uninitialised shared memory: tile[32]", kernel("""
        __shared__ float tile[64];
        if (threadIdx.x < 32) tile[threadIdx.x] = 1.0f;
        __syncthreads();
        out[threadIdx.x] = tile[threadIdx.x];  // here
        """)),
    "shared memory of the block before": Planted("uninitialised shared memory: tile[0]", kernel("""
        __shared__ float tile[1];
        if (blockIdx.x == 0) tile[0] = 1.0f;
        out[blockIdx.x] = tile[0];  // here
        """), block=(1,), grid=(2,)),
    "a barrier that some threads do not reach": Planted("divergent barrier", kernel("""
        if (threadIdx.x < 48)
            __syncthreads();  // here
        """)),
    "lanes that never arrive": Planted("the lanes ffff0000 of warp 0 never arrive", kernel("""
        float x = 1.0f;
        if (threadIdx.x < 16)
            x = __shfl_down_sync(0xffffffffu, x, 1);  // here
        out[threadIdx.x] = x;
        """), block=(32,)),
    "a lane outside of its mask": Planted("is not in its own mask 0000ffff", kernel("""
        __syncwarp(0xffffu);  // here
        """)),
    "a shuffle from a lane outside of the mask": Planted("which is not in the mask", kernel("""
        if (threadIdx.x < 16)
            out[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 16);  // here
        """)),
    "a trap": Planted("the kernel trapped", kernel("""
        if (n > 3) __trap();  // here
        """)),
}


def line_of(source: str) -> int:
    return next(i for i, line in enumerate(source.splitlines(), 1) if line.endswith("// here"))


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught(fault: str) -> None:
    planted, out = FAULTS[fault], np.zeros(100, np.float32)
    out.flags.writeable = not planted.read_only
    module = Module(planted.source)
    with pytest.raises(KernelFault) as caught:
        module.launch("kernel", planted.grid, planted.block, [out, np.int32(100)], planted.shared)
    assert planted.says in caught.value.what
    assert caught.value.line == line_of(planted.source) and "// here" in str(caught.value)
    assert not out.any(), "after a fault, arrays are what they were"


@needs_compiler
@in_all_orders
def test_softmax_without_its_barrier(order: int) -> None:
    source = without("`partial` is written again", here="partial[warp] = sum")
    x, y = numbers(2, 256), np.zeros((2, 256), np.float32)
    with pytest.raises(KernelFault, match=r"race on partial\[\d\]: written here") as caught:
        Module(source).launch("softmax", (2,), (256,), [x, y, np.int32(256)], order=order)
    assert caught.value.line == line_of(source)


@needs_compiler
@in_all_orders
def test_histogram_without_atomics(order: int) -> None:
    source = CORRECT.replace("atomicAdd(&mine[x[i]], 1u);", "mine[x[i]] += 1u;  // here")
    x, counts = np.zeros(200, np.uint8), np.zeros(5, np.uint32)
    with pytest.raises(KernelFault, match=r"race on mine\[0\]") as caught:
        Module(source).launch("histogram", (1,), (64,), [x, counts, np.int32(200), np.int32(5)],
                              shared=20, order=order)
    assert caught.value.line == line_of(source)


@needs_compiler
@in_all_orders
def test_matmul_without_its_second_barrier(order: int) -> None:
    a = numbers(32, 32)
    lines = CORRECT.splitlines()
    second = next(i for i, line in enumerate(lines) if "fmaf(left" in line) + 1
    assert "__syncthreads" in lines[second]
    source = "\n".join([*lines[:second], "", *lines[second + 1:]])
    with pytest.raises(KernelFault, match=r"race on (left|right)\[\d+\]"):
        Module(source).launch("matmul", (2, 2), (16, 16), [a, a, np.zeros_like(a),
                              *map(np.int32, (32, 32, 32))], order=order)


@needs_compiler
def test_a_fault_in_a_function_tells_who_called_it() -> None:
    source = "__device__ __forceinline__ void put(float* to) {\n    *to = 1.0f;\n}\n" \
        + kernel("put(out);\nput(out + n);")
    with pytest.raises(KernelFault, match="line 2 called at line 6: out of bounds") as caught:
        Module(source).launch("kernel", (1,), (1,), [np.zeros(3, np.float32), np.int32(3)])
    assert str(caught.value).endswith("\n    2: *to = 1.0f;\n    6: put(out + n);")


# ---- launches that cannot be ---------------------------------------------------------------------

BOUNDED = """
extern "C" __global__ void __launch_bounds__(128) bounded(float* out) {
    out[threadIdx.x] = 1.0f;
}
extern "C" __global__ void large(float* out) {
    __shared__ float tile[12289];
    out[0] = 1.0f;
}"""


@needs_compiler
@pytest.mark.parametrize(("name", "grid", "block", "shared", "says"), [
    ("bounded", (1,), (129,), 0, "a block of (129, 1, 1) threads: at most 128"),
    ("bounded", (1,), (1, 1, 65), 0, "a block of (1, 1, 65) threads"),
    ("large", (1,), (1025,), 0, "a block of (1025, 1, 1) threads: at most 1024"),
    ("bounded", (1, 65536), (32,), 0, "a grid of (1, 65536, 1) blocks"),
    ("bounded", (1,), (32,), 227 * 1024 + 1, "232449 bytes of shared memory"),
    ("large", (1,), (1,), 0, "49156 bytes of static shared memory"),
])
def test_launches_that_cannot_be(
    name: str, grid: tuple[int, ...], block: tuple[int, ...], shared: int, says: str
) -> None:
    with pytest.raises(KernelFault) as caught:
        Module(BOUNDED).launch(name, grid, block, [np.zeros(256, np.float32)], shared)
    assert says in caught.value.what
    assert caught.value.line == {"bounded": 2, "large": 5}[name]


@needs_compiler
@pytest.mark.parametrize(("arguments", "says"), [
    ([], "takes 2 arguments, and 0 are given"),
    ([np.zeros(3), np.int64(3)], "n is not .*: a signed integer of 4 bytes is wanted, and a signed "
                                 "integer of 8 bytes is given"),
    ([np.zeros(3), 3], "no NumPy scalar is given"),
    ([np.float32(3), np.int32(3)], "out is not .*: a pointer of 8 bytes is wanted"),
])
def test_wrong_arguments(arguments: list[Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Module(FAULTS["a trap"].source).launch("kernel", (1,), (1,), arguments)


@needs_compiler
def test_arrays_that_overlap_do_so_in_the_kernel_too() -> None:
    source = 'extern "C" __global__ void copy(const float* a, float* b) { b[0] = a[1] + 1.0f; }'
    whole = np.arange(4, dtype=np.float32)
    Module(source).launch("copy", (1,), (1,), [whole[:2], whole[1:]])
    np.testing.assert_array_equal(whole, [0, 2, 2, 3])


@needs_compiler
def test_what_is_restricted_overlaps_nothing_that_is_written() -> None:
    source = """
    extern "C" __global__ void add(const float* __restrict__ a, const float* b, float* c) {
        const float sum = a[0] + b[0];
        c[0] = sum;
    }"""
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    module = Module(source)
    module.launch("add", (1,), (1,), [x, x, y])
    module.launch("add", (1,), (1,), [x, y, y])
    module.launch("add", (1,), (1,), [x, y, x[3:]])  # which of `a` is not read
    with pytest.raises(KernelFault, match="a is __restrict__, and what is read here is written at "
                                          "line 4") as caught:
        module.launch("add", (1,), (1,), [x, y, x])
    assert caught.value.line == 3


@needs_compiler
def test_arrays_side_by_side_are_two() -> None:
    source = 'extern "C" __global__ void copy(const float* a, float* b) { b[0] = a[2]; }'
    whole = np.arange(4, dtype=np.float32)
    with pytest.raises(KernelFault, match=r"a read of 4 bytes at a\[2\], which has 2 elements"):
        Module(source).launch("copy", (1,), (1,), [whole[:2], whole[2:]])


ELSEWHERE = """
import numpy as np
from emulator import build, emulator
build.COMMON += ("-DEMULATOR_UCONTEXT",)
module = emulator.Module(open({source!r}).read())
x, sums = np.arange(96, dtype=np.int32), np.zeros(96, np.int32)
module.launch("warp_scan", (3,), (32,), [x, sums])
np.testing.assert_array_equal(sums, np.cumsum(x.reshape(3, 32), 1).ravel())
"""


@needs_compiler
def test_threads_as_on_other_processors() -> None:
    """Where there is no code to change stacks for, the C library's does it."""
    source = ELSEWHERE.format(source=str(Path(__file__).with_name("correct.cu")))
    subprocess.run([sys.executable, "-c", source], check=True, cwd=Path(__file__).parents[1])


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BuildError, match=r"there is none on PATH: install it \(.*apt-get"):
        compiler()


@needs_compiler
@pytest.mark.parametrize(("source", "says"), [
    (kernel("out[0] = n +;"), "kernel.cpp:2"),
    (kernel("__shared__ float a[3], b[3];"), "line 2: a shared array has to be declared alone"),
])
def test_source_that_is_wrong(source: str, says: str) -> None:
    with pytest.raises(BuildError, match=says):
        Module(source)
