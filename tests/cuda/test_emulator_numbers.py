"""The emulator's functions of numbers give what NumPy, ml_dtypes and CUDA's manual say."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emulator.emulator import AVAILABLE, Module

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no g++ here")
HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def kernel_of(body: str, parameters: str) -> Module:
    return Module(f'extern "C" __global__ void kernel({parameters}, int n) {{\n'
                  "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                  f"if (i < n) {{ {body} }}\n}}\n")


def run(body: str, parameters: str, *arrays: Any) -> None:
    n = len(arrays[0])
    kernel_of(body, parameters).launch("kernel", (-(-n // 1024),), (1024,), [*arrays, np.int32(n)])


def with_all_exponents(n: int) -> Any:
    """Floats of random bits, and those that lie between two halves or next to that."""
    bits = np.random.default_rng(0).integers(0, 2**32, n, dtype=np.uint32)
    wide = np.arange(65536, dtype=np.uint32) << 16 | 0x8000
    narrow = (np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
              | 0x1000)
    near = np.concatenate([wide, narrow])
    return np.concatenate([bits, near, near - 1, near + 1]).view(np.float32)


@pytest.mark.parametrize("name", HALVES)
def test_every_half_as_a_float(name: str) -> None:
    halves = np.arange(65536, dtype=np.uint16)
    floats = np.zeros(65536, np.float32)
    run(f"out[i] = fw_{name}_to_f32(x[i]);", "const unsigned short* x, float* out", halves, floats)
    with np.errstate(invalid="ignore"):
        expected = halves.view(HALVES[name]).astype(np.float32)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(floats[numbers].view(np.uint32),
                                  expected[numbers].view(np.uint32))
    np.testing.assert_array_equal(np.isnan(floats), ~numbers)


@pytest.mark.parametrize("name", HALVES)
def test_floats_as_halves(name: str) -> None:
    floats = with_all_exponents(20000)
    halves = np.zeros(len(floats), np.uint16)
    run(f"out[i] = fw_f32_to_{name}(x[i]);", "const float* x, unsigned short* out", floats, halves)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = floats.astype(HALVES[name])
    numbers = ~np.isnan(floats)
    np.testing.assert_array_equal(halves[numbers], expected[numbers].view(np.uint16))
    assert np.isnan(halves.view(HALVES[name])[~numbers].astype(np.float32)).all()


UNARY = {  # of float32 and, where the name is without its f, of float64
    "expf": np.exp, "exp2f": np.exp2, "expm1f": np.expm1, "logf": np.log, "log2f": np.log2,
    "log10f": np.log10, "log1pf": np.log1p, "sinf": np.sin, "cosf": np.cos, "tanf": np.tan,
    "asinf": np.arcsin, "acosf": np.arccos, "atanf": np.arctan, "sinhf": np.sinh,
    "coshf": np.cosh, "tanhf": np.tanh, "asinhf": np.arcsinh, "acoshf": np.arccosh,
    "atanhf": np.arctanh, "sqrtf": np.sqrt, "cbrtf": np.cbrt, "fabsf": np.abs, "floorf": np.floor,
    "ceilf": np.ceil, "truncf": np.trunc, "rintf": np.rint,
    "rsqrtf": lambda x: (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype),
}
BINARY = {
    "powf": np.power, "atan2f": np.arctan2, "fmodf": np.fmod, "copysignf": np.copysign,
    "nextafterf": np.nextafter, "hypotf": np.hypot, "fminf": np.fmin, "fmaxf": np.fmax,
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-38, 3e38, 1e-45]


def operands(dtype: Any, count: int) -> list[Any]:
    """Some numbers, and all pairs of those that are special."""
    drawn = np.random.default_rng(0).standard_normal((count, 100))
    special = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)[:count]
    return list(np.concatenate([drawn, special], axis=1).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("table", [UNARY, BINARY])
def test_functions_of_floats(table: dict[str, Any], dtype: Any) -> None:
    """All of a table in one kernel: NumPy's values, to its last places."""
    c, name = ("float", str) if dtype is np.float32 else ("double", lambda f: f[:-1])
    arrays = operands(dtype, 1 if table is UNARY else 2)
    n = len(arrays[0])
    out = np.zeros((len(table), n), dtype)
    call = "x[i]" if table is UNARY else "x[i], y[i]"
    body = "\n".join(f"out[{row} * n + i] = {name(f)}({call});" for row, f in enumerate(table))
    pointers = f"const {c}* x, " + (f"const {c}* y, " if table is BINARY else "")
    run(body, f"{pointers}{c}* out", *arrays, out)
    for found, (f, reference) in zip(out, table.items()):
        with np.errstate(all="ignore"):
            expected = reference(*arrays)
        np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(dtype).eps, err_msg=f)


def one(expression: str, c: str = "float", dtype: Any = np.float32) -> Any:
    """The value of an expression of CUDA C."""
    out = np.zeros(1, dtype)
    run(f"out[i] = {expression};", f"{c}* out", out)
    return out[0]


@pytest.mark.parametrize(("expression", "bits"), [
    ("fminf(0.0f, -0.0f)", 0x80000000), ("fmaxf(-0.0f, 0.0f)", 0), ("min(0.0f, -0.0f)", 0x80000000),
    ("fminf(NAN, 1.0f)", 0x3F800000), ("fmaxf(1.0f, NAN)", 0x3F800000),
    ("__uint_as_float(0x7f800001u) != 1.0f", 0x3F800000), ("__int_as_float(-1 << 31)", 0x80000000),
    ("__saturatef(NAN)", 0), ("__fmaf_rn(0x1.000006p0f, 0x1.000006p0f, -1.0f)", 0x35400002),
    ("__fadd_rn(__fmul_rn(0x1.000006p0f, 0x1.000006p0f), -1.0f)", 0x35400000),
    ("__double2float_rn(1.0 + 0x1p-24)", 0x3F800000), ("INFINITY", 0x7F800000),
])
def test_floats_by_their_bits(expression: str, bits: int) -> None:
    assert one(expression).view(np.uint32) == bits


@pytest.mark.parametrize(("expression", "value"), [
    ("__umulhi(0xffffffffu, 0xffffffffu)", 0xFFFFFFFE), ("__mulhi(-2, 1 << 30)", -1),
    ("(long long)(__umul64hi(~0ull, ~0ull) >> 1)", 2**63 - 1), ("__mul64hi(-1ll, 5ll)", -1),
    ("__popc(0xf0f0u)", 8), ("__popcll(~0ull)", 64), ("__clz(1)", 31), ("__clz(0)", 32),
    ("__clzll(1ll)", 63), ("__ffs(8)", 4), ("__ffs(0)", 0), ("__ffsll(1ll << 40)", 41),
    ("__brev(1u)", 1 << 31), ("__byte_perm(0x33221100u, 0x77665544u, 0x7410u)", 0x77441100),
    ("__funnelshift_l(0x80000000u, 1u, 1u)", 3), ("__funnelshift_r(0u, 3u, 1u)", 1 << 31),
    ("__dp4a((int)0xff02fe01, 0x01010101, 10)", 10), ("__dp4a(0xff02fe01u, 0x01010101u, 10u)", 522),
    ("min(-1, 1)", -1), ("max(-1, 1u)", 0xFFFFFFFF), ("max(2ll, 3ll)", 3), ("abs(-5)", 5),
    ("__float2int_rz(-1.9f)", -1), ("__float2int_rn(2.5f)", 2), ("__float2int_rz(NAN)", 0),
    ("__float2int_rz(1e20f)", 2**31 - 1), ("__float2int_rz(-1e20f)", -(2**31)),
    ("__float2uint_rz(-5.0f)", 0), ("__double2ll_rz(1e300)", 2**63 - 1),
    ("__double_as_longlong(1.0)", 0x3FF0000000000000), ("__float_as_int(-0.0f)", -(2**31)),
    ("__double2hiint(1.0)", 0x3FF00000), ("(long long)__hiloint2double(0x40000000, 0)", 2),
    ("isnan(NAN) + 2 * isinf(INFINITY) + 4 * isfinite(1.0) + 8 * signbit(-0.0f)", 15),
])
def test_whole_numbers(expression: str, value: int) -> None:
    assert one(f"(long long)({expression})", "long long", np.int64) == value


@pytest.mark.parametrize(("of", "size", "alignment"), [
    ("float2", 8, 8), ("float3", 12, 4), ("float4", 16, 16), ("double2", 16, 16),
    ("double4", 32, 16), ("uchar4", 4, 4), ("short4", 8, 8), ("ushort2", 4, 4), ("int4", 16, 16),
    ("longlong2", 16, 16), ("uint2", 8, 8), ("char4", 4, 4),
])
def test_vector_types_are_laid_out_as_cudas(of: str, size: int, alignment: int) -> None:
    assert one(f"100 * sizeof({of}) + alignof({of})", "int", np.int32) == 100 * size + alignment


ATOMICS = {"atomicAdd": (5, 12), "atomicSub": (5, 2), "atomicMax": (9, 9), "atomicMin": (3, 3),
           "atomicExch": (4, 4), "atomicAnd": (6, 6), "atomicOr": (8, 15), "atomicXor": (3, 4)}


@pytest.mark.parametrize("c", ["int", "unsigned", "unsigned long long", "float", "double"])
def test_atomic_operations(c: str) -> None:
    """What they leave, where 7 was, and give."""
    sizes = {"int": "i4", "unsigned": "u4", "unsigned long long": "u8", "float": "f4"}
    some = {f: v for f, v in ATOMICS.items() if c[0] in "iu" or f == "atomicAdd"}
    out = np.full((2, len(some)), 7, sizes.get(c, "f8"))
    body = "\n".join(f"out[{len(some)} + {i}] = {f}(out + {i}, {v[0]});"
                     for i, (f, v) in enumerate(some.items()))
    kernel_of(body, f"{c}* out").launch("kernel", (1,), (1,), [out, np.int32(1)])
    np.testing.assert_array_equal(out, [[v[1] for v in some.values()], [7] * len(some)])


def test_compare_and_swap() -> None:
    out = np.array([7, 7], np.int32)
    kernel_of("atomicCAS(out, 7, 1); atomicCAS(out + 1, 6, 1);", "int* out").launch(
        "kernel", (1,), (1,), [out, np.int32(1)])
    np.testing.assert_array_equal(out, [1, 7])


def test_lanes_of_groups() -> None:
    """Shuffles within groups of 8 lanes, as CUDA's manual defines them."""
    out = np.zeros((7, 32), np.int32)
    kernel_of("""
        const int first = i & ~7;
        out[i] = __shfl_sync(0xffffffffu, i, 10, 8) - first;
        out[32 + i] = __shfl_up_sync(0xffffffffu, i, 3, 8) - first;
        out[64 + i] = __shfl_down_sync(0xffffffffu, i, 3, 8) - first;
        out[96 + i] = __shfl_xor_sync(0xffffffffu, i, 1, 8) - first;
        out[128 + i] = (int)__ballot_sync(0xffffffffu, i < 5);
        out[160 + i] = __any_sync(0xffffffffu, i == 3) + 2 * __all_sync(0xffffffffu, i == 3);
        out[192 + i] = (int)__shfl_sync(0xffffffffu, (double)i, 31)
            + __syncthreads_count(i < 4) * 100 + __syncthreads_or(i == 1) * 1000
            + __syncthreads_and(i < 31) * 10000;
        """, "int* out").launch("kernel", (1,), (32,), [out, np.int32(32)])
    lane = np.arange(32) % 8
    np.testing.assert_array_equal(out, [
        np.full(32, 2), np.where(lane < 3, lane, lane - 3), np.where(lane > 4, lane, lane + 3),
        lane ^ 1, np.full(32, 31), np.full(32, 1), np.full(32, 1431)])
