"""Optimizers against their formulas in NumPy's float64, and what they keep in tensors."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire.eager import nn, optim
from fusewire.eager.errors import ArgumentError, DTypeError, GradientError, StateError
from fusewire.eager.tape import no_grad


def sgd(p, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    buffer = None
    for g in grads:
        g = g + weight_decay * p
        buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
        p = p - lr * (g + momentum * buffer if nesterov else buffer if momentum else g)
    return p


def adam(p, grads, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False,
         amsgrad=False):
    m, v, largest = 0.0, 0.0, 0.0
    for t, g in enumerate(grads, 1):
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        largest = np.maximum(largest, v)
        scale = np.sqrt(largest if amsgrad else v) / math.sqrt(1 - betas[1] ** t)
        p = p - lr / (1 - betas[0] ** t) * m / (scale + eps)
    return p


def adamw(p, grads, weight_decay=1e-2, **options):
    return adam(p, grads, weight_decay=weight_decay, decoupled=True, **options)


CASES = [
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "weight_decay": 0.05}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.01}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.8, "nesterov": True}),
    (optim.Adam, adam, {"lr": 0.01}),
    (optim.Adam, adam, {"lr": 0.01, "betas": (0.5, 0.99999), "weight_decay": 0.1}),
    (optim.Adam, adam, {"lr": 0.01, "amsgrad": True}),
    (optim.Adam, adam, {"lr": 0.01, "betas": (0.0, 0.9)}),
    (optim.AdamW, adamw, {"lr": 0.01}),
    (optim.AdamW, adamw, {"lr": 0.01, "weight_decay": 0.3, "eps": 1e-3}),
]


def problem(dtype=np.float64, steps=20):
    random = np.random.default_rng(0)
    sizes = [10.0 ** (i % 3 - 1) for i in range(steps)]
    grads = [random.standard_normal((3, 4)).astype(dtype) * size for size in sizes]
    return random.standard_normal((3, 4)).astype(dtype), grads


def take_steps(optimizer, p, grads):
    for g in grads:
        p.grad = fw.tensor(g, dtype=p.dtype)
        optimizer.step()


@pytest.mark.parametrize(("make", "formula", "options"), CASES)
@pytest.mark.parametrize("dtype", [fw.float32, fw.float64])
def test_twenty_steps_follow_the_formula(make, formula, options, dtype):
    start, grads = problem()
    p = nn.Parameter(fw.tensor(start, dtype=dtype))
    take_steps(make([p], **options), p, grads)
    assert p.dtype == dtype and p.is_leaf
    assert_allclose(p.detach().numpy(), formula(start, grads, **options), rtol=2e-6, atol=2e-6)


def test_bias_correction_is_exact_at_the_first_step():
    p = nn.Parameter(fw.tensor([1.0, 1.0]))
    optimizer = optim.Adam([p], lr=0.5, betas=(0.9, 0.9999), eps=1e-12)
    p.grad = fw.tensor([1e-4, -3.0])
    optimizer.step()  # m / sqrt(v) is +-1 after one step, however small the gradient
    assert_allclose(p.detach().numpy(), [0.5, 1.5], rtol=1e-6)


def test_maximize_turns_the_step_round():
    up, down = (nn.Parameter(fw.tensor([1.0])) for _ in range(2))
    take_steps(optim.AdamW([up], maximize=True), up, [np.array([2.0])])
    take_steps(optim.AdamW([down]), down, [np.array([-2.0])])
    assert up.tolist() == down.tolist()


# ---- what a step changes lives in tensors
def test_state_is_made_at_once_and_changed_in_place():
    p = nn.Parameter(fw.ones(2))
    optimizer = optim.Adam([p])
    state, lr = dict(optimizer.state[p]), optimizer.param_groups[0]["lr"]
    assert sorted(state) == ["exp_avg", "exp_avg_sq", "step"]
    assert state["step"].shape == lr.shape == () and lr.dtype == fw.float32
    take_steps(optimizer, p, [np.ones(2), np.ones(2)])
    assert all(optimizer.state[p][name] is tensor for name, tensor in state.items())
    assert state["step"].item() == 2 and not state["exp_avg"].requires_grad
    assert next(iter(optim.SGD([p], momentum=0.9).state[p])) == "momentum_buffer"


def test_learning_rate_as_number_and_as_tensor():
    p = nn.Parameter(fw.tensor([1.0]))
    optimizer = optim.SGD([p], lr=0.5)
    group = optimizer.param_groups[0]
    take_steps(optimizer, p, [np.array([1.0])])
    group["lr"] = 0.25
    take_steps(optimizer, p, [np.array([1.0])])
    group["lr"] = fw.tensor(0.125)
    take_steps(optimizer, p, [np.array([1.0])])
    assert p.tolist() == [0.125]


def test_momentum_may_be_switched_on_later():
    p = nn.Parameter(fw.tensor([1.0]))
    optimizer = optim.SGD([p], lr=1.0)
    optimizer.param_groups[0]["momentum"] = 0.5
    take_steps(optimizer, p, [np.array([1.0]), np.array([0.0])])
    assert p.tolist() == [-0.5]


def test_parameters_without_gradient_are_left_alone():
    a, b = nn.Parameter(fw.ones(1)), nn.Parameter(fw.ones(1))
    optimizer = optim.AdamW([a, b])
    take_steps(optimizer, a, [np.ones(1)])
    assert b.tolist() == [1.0] and optimizer.state[b]["step"].item() == 0
    optimizer.zero_grad()
    assert a.grad is None


def test_groups_have_settings_of_their_own():
    a, b = nn.Parameter(fw.ones(1)), nn.Parameter(fw.ones(1))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    for p in (a, b):
        p.grad = fw.ones(1)
    optimizer.step()
    assert_allclose([a.item(), b.item()], [0.9, 0.5])
    assert "lr: 0.5" in repr(optimizer)


def test_closure_runs_with_the_tape_on():
    p = nn.Parameter(fw.tensor([3.0]))
    optimizer = optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with no_grad():
        assert optimizer.step(closure).item() == 9
    assert_allclose(p.tolist(), [2.4], rtol=1e-6)


# ---- saving and loading
@pytest.mark.parametrize(("make", "formula", "options"), CASES)
def test_training_goes_on_after_loading(make, formula, options):
    start, grads = problem(np.float32)
    whole, first, second = (nn.Parameter(fw.tensor(start)) for _ in range(3))
    take_steps(make([whole], **options), whole, grads)
    optimizer = make([first], **options)
    take_steps(optimizer, first, grads[:7])
    saved = optimizer.state_dict()
    take_steps(optimizer, first, grads[:3])  # what was saved is a snapshot

    later = make([second], lr=77.0)
    take_steps(later, second, grads[-3:])
    with no_grad():
        middle = nn.Parameter(fw.tensor(start))
        take_steps(make([middle], **options), middle, grads[:7])
        second.copy_(middle)
    later.load_state_dict(saved)
    take_steps(later, second, grads[7:])
    assert second.tolist() == whole.tolist()


def test_loading_plain_numbers_and_arrays():
    p = nn.Parameter(fw.ones(2))
    optimizer = optim.SGD([p], momentum=0.9, dampening=0.5)
    lr = optimizer.param_groups[0]["lr"]
    optimizer.load_state_dict({
        "state": {0: {"momentum_buffer": np.full(2, 4.0, np.float32)}},
        "param_groups": [{"lr": 0.5, "momentum": 0.5, "dampening": 0.5, "params": [0]}]})
    assert optimizer.param_groups[0]["lr"] is lr and lr.item() == 0.5
    take_steps(optimizer, p, [np.full(2, 2.0)])  # buffer: 0.5 * 4 + 0.5 * 2; not the first step
    assert p.tolist() == [-0.5, -0.5]


def test_loading_what_does_not_fit():
    a, b = nn.Parameter(fw.ones(2)), nn.Parameter(fw.ones(3))
    saved = optim.Adam([a]).state_dict()
    with pytest.raises(StateError, match=r"groups of \[1\] parameters, .* groups of \[2\]"):
        optim.Adam([a, b]).load_state_dict(saved)
    with pytest.raises(StateError, match=r"exp_avg of a .* shape \(3,\) has shape \(2,\)"):
        optim.Adam([b]).load_state_dict(saved)


# ---- errors
def test_what_cannot_be_optimized():
    p = nn.Parameter(fw.ones(1))
    with pytest.raises(ArgumentError, match="no parameters"):
        optim.Adam(iter(()))
    with pytest.raises(ArgumentError, match="given twice"):
        optim.Adam([p, p])
    with pytest.raises(DTypeError, match="not str"):
        optim.SGD(["weight"])
    with pytest.raises(GradientError, match="computed from others"):
        optim.SGD([p * 2])


@pytest.mark.parametrize(("make", "options", "text"), [
    (optim.SGD, {"lr": -1.0}, "lr must be at least 0"),
    (optim.SGD, {"nesterov": True}, "nesterov needs a momentum"),
    (optim.Adam, {"betas": (0.9, 1.0)}, r"betas\[1\] must be 0 <= value < 1"),
    (optim.AdamW, {"eps": math.nan}, "AdamW: eps must be at least 0"),
])
def test_settings_that_make_no_sense(make, options, text):
    with pytest.raises(ArgumentError, match=text):
        make([nn.Parameter(fw.ones(1))], **options)
