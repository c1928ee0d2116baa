"""How dtypes combine, their limits and kinds; bfloat16 and complex numbers in every function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import DTypeError
from fusewire.eager.ops.declare import TAKES
from fusewire.eager.ops.elementwise import pointwise

SIGNED = [fw.int8, fw.int16, fw.int32, fw.int64]
UNSIGNED = [fw.uint8, fw.uint16, fw.uint32, fw.uint64]


@pytest.mark.parametrize("i", range(4))
@pytest.mark.parametrize("j", range(4))
def test_whole_numbers_combine_as_in_the_standard(i: int, j: int) -> None:
    assert fw.result_type(SIGNED[i], SIGNED[j]) == SIGNED[max(i, j)]
    assert fw.result_type(UNSIGNED[i], UNSIGNED[j]) == UNSIGNED[max(i, j)]
    if j == 3:
        with pytest.raises(fw.DTypeError, match="no common integer dtype"):
            fw.result_type(SIGNED[i], UNSIGNED[j])
    else:
        assert fw.result_type(SIGNED[i], UNSIGNED[j]) == SIGNED[max(i, j + 1)]


@pytest.mark.parametrize(("given", "expected"), [
    ((fw.float32, fw.float64), fw.float64), ((fw.float32, fw.complex64), fw.complex64),
    ((fw.float64, fw.complex64), fw.complex128), ((fw.bool, fw.int8), fw.int8),
    ((fw.int64, fw.float32), fw.float32), ((fw.float16, fw.bfloat16), fw.float32),
    ((fw.int8, 300), fw.int8), ((fw.int8, 1.5), fw.float32), ((fw.float64, 1j), fw.complex128),
    ((fw.bool, True), fw.bool), ((1, fw.float16, True), fw.float16),
    (("float64", float), fw.float64)], ids=str)
def test_result_type(given: Any, expected: Any) -> None:
    assert fw.result_type(*given) == fw.result_type(*given[::-1]) == expected
    tensors = [fw.ones(1, dtype=g) if isinstance(g, np.dtype) else g for g in given]
    assert fw.result_type(*tensors) == expected


def test_result_type_needs_a_dtype() -> None:
    for wrong in ((), (1, 2.0)):
        with pytest.raises(fw.DTypeError, match="needs a tensor or a dtype"):
            fw.result_type(*wrong)


def test_can_cast() -> None:
    assert fw.can_cast(fw.int8, fw.int16) and fw.can_cast(fw.uint8, fw.int16)
    assert fw.can_cast(fw.ones(1), fw.float64) and fw.can_cast(fw.float32, fw.complex64)
    for given, to in ((fw.int16, fw.int8), (fw.int64, fw.uint64), (fw.uint64, fw.int64),
                      (fw.float64, fw.float32), (fw.complex64, fw.float64), (fw.uint8, fw.int8)):
        assert not fw.can_cast(given, to)
    with pytest.raises(fw.DTypeError, match="is not a dtype"):
        fw.can_cast(fw.int8, "text")


def test_isdtype() -> None:
    kinds = {"bool": [fw.bool], "signed integer": SIGNED, "unsigned integer": UNSIGNED,
             "real floating": [fw.float16, fw.bfloat16, fw.float32, fw.float64],
             "complex floating": [fw.complex64, fw.complex128]}
    every = [d for dtypes in kinds.values() for d in dtypes]
    for kind, dtypes in kinds.items():
        assert [d for d in every if fw.isdtype(d, kind)] == dtypes
    assert [d for d in every if fw.isdtype(d, "integral")] == SIGNED + UNSIGNED
    assert [d for d in every if not fw.isdtype(d, "numeric")] == [fw.bool]
    assert fw.isdtype(fw.int8, (fw.int64, "bool", fw.int8)) is True
    assert fw.isdtype(fw.int8, fw.int64) is False and fw.isdtype(fw.int8, ()) is False
    with pytest.raises(fw.DTypeError, match="'float' is not a kind of dtypes"):
        fw.isdtype(fw.int8, "float")


@pytest.mark.parametrize(("dtype", "bits", "eps", "largest", "normal"), [
    (fw.float16, 16, 2.0 ** -10, 65504.0, 2.0 ** -14),
    (fw.bfloat16, 16, 2.0 ** -7, (2 - 2.0 ** -7) * 2.0 ** 127, 2.0 ** -126),
    (fw.float32, 32, 2.0 ** -23, (2 - 2.0 ** -23) * 2.0 ** 127, 2.0 ** -126),
    (fw.float64, 64, 2.0 ** -52, (2 - 2.0 ** -52) * 2.0 ** 1023, 2.0 ** -1022)])
def test_limits_of_floats(dtype: Any, bits: int, eps: float, largest: float, normal: float) -> None:
    expected = (bits, eps, largest, -largest, normal, dtype)
    assert fw.finfo(dtype) == fw.finfo(fw.zeros((), dtype=dtype)) == expected
    assert all(type(v) in (int, float) for v in fw.finfo(dtype)[:5])


def test_other_limits() -> None:
    assert fw.finfo(fw.complex128) == fw.finfo(fw.float64)
    assert fw.finfo(fw.complex64).dtype == fw.float32
    for dtype in SIGNED + UNSIGNED:
        info, bits = fw.iinfo(dtype), dtype.itemsize * 8
        low = -2 ** (bits - 1) if dtype in SIGNED else 0
        assert info == fw.iinfo(fw.ones(2, dtype=dtype)) == (bits, low + 2 ** bits - 1, low, dtype)
    for refused in (lambda: fw.iinfo(fw.float32), lambda: fw.finfo(fw.int8),
                    lambda: fw.iinfo(fw.bool)):
        with pytest.raises(fw.DTypeError, match=r"is not an? "):
            refused()


# ---- bfloat16: every function of real numbers, rounded once
def functions() -> list[Any]:
    """The pointwise functions that take floats."""
    every = [getattr(pointwise, name) for name in pointwise.__all__]
    return [f for f in every if hasattr(f, "op") and "f" in TAKES[f.takes][0]]


@pytest.mark.parametrize("function", functions(), ids=lambda f: f.__name__)
def test_bfloat16(function: Any) -> None:
    x = fw.tensor([1.5, 2.5] if function.__name__ == "acosh" else [0.3, 0.75], dtype=fw.bfloat16)
    count = function.op.meaning.__code__.co_argcount - 1
    for others in ((x + 1,), (0.5,)) if count == 2 else ((),):
        out = function(x, *others)
        wide = function(x.astype(fw.float64),
                        *[o.astype(fw.float64) if isinstance(o, fw.Tensor) else o for o in others])
        if function.__name__ != "nextafter":
            np.testing.assert_array_equal(out.numpy(), wide.astype(out.dtype).numpy())
        assert out.dtype == (fw.bool if wide.dtype == fw.bool else fw.bfloat16)


@pytest.mark.parametrize("function", functions(), ids=lambda f: f.__name__)
def test_gradients_of_bfloat16(function: Any) -> None:
    x = fw.tensor([0.3, 0.75] if function.__name__ != "acosh" else [1.5], dtype=fw.bfloat16,
                  requires_grad=True)
    count = function.op.meaning.__code__.co_argcount - 1
    for others in ((x + 1,), (0.5,)) if count == 2 else ((),):
        out = function(x, *others)
        if out.requires_grad:
            (gradient,) = fw.grad(out.sum(), x)
            assert gradient.dtype == fw.bfloat16


def test_bfloat16_beside_others() -> None:
    x = fw.ones(2, dtype=fw.bfloat16)
    assert [(x + 1.5).dtype, (2 * x).dtype, (x * fw.ones(2)).dtype] == [
        fw.bfloat16, fw.bfloat16, fw.float32]
    assert (x * 1j).dtype == fw.complex(x, 0.5).dtype == fw.complex64
    assert fw.where(x > 0.5, x, 0.1).dtype == x.clip(0.1, 0.3).dtype == fw.bfloat16
    assert x.astype(fw.int8).tolist() == [1, 1] and float(x[0]) == 1.0


# ---- casts
def test_casts_between_all_dtypes() -> None:
    every = [*SIGNED, *UNSIGNED, fw.bool, fw.float16, fw.bfloat16, fw.float32, fw.float64,
             fw.complex64, fw.complex128]
    for given in every:
        x = fw.asarray([0, 1], dtype=given)
        for wanted in every:
            out = fw.astype(x, wanted)
            assert out.dtype == wanted and out.tolist() == [0, 1] and out is not x
    assert fw.tensor([0.0, 0.5, -0.0, 1j]).astype(bool).tolist() == [False, True, False, True]


def test_astype_copies_unless_told_not_to() -> None:
    x = fw.ones(2)
    assert fw.astype(x, fw.float32, copy=False) is x and fw.astype(x, fw.float32) is not x
    assert fw.astype(x, fw.int8, copy=False).dtype == fw.int8
    with pytest.raises(fw.DeviceError):
        fw.astype(x, fw.int8, device="tpu")


# ---- gradients of complex numbers: dL/dRe + i dL/dIm, as in PyTorch
def test_complex_gradients() -> None:
    z = fw.tensor([3 + 4j, 1 - 2j], requires_grad=True)
    (z.abs() ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.numpy(), rtol=1e-6)
    (gradient,) = fw.grad(fw.real(z * z).sum(), z)
    assert gradient.tolist() == [6 - 8j, 2 + 4j]
    (gradient,) = fw.grad(fw.abs(z * 0).sum(), z)  # 0 where the absolute value has a corner
    assert gradient.tolist() == [0j, 0j]


def test_a_real_tensor_among_complex_ones_has_a_real_gradient() -> None:
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    fw.imag(x * (1 + 3j)).sum().backward()
    assert x.grad.dtype == fw.float32 and x.grad.tolist() == [3.0, 3.0]


def test_a_complex_result_needs_a_gradient_to_go_back() -> None:
    z = fw.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(fw.GradientError, match="only for real scalar outputs"):
        (z * z).backward()
    (z * z).backward(fw.tensor(1 + 0j))
    assert z.grad.item() == 2 - 4j


def test_parts_of_real_numbers() -> None:
    x = fw.tensor([1.0, -2.0])
    assert fw.real(x).tolist() == fw.conj(x).tolist() == [1.0, -2.0] and fw.real(x) is not x
    assert fw.imag(x).tolist() == [0.0, 0.0] and x.imag.dtype == fw.float32
    assert fw.angle(x).tolist() == pytest.approx([0.0, np.pi])


# ---- whole numbers stay exact
def test_whole_numbers_are_exact() -> None:
    big = fw.asarray([2 ** 63 - 1, -2 ** 63])
    for name in ("floor", "ceil", "round", "trunc", "positive"):
        out = getattr(fw, name)(big)
        assert out.dtype == fw.int64 and out.tolist() == big.tolist() and out is not big
    top = fw.asarray([2 ** 64 - 1, 2 ** 63], dtype=fw.uint64)
    assert (top // 3).tolist() == [(2 ** 64 - 1) // 3, 2 ** 63 // 3]
    assert (top % 10).tolist() == [5, 8] and fw.maximum(top, 1).tolist() == top.tolist()
    assert (big > fw.asarray([2 ** 63 - 2])).tolist() == [True, False]
    assert fw.sign(big).tolist() == [1, -1] and (big + 1 < big).tolist() == [True, False]
    assert (fw.asarray([3], dtype=fw.uint64) ** 40).tolist() == [3 ** 40]


def test_bound_of_a_clip() -> None:
    """What is at the bound keeps its gradient, as in PyTorch."""
    x = fw.tensor([-1.0, 0.0, 0.5, 1.0, 2.0], requires_grad=True)
    for low, high in ((0, 1), (fw.tensor(0.0), fw.tensor(1.0))):
        (gradient,) = fw.grad(fw.clip(x, low, high).sum(), x)
        assert gradient.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    low = fw.tensor(0.0, requires_grad=True)
    fw.clip(fw.tensor([-1.0, 0.0, 2.0]), low, None).sum().backward()
    assert low.grad.item() == 1.0
    nan = fw.tensor(float("nan"))
    assert fw.clip(nan, low, 1).isnan().item() and fw.clip(low, nan).isnan().item()


def gradients(function: Any, *values: Any) -> list[Any]:
    xs = [fw.tensor(v, requires_grad=True) for v in values]
    return [g.item() for g in fw.grad(function(*xs).sum(), xs)]


def test_gradients_at_special_points_are_pytorchs() -> None:
    inf, nan = float("inf"), float("nan")
    assert gradients(fw.pow, 0.0, 2.0) == [0.0, 0.0] and gradients(fw.pow, 0.0, 0.0)[1] == 0.0
    assert gradients(fw.pow, 0.0, -1.0)[1] == gradients(lambda y: 0 ** y, -1.0)[0] == -inf
    assert gradients(lambda y: 0 ** y, 2.0) == [0.0]
    assert gradients(fw.maximum, nan, 1.0) == gradients(fw.minimum, 1.0, nan) == [1.0, 1.0]
    assert gradients(fw.maximum, 2.0, 2.0) == [0.5, 0.5]
    assert gradients(fw.relu, nan) == [1.0] and gradients(fw.relu, 0.0) == [0.0]
    assert gradients(fw.atan2, 0.0, 0.0) == [0.0, 0.0]
    assert gradients(fw.copysign, 0.0, -1.0) == [0.0, 0.0]
    assert gradients(fw.copysign, 3.0, -1.0) == [-1.0, 0.0]
    assert gradients(fw.angle, 0j) == [0j] and gradients(fw.abs, 0j) == [0j]


def test_where_refuses_a_number_that_the_dtype_cannot_hold() -> None:
    x = fw.tensor([1, 2], dtype=fw.uint8)
    with pytest.raises(DTypeError):
        fw.where(x == 1, -3, x)
    assert fw.where(x == 1, 3, x).dtype == fw.uint8
