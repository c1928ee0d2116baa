"""Anomaly mode names the forward line whose way back made the first NaN."""

from __future__ import annotations

import inspect

import pytest

import fusewire as fw
from fusewire.autograd import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from fusewire.eager import interpreter
from fusewire.eager.errors import GradientError


def line_of(fn: object, text: str) -> int:
    lines, start = inspect.getsourcelines(fn)  # type: ignore[arg-type]
    return start + next(i for i, line in enumerate(lines) if text in line)


def root_of_zero(x: fw.Tensor) -> fw.Tensor:
    y = x.sqrt()
    return (y * 0.0).sum()


def test_the_line_of_the_forward() -> None:
    x = fw.tensor([4.0, 0.0], requires_grad=True)
    with detect_anomaly(), pytest.raises(GradientError) as caught:
        root_of_zero(x).backward()
    text = caught.value.message
    assert "the gradient of sqrt(float32[2]) is nan for operand 0, first at index (1,)" in text
    assert f"{__file__}:{line_of(root_of_zero, 'x.sqrt()')}, in root_of_zero" in text
    assert "first nan of the forward" not in text


def test_the_first_nan_of_the_forward() -> None:
    def zero_by_zero(x: fw.Tensor) -> fw.Tensor:
        y = x / x
        return (y * 2).sum()

    x = fw.tensor([0.0, 1.0], requires_grad=True)
    with detect_anomaly(), pytest.raises(GradientError) as caught:
        zero_by_zero(x).backward()
    place = f"{__file__}:{line_of(zero_by_zero, 'x / x')}, in zero_by_zero"
    assert f"first nan of the forward: divide(float32[2], float32[2]) at {place}" in str(
        caught.value)


def test_a_nan_that_came_in() -> None:
    x = fw.tensor(1.0, requires_grad=True)
    with detect_anomaly(), pytest.raises(GradientError, match="is nan already"):
        (x * 2).backward(fw.tensor(float("nan")))


def test_an_entry_from_outside() -> None:
    loss = root_of_zero(fw.tensor([0.0], requires_grad=True))
    with detect_anomaly(), pytest.raises(GradientError, match="ran outside of detect_anomaly"):
        loss.backward()


def test_a_function_of_the_users() -> None:
    class Wrong(fw.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: fw.Tensor) -> fw.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, g: fw.Tensor) -> fw.Tensor:
            return g * float("nan")

    with detect_anomaly(), pytest.raises(GradientError, match=r"the gradient of Wrong.* is nan"):
        Wrong.apply(fw.tensor(1.0, requires_grad=True)).backward()


def test_gradients_are_the_usual_ones() -> None:
    x = fw.tensor([1.0, 2.0], requires_grad=True)
    with detect_anomaly():
        y = x * x
        (y * y + y).sum().backward()
    assert x.grad.tolist() == [6.0, 36.0]


def test_without_the_check() -> None:
    x = fw.tensor(0.0, requires_grad=True)
    with detect_anomaly(check_nan=False):
        (x.sqrt() * 0).backward()
    assert x.grad.isnan().item()


def test_on_and_off() -> None:
    x = fw.tensor([0.0], requires_grad=True)
    root_of_zero(x).backward()
    assert not is_anomaly_enabled() and x.grad.isnan().all()
    set_detect_anomaly(True)
    try:
        with detect_anomaly():
            assert is_anomaly_enabled()
        assert is_anomaly_enabled()
        with pytest.raises(GradientError):
            root_of_zero(x).backward()
    finally:
        set_detect_anomaly(False)
    assert not is_anomaly_enabled() and interpreter.STATE.active is None
    with set_detect_anomaly(True):
        pass
    assert interpreter.STATE.active is None


def test_compiled_functions_run_eagerly() -> None:
    @fw.compile
    def loss(x: fw.Tensor) -> fw.Tensor:
        return root_of_zero(x)

    with detect_anomaly(), pytest.raises(GradientError, match="in root_of_zero"):
        loss(fw.tensor([0.0], requires_grad=True)).backward()
