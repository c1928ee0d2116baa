"""The tensor as the array object of the Array API standard: operators, conversions, properties."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import fusewire as fw

ARITHMETIC = "add sub mul truediv floordiv mod pow".split()
BITS = "and_ or_ xor lshift rshift".split()
COMPARISONS = "eq ne lt le gt ge".split()


def both(name: str, x: Any, y: Any) -> None:
    """The operator gives what NumPy's gives."""
    use = getattr(operator, name)
    xs = [fw.asarray(v) if isinstance(v, np.ndarray) else v for v in (x, y)]
    np.testing.assert_allclose(use(*xs).numpy(), use(x, y), rtol=1e-6)


@pytest.mark.parametrize("name", ARITHMETIC + COMPARISONS)
def test_operators_of_floats(name: str) -> None:
    a, b = np.array([1.0, 2.5, -3.0], np.float32), np.array([2.0, 2.0, 2.0], np.float32)
    for x, y in ((a, b), (a, 2.0), (2.0, np.abs(a)), (a, 2)):
        both(name, x, y)


@pytest.mark.parametrize("name", BITS + COMPARISONS + ["add", "sub", "mul", "floordiv", "mod"])
def test_operators_of_whole_numbers(name: str) -> None:
    a = np.array([1, 2, 5])
    for x, y in ((a, a), (a, 2), (2, a)):
        both(name, x, y)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "eq", "ne"])
def test_operators_of_truth_values(name: str) -> None:
    a = np.array([True, False])
    for x, y in ((a, a[::-1]), (a, True), (False, a)):
        both(name, x, y)


def test_operators_of_one() -> None:
    x = fw.tensor([1.5, -2.0])
    assert (-x).tolist() == [-1.5, 2.0] and (+x).tolist() == x.tolist() and +x is not x
    assert abs(x).tolist() == [1.5, 2.0]
    assert (~fw.tensor([True, False])).tolist() == [False, True]
    assert (~fw.tensor([0, 5])).tolist() == [-1, -6]
    with pytest.raises(fw.DTypeError, match="positive: takes numbers, not bool"):
        +fw.tensor([True])


@pytest.mark.parametrize("name", [*ARITHMETIC, *(b.strip("_") for b in BITS)])
def test_in_place(name: str) -> None:
    """It changes the tensor, not its array: who shares that sees nothing."""
    whole = name in ("and", "or", "xor", "lshift", "rshift")
    x = fw.asarray([6, 7] if whole else [6.0, 7.0])
    before, same = fw.asarray(x), x
    expected = getattr(operator, f"{name}_" if name in ("and", "or") else name)(x, 2)
    x = getattr(operator, f"i{name}")(x, 2)
    assert x is same and x.tolist() == expected.tolist() and before.tolist() == [6, 7]


def test_in_place_keeps_shape_and_dtype() -> None:
    x = fw.ones(2, 2)
    same = x
    x @= fw.full((2, 2), 2.0)
    assert x is same and x.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    with pytest.raises(fw.ShapeError, match="does not fit back"):
        x += fw.ones(3, 2, 2)
    whole = fw.arange(3)
    with pytest.raises(fw.DTypeError, match="does not fit back into int64"):
        whole /= 2
    with pytest.raises(fw.DTypeError, match="does not fit back into float32"):
        x *= 1j


def test_numbers_adapt_to_tensors() -> None:
    for dtype, number in ((fw.float64, 1), (fw.float16, 1.5), (fw.int8, True), (fw.complex64, 2.5)):
        x = fw.ones(2, dtype=dtype)
        assert (x + number).dtype == (number + x).dtype == dtype
    assert (fw.ones(2, dtype=fw.int8) + 1.5).dtype == fw.float32
    assert (fw.ones(2, dtype=fw.float64) * 1j).dtype == fw.complex128
    with pytest.raises(fw.DTypeError, match="out of bounds"):
        fw.ones(2, dtype=fw.uint8) + 300


@pytest.mark.parametrize("name", ["add", "matmul", "and_", "lt"])
def test_strangers_are_left_to_python(name: str) -> None:
    with pytest.raises(TypeError, match=r"unsupported operand|not supported between"):
        getattr(operator, name)(fw.ones(2), "x")
    assert (fw.ones(2) == "x") is False


# ---- conversions to Python's numbers
def test_conversions() -> None:
    assert int(fw.tensor(2.7)) == 2 and float(fw.tensor(2)) == 2.0 and bool(fw.tensor(0.5))
    assert complex(fw.tensor(1.5)) == 1.5 and complex(fw.tensor(1j)) == 1j
    assert operator.index(fw.tensor(3, dtype=fw.uint8)) == 3 and [10, 20][fw.tensor(1)] == 20
    assert bool(fw.tensor(float("nan"))) and int(fw.tensor(True)) == 1
    assert int(fw.asarray(2 ** 64 - 1, dtype=fw.uint64)) == 2 ** 64 - 1


@pytest.mark.parametrize(("use", "error"), [
    (lambda: int(fw.tensor(float("inf"))), OverflowError),
    (lambda: int(fw.tensor(float("nan"))), ValueError),
    (lambda: float(fw.tensor(1j)), TypeError), (lambda: int(fw.tensor(1j)), TypeError),
    (lambda: operator.index(fw.tensor(1.0)), TypeError),
    (lambda: operator.index(fw.tensor(True)), TypeError),
    (lambda: float(fw.ones(2)), TypeError), (lambda: bool(fw.ones(2)), TypeError),
    (lambda: fw.ones(2, 2, 2).T, ValueError), (lambda: fw.ones(2).mT, ValueError)])
def test_conversions_and_properties_refused(use: Any, error: type) -> None:
    with pytest.raises(error):
        use()


# ---- properties
def test_properties() -> None:
    x = fw.zeros(2, 3, 4)
    assert (x.shape, x.ndim, x.size, x.device) == ((2, 3, 4), 3, 24, "cpu")
    assert x.mT.shape == (2, 4, 3) and x[0].T.shape == (4, 3)
    z = fw.tensor([1 + 2j])
    assert z.real.tolist() == [1.0] and z.imag.tolist() == [2.0] and z.conj().tolist() == [1 - 2j]


def test_devices() -> None:
    x = fw.ones(2)
    moved = x.to_device("cpu")
    assert moved.tolist() == x.tolist() and moved is not x
    with pytest.raises(fw.DeviceError, match="is not available"):
        x.to_device("cuda")
    with pytest.raises(fw.DeviceError, match="no streams"):
        x.to_device("cpu", stream=1)


def test_namespace() -> None:
    x = fw.ones(2)
    assert x.__array_namespace__() is fw
    assert x.__array_namespace__(api_version="2025.12").add is fw.add
    with pytest.raises(ValueError, match=r"'2019\.01' is not supported"):
        x.__array_namespace__(api_version="2019.01")


def test_an_array_that_comes_from_the_namespace_alone() -> None:
    """A function written for the standard runs on tensors, with gradients."""
    def softmax(x: Any) -> Any:
        xp = x.__array_namespace__()
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    x = fw.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    out = softmax(x)
    out[0, 0].backward()
    np.testing.assert_allclose(out.sum(axis=1).numpy(), 1, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy()[1], 0)
