"""Activations against their formulas in NumPy, at corners and far from 0; in place; their errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire.eager.errors import ArgumentError, DTypeError, GradientError, ShapeError

nn, F = fw.nn, fw.nn.functional


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


ERF = np.vectorize(math.erf)
ACTIVATIONS: list[tuple[Any, Any]] = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.PReLU(init=0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    (nn.RReLU(0.2, 0.4).eval(), lambda x: np.where(x > 0, x, 0.3 * x)),
    (nn.ELU(1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x))),
    (nn.CELU(0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7))),
    (nn.SELU(), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772
                                                        * np.expm1(x))),
    (nn.GELU(), lambda x: 0.5 * x * (1 + ERF(x / 2 ** 0.5))),
    (nn.GELU("tanh"),
     lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))),
    (nn.SiLU(), lambda x: x / (1 + np.exp(-x))),
    (nn.Mish(), lambda x: x * np.tanh(softplus(x))),
    (nn.GLU(dim=0), lambda x: x[:2] / (1 + np.exp(-x[2:]))),
    (nn.Softplus(2.0), lambda x: softplus(2 * x) / 2),
    (nn.Softsign(), lambda x: x / (1 + abs(x))),
    (nn.Softshrink(0.3), lambda x: np.sign(x) * np.maximum(abs(x) - 0.3, 0)),
    (nn.Hardshrink(0.3), lambda x: np.where(abs(x) > 0.3, x, 0)),
    (nn.Hardtanh(-0.5, 0.8), lambda x: np.clip(x, -0.5, 0.8)),
    (nn.Hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (nn.Hardswish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (nn.Threshold(0.1, -1.0), lambda x: np.where(x > 0.1, x, -1)),
    (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    (nn.LogSigmoid(), lambda x: -softplus(-x)),
    (nn.Tanh(), np.tanh),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    (nn.Softmax(dim=1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    (nn.Softmin(dim=1), lambda x: np.exp(-x) / np.exp(-x).sum(1, keepdims=True)),
    (nn.LogSoftmax(dim=0), lambda x: x - np.log(np.exp(x).sum(0, keepdims=True))),
]


@pytest.mark.parametrize(("layer", "formula"), ACTIVATIONS, ids=lambda v: repr(v)[:24])
def test_activation_and_its_gradient(layer: Any, formula: Any) -> None:
    x, eps = values(4, 5), 1e-6
    given = fw.tensor(x, requires_grad=True)
    out = layer.double()(given)
    assert_allclose(out.detach().numpy(), formula(x), rtol=1e-7)
    direction = values(*out.shape, seed=1)
    (out * fw.tensor(direction)).sum().backward()
    assert given.grad is not None
    for at in [(0, 0), (1, 3), (3, 4)]:
        step = np.zeros_like(x)
        step[at] = eps
        slope = ((formula(x + step) - formula(x - step)) * direction).sum() / (2 * eps)
        assert_allclose(given.grad.numpy()[at], slope, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("function", "at", "value", "slope"), [
    (F.relu6, 0.0, 0.0, 0.0), (F.relu6, 6.0, 6.0, 0.0), (F.hardtanh, -1.0, -1.0, 0.0),
    (F.hardsigmoid, 3.0, 1.0, 0.0), (F.hardswish, 3.0, 3.0, 1.0), (F.hardswish, -3.0, 0.0, 0.0),
    (F.softshrink, 0.5, 0.0, 0.0), (F.hardshrink, 0.5, 0.0, 0.0), (F.celu, 0.0, 0.0, 1.0)],
    ids=lambda v: getattr(v, "__name__", str(v)))
def test_at_corners_the_slope_is_that_of_the_flat_side(
        function: Any, at: float, value: float, slope: float) -> None:
    x = fw.tensor([at], requires_grad=True)
    out = function(x)
    out.sum().backward()
    assert x.grad is not None
    assert (out.tolist(), x.grad.tolist()) == ([value], [slope])


def test_far_from_0_nothing_overflows() -> None:
    x = fw.tensor([-200.0, 0.0, 200.0])
    assert_allclose(F.softplus(x).numpy(), [0, math.log(2), 200])
    assert_allclose(F.gelu(x).numpy(), [0, 0, 200])
    assert_allclose(F.mish(x).numpy(), [0, 0, 200])
    assert_allclose(F.logsigmoid(x).numpy(), [-200, -math.log(2), 0])


@pytest.mark.parametrize("name", "mish softsign tanhshrink selu celu hardswish glu".split())
def test_small_dtypes_are_rounded_once(name: str) -> None:
    function, x = getattr(F, name), fw.tensor(values(6, 8).astype(np.float32)).astype(fw.bfloat16)
    wide = function(x.astype(fw.float32))
    assert function(x).dtype == fw.bfloat16
    assert function(x).tolist() == wide.astype(fw.bfloat16).tolist()


def test_inplace_changes_the_input_and_gives_it_back() -> None:
    for layer in (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Mish, nn.SELU):
        x = fw.tensor([-1.0, 2.0])
        expected = layer()(x).tolist()
        assert layer(inplace=True)(x) is x
        assert x.tolist() == expected != [-1.0, 2.0]
    x = fw.tensor([-1.0, 2.0])
    assert F.leaky_relu_(x, 0.5) is x and x.tolist() == [-0.5, 2.0]


def test_inplace_goes_on_the_tape_but_not_over_a_leaf() -> None:
    x = fw.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 3
    F.relu_(y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 3.0]
    with pytest.raises(GradientError, match="changed in place"):
        F.relu_(x)
    with pytest.raises(DTypeError, match=r"elu: the result is float32[\s\S]*int64"):
        F.elu_(fw.tensor([1, 2]))


def test_random_slopes_are_drawn_while_training() -> None:
    fw.manual_seed(0)
    x = -fw.ones(1000)
    out = -nn.RReLU(0.2, 0.6)(x).numpy()
    assert 0.2 <= out.min() < 0.21 and 0.59 < out.max() <= 0.6
    assert F.rrelu(fw.tensor([3.0]), training=True).tolist() == [3.0]


def test_gumbel_softmax_draws_by_the_logits() -> None:
    fw.manual_seed(0)
    logits = fw.tensor([[1.0, 0.0, -1.0]] * 4000, requires_grad=True)
    hard = F.gumbel_softmax(logits, hard=True)
    assert_allclose(hard.detach().numpy().sum(1), 1)
    assert_allclose(hard.detach().numpy().mean(0), F.softmax(logits[0], 0).tolist(), atol=0.03)
    (hard * fw.tensor([1.0, 0.0, 0.0])).sum().backward()
    assert logits.grad is not None and logits.grad.numpy().any()
    soft = F.gumbel_softmax(logits, tau=0.5)
    assert_allclose(soft.detach().numpy().sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.Softmax()(fw.ones(2, 3)), "softmax: along which axis.*2, 3"),
    (lambda: nn.Softmax2d()(fw.ones(2, 3)), r"Softmax2d: takes \(n, channels, h, w\)"),
    (lambda: F.glu(fw.ones(2, 3)), r"glu: axis 1 of input \(2, 3\) cannot be halved"),
    (lambda: F.prelu(fw.ones(2, 3), fw.ones(2)), r"prelu: weight \(2,\).*3 channels in axis 1"),
])
def test_wrong_shapes(call: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        call()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.GELU("fast"), "GELU: approximate 'fast' is not known"),
    (lambda: F.hardtanh(fw.ones(2), 1.0, -1.0), "min_val must not be above max_val"),
    (lambda: F.rrelu(fw.ones(2), 1.0, 0.5), "lower must not be above upper"),
    (lambda: F.softshrink(fw.ones(2), -1.0), "lambd must be at least 0"),
    (lambda: F.celu(fw.ones(2), 0.0), "alpha must not be 0")])
def test_wrong_settings(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
