"""Clipping of gradients, by their norm and by value."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import GradientError
from fusewire.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)


def parameters(dtype=fw.float32):
    """Parameters with gradients [3, 4] and [[12]], of norm 13, and one without."""
    a, b, c = (nn.Parameter(fw.ones(*s, dtype=dtype)) for s in ((2,), (1, 1), (3,)))
    a.grad, b.grad = fw.tensor([3, -4], dtype=dtype), fw.tensor([[12]], dtype=dtype)
    return [a, b, c]


@pytest.mark.parametrize(("order", "norm"), [
    (2, 13.0), (2.0, 13.0), (1, 19.0), (math.inf, 12.0), ("inf", 12.0), (-math.inf, 3.0),
    (3, (27 + 64 + 1728) ** (1 / 3)), (0.5, (3 ** 0.5 + 2 + 12 ** 0.5) ** 2),
])
@pytest.mark.parametrize("dtype", [fw.float32, fw.float64])
def test_gradients_are_scaled_to_the_norm(order, norm, dtype):
    ps = parameters(dtype)
    gradients = [p.grad for p in ps]
    total = clip_grad_norm_(ps, 2.0, norm_type=order)
    assert_allclose(total.item(), norm, rtol=1e-6)
    assert total.dtype == dtype and [p.grad for p in ps] == gradients  # the same tensors
    assert_allclose(ps[0].grad.numpy(), np.array([3, -4]) * 2 / norm, rtol=1e-5)
    if order != 0.5:
        assert_allclose(get_total_norm([p.grad for p in ps[:2]], order).item(), 2.0, rtol=1e-5)


def test_small_gradients_stay_as_they_are():
    ps = parameters()
    assert clip_grad_norm_(iter(ps), 100).item() == 13
    assert ps[0].grad.tolist() == [3, -4] and ps[2].grad is None


def test_one_tensor_and_none_at_all():
    p = parameters()[0]
    clip_grad_norm_(p, 1.0)
    assert_allclose(p.grad.tolist(), [0.6, -0.8], rtol=1e-5)
    assert clip_grad_norm_([], 1.0).item() == 0 and get_total_norm([]).item() == 0
    with pytest.warns(UserWarning, match="generator of parameters is used up"):
        clip_grad_norm_((q for q in ()), 1.0)


def test_tied_gradients_are_scaled_once():
    a, b, _ = parameters()
    a.grad = b.grad = fw.tensor([6.0])
    clip_grads_with_norm_([a, b], 3.0, fw.tensor(6.0))
    assert_allclose(a.grad.tolist(), [3.0], rtol=1e-5)


def test_by_value():
    ps = parameters()
    clip_grad_value_(ps, 3.5)
    assert ps[0].grad.tolist() == [3, -3.5] and ps[1].grad.tolist() == [[3.5]]


def test_mixed_dtypes():
    a, b, _ = parameters()
    b.grad = fw.tensor([[12]], dtype=fw.float64)
    assert clip_grad_norm_([a, b], 1.3).dtype == fw.float64
    assert a.grad.dtype == fw.float32 and b.grad.dtype == fw.float64
    assert_allclose(a.grad.tolist(), [0.3, -0.4], rtol=1e-5)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_norms_that_are_no_number(value):
    ps = parameters()
    ps[0].grad = fw.tensor([value, 1.0])
    with pytest.raises(GradientError, match=f"the gradients is {value}, they cannot be clipped"):
        clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    assert ps[1].grad.item() == 12
    assert not math.isfinite(clip_grad_norm_(ps, 1.0).item())
    assert ps[1].grad.item() != 12


def test_in_a_compiled_step():
    def trained(compile):
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        sgd, x, y = fw.optim.SGD(model.parameters(), lr=0.5), fw.rand(9, 4), fw.rand(9, 1) * 10

        def step(x, y):
            sgd.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            norm = clip_grad_norm_(model.parameters(), 1.0)
            clip_grad_value_(model.parameters(), 0.3)
            sgd.step()
            return loss, norm

        run = fw.compile(step, fullgraph=True) if compile else step
        return [[v.item() for v in run(x, y)] for _ in range(6)], run

    (eager, _), (compiled, run) = trained(False), trained(True)
    assert_allclose(compiled, eager, rtol=1e-4)
    assert eager[0][1] > 1 and run.stats.recordings <= 2 and run.stats.replays >= 4
