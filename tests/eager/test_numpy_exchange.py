"""Tensors among NumPy's arrays: who gives what, what is shared, what stays on the tape."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import fusewire as fw

A = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]], np.float32)
X = fw.tensor(A)


# ---- tensors as arrays
def test_an_array_of_a_tensor_is_a_view_that_cannot_be_written_to() -> None:
    array = np.asarray(X)
    assert np.shares_memory(array, X.numpy()) and not array.flags.writeable
    assert np.array(X).flags.writeable and np.asarray(X, dtype=np.int8).dtype == np.int8
    assert np.asarray(X, copy=False).base is not None
    with pytest.raises(ValueError, match="copy"):
        np.asarray(X, dtype=np.float64, copy=False)
    assert X.__array__(copy=True).flags.writeable


def test_a_tensor_is_memory_to_be_read() -> None:
    """`memoryview(x)` itself asks for `__buffer__` from Python 3.12 on."""
    view = memoryview(X) if sys.version_info >= (3, 12) else X.__buffer__(0)
    assert (view.readonly, view.shape, view.format) == (True, (2, 3), "f")


# ---- NumPy's elementwise functions
MIXED: dict[str, Any] = {
    "array + tensor": lambda x: A + x, "tensor + array": lambda x: x + A,
    "array @ tensor": lambda x: A.T @ x, "array < tensor": lambda x: A < x,
    "add": lambda x: np.add(A, x), "exp": np.exp, "arccos": lambda x: np.arccos(x * 0.1),
    "absolute": np.absolute, "power": lambda x: np.power(x, 2), "rint": np.rint,
    "invert": lambda x: np.invert(x > 1), "arctan2": lambda x: np.arctan2(A, x),
    "sum": np.sum, "mean": lambda x: np.mean(x, axis=0), "max": lambda x: np.max(x, 1),
    "std": lambda x: np.std(x, axis=0, keepdims=True), "where": lambda x: np.where(x > 2, x, 0),
    "concatenate": lambda x: np.concatenate([x, x], axis=1), "stack": lambda x: np.stack([x, x]),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "norm": lambda x: np.linalg.norm(x), "flip": lambda x: np.flip(x, axis=0),
    "zeros_like": np.zeros_like, "sort": lambda x: np.sort(x, axis=0),
    "fft": lambda x: np.fft.fft(x), "squeeze": lambda x: np.squeeze(np.expand_dims(x, 0), 0),
}


@pytest.mark.parametrize("form", MIXED)
def test_expressions_with_arrays_and_numpys_functions_give_tensors(form: str) -> None:
    out = MIXED[form](X)
    assert type(out) is fw.Tensor
    np.testing.assert_allclose(out.numpy(), MIXED[form](A), rtol=2e-6)


def test_numpys_numbers_adapt_like_pythons() -> None:
    two = np.float64(2)
    for out in (two * X, X * two, np.int64(1) + X, np.multiply(two, X)):
        assert isinstance(out, fw.Tensor) and out.dtype == fw.float32


def test_gradients_flow_through_numpys_functions() -> None:
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    np.sum(np.exp(x) * np.array([1.0, 2.0], np.float32)).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1, 2]) * [1, 2], rtol=1e-6)


def test_numpys_functions_are_recorded() -> None:
    step = fw.compile(lambda x: np.sum(np.tanh(x) + np.float64(2)), fullgraph=True)
    for _ in range(2):
        np.testing.assert_allclose(step(X).numpy(), np.sum(np.tanh(A) + 2), rtol=1e-6)


def _added_in_place() -> None:
    array = A.copy()
    array += X


@pytest.mark.parametrize(("call", "message"), [
    (lambda: np.add.reduce(X), "np.add.reduce: tensors do not support this method"),
    (lambda: np.add.outer(X, X), "np.add.outer"), (lambda: np.add.at(X, 0, 1), "np.add.at"),
    (lambda: np.exp(X, out=np.zeros((2, 3))), "np.exp: a tensor's values cannot be written into"),
    (_added_in_place, "write array = array [+] x"),
    (lambda: np.exp(X, dtype=np.float64), "np.exp: tensors do not support the option dtype="),
    (lambda: np.cbrt(X), "np.cbrt: there is no function of tensors with this meaning"),
])
def test_what_tensors_do_not_take(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_other_functions_of_numpy_see_arrays() -> None:
    assert type(np.std(X, ddof=1)) is np.float32  # ours has no ddof
    assert [type(part) for part in np.split(X, 2)] == [np.ndarray, np.ndarray]  # ours takes sizes
    assert np.shape(X) == (2, 3) and np.array_equal(X, A) and np.shares_memory(X, X)
    target = np.zeros((2, 3))
    np.copyto(target, X)
    np.testing.assert_array_equal(target, A)


# ---- arrays as tensors
class Frame:
    """As a column of a table: its values are had by `__array__` only."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([1.5, 2.5])


def test_whatever_has_an_array_becomes_a_tensor() -> None:
    assert fw.tensor(Frame()).tolist() == [1.5, 2.5]


@pytest.mark.parametrize("strange", [
    "text", ["a"], None, [None, 1.0], np.array(["2026-01-01"], "datetime64[D]"), object(), {1: 2},
    {1, 2}, b"ab", np.array([1, "a"], object), [1.0, object()],
], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("make", [fw.tensor])
def test_what_is_not_numbers_is_named(make: Any, strange: Any) -> None:
    with pytest.raises(fw.DTypeError, match="tensor: cannot make a tensor of"):
        make(strange)


def test_lists_of_several_lengths() -> None:
    with pytest.raises(fw.ShapeError, match="lists at one level must have one length"):
        fw.tensor([[1], [1, 2]])


def test_from_numpy_shares_and_tensor_copies() -> None:
    array = np.zeros(2)
    shared, copied = fw.from_numpy(array), fw.tensor(array)
    assert np.shares_memory(shared.numpy(), array) and not np.shares_memory(copied.numpy(), array)


def test_options_that_numpy_has_reach_our_functions():
    values = np.array([[1.25, np.nan, 3.55], [4.0, 5.0, 6.05]])
    x = fw.tensor(values)
    for call in (lambda a: np.nanmean(a, axis=1, dtype=np.float32),
                 lambda a: np.nanvar(a, axis=0, ddof=0, dtype=np.float64),
                 lambda a: np.nanstd(a, axis=1, ddof=1), lambda a: np.round(a, 1),
                 lambda a: np.round(a, -1), lambda a: np.where(a > 3)[1],
                 lambda a: np.pad(a, 1, constant_values=2.0),
                 lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2))):
        found, expected = call(x), call(values)
        assert isinstance(found, fw.Tensor) and found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected)
    found = np.linalg.lstsq(fw.tensor(values[1:].T), fw.ones(3, dtype=fw.float64), rcond=None)
    np.testing.assert_allclose(found[0].numpy(), np.linalg.lstsq(values[1:].T, np.ones(3))[0])


def test_windows_over_two_axes_are_those_of_numpy():
    x = np.arange(30).reshape(5, 6)
    for shape, axis in ((3, 1), ((2, 3), (1, 0)), ((2, 3), None), ((2, 2), (0, 0))):
        found = fw.lib.stride_tricks.sliding_window_view(fw.tensor(x), shape, axis)
        assert found.tolist() == \
            np.lib.stride_tricks.sliding_window_view(x, shape, axis).tolist()
    with pytest.raises(fw.ShapeError, match="1 window sizes for 2 axes"):
        fw.lib.stride_tricks.sliding_window_view(fw.tensor(x), 3)
