"""gradcheck and gradgradcheck find wrong gradients, and say where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.autograd import Function, gradcheck, gradgradcheck
from fusewire.eager.errors import GradientError

X = fw.tensor([[1.0, 2.0, 3.0]], dtype=fw.float64, requires_grad=True)
Y = fw.tensor([[0.5], [1.5]], dtype=fw.float64, requires_grad=True)
Z = fw.tensor(np.array([1 + 2j, 3 - 1j]), requires_grad=True)


class Tripled(Function):
    """x * 2, with a gradient for x * 3."""

    @staticmethod
    def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
        return g * 3


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_right_gradients(check: Any) -> None:
    assert check(lambda x, y: x * y.sin(), (X, Y))
    assert check(lambda x: x.exp(), X)
    assert check(lambda x, y: (x * y, [1, 2], (x * x).sum()), (X, Y))  # other results are left out
    assert check(lambda x, n: x ** n, (X, 3))
    assert check(lambda z: (z * z, abs(z)), Z)
    assert check(lambda x, z: x.sum() * z, (X, Z))


def test_a_wrong_gradient_is_shown() -> None:
    with pytest.raises(GradientError) as caught:
        gradcheck(lambda x, y: (x + y, Tripled.apply(x)), (X, Y))
    text = str(caught.value)
    assert "the Jacobian of output 1 for input 0 is wrong in 3 of 27 entries" in text
    assert "analytical 3, numerical 2" in text and "analytical:\n[[" in text
    assert not gradcheck(Tripled.apply, X, raise_exception=False)


def test_a_complex_gradient_that_is_not_conjugated() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, z: fw.Tensor) -> fw.Tensor:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
            return g * 2 * ctx.saved_tensors[0]

    with pytest.raises(GradientError, match=r"element \(0,\)\.(real|imag) by"):
        gradcheck(Square.apply, Z)


def test_a_wrong_second_gradient() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
            ctx.save_for_backward(x)
            return x ** 3

        @staticmethod
        def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
            x = ctx.saved_tensors[0].detach()
            return g * 3 * x ** 2

    assert gradcheck(Cube.apply, X)
    assert not gradgradcheck(Cube.apply, X, raise_exception=False)


def test_gradients_that_differ_from_call_to_call() -> None:
    with pytest.raises(GradientError, match="two calls give different gradients for input 0"):
        gradcheck(lambda x: x * fw.rand(3, dtype=fw.float64), X)


def test_what_cannot_be_checked() -> None:
    with pytest.raises(GradientError, match="no input requires a gradient"):
        gradcheck(fw.exp, X.detach())
    with pytest.warns(UserWarning, match="input 0 is float32"):
        gradcheck(fw.sin, fw.ones(2).requires_grad_(), eps=1e-2, atol=1e-2)
