"""Functions with a way back of the user's own, and checkpoints, inside of transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import GradientError
from fusewire.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from fusewire.utils.checkpoint import checkpoint


class Steps(fw.autograd.Function):
    """Rounds forward, and goes back as if it had not: only the user's backward knows."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, factor: float) -> Any:
        ctx.save_for_backward(x, w)
        ctx.factor = factor
        return (x ** 3).round() * w * factor, x * w

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, w = ctx.saved_tensors
        return (g * 3 * x ** 2 * w * ctx.factor + h * w,
                (g * x ** 3 * ctx.factor + h * x).sum(), None)


def f(x: Any, w: Any) -> Any:
    first, second = Steps.apply(x, w, 2.0)
    return (first + second * second).sum()


def numbers(*shape: int, seed: int = 0) -> Any:
    return fw.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


def looped(g: Any, xs: Any) -> Any:
    return fw.stack([g(x) for x in xs])


X, W = numbers(4, 3), numbers()


def test_over_a_batch() -> None:
    same(vmap(lambda x: f(x, W))(X), looped(lambda x: f(x, W), X))
    same(vmap(grad(lambda x: f(x, W)))(X), looped(grad(lambda x: f(x, W)), X))


def test_gradients_through_a_batch_are_the_users() -> None:
    same(grad(lambda x: vmap(lambda a: f(a, W))(x).sum())(X), looped(grad(lambda x: f(x, W)), X))
    by_w = grad(lambda w: vmap(lambda a: f(a, w))(X).sum())(W)
    same(by_w, grad(lambda w: looped(lambda a: f(a, w), X).sum())(W))


def test_second_gradients_through_a_batch() -> None:
    def once(x: Any) -> Any:
        return (grad(lambda z: vmap(lambda a: f(a, W))(z).sum())(x) ** 2).sum()

    same(grad(once)(X), grad(lambda x: (looped(grad(lambda a: f(a, W)), x) ** 2).sum())(X))


def test_tangents_are_the_transpose_of_the_users_backward() -> None:
    x, t = X[0], numbers(3, seed=1)
    out, slope = jvp(lambda a: f(a, W), (x,), (t,))
    same(slope, (grad(lambda a: f(a, W))(x) * t).sum())
    assert not out.requires_grad and not slope.requires_grad
    same(jacfwd(lambda a: Steps.apply(a, W, 2.0)[0])(x),
         jacrev(lambda a: Steps.apply(a, W, 2.0)[0])(x))
    same(hessian(lambda a: f(a, W))(x), jacrev(jacrev(lambda a: f(a, W)))(x))
    same(vmap(hessian(lambda a: f(a, W)))(X), looped(hessian(lambda a: f(a, W)), X))


def test_an_argument_changed_in_place_is_an_error() -> None:
    class Doubled(fw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x *= 2
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    with pytest.raises(GradientError, match="mark_dirty inside of a transform"):
        vmap(lambda x: Doubled.apply(x * 1))(X)


def test_checkpoints() -> None:
    def kept(x: Any) -> Any:
        return (x.sin() * x).sum()

    def again(x: Any) -> Any:
        return checkpoint(kept, x)

    same(vmap(grad(again))(X), looped(grad(kept), X))
    same(grad(lambda x: vmap(again)(x).sum())(X), looped(grad(kept), X))
    same(grad(lambda x: checkpoint(lambda z: vmap(kept)(z).sum(), x))(X), looped(grad(kept), X))
    same(hessian(again)(X[0]), hessian(kept)(X[0]))
