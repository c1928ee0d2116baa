"""Optimizers against their formulas in NumPy's float64, and what they keep in tensors."""

import copy
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from optimizers import OPTIMIZERS, gradients, label, starts

import fusewire as fw
from fusewire.eager import nn, optim
from fusewire.eager.core.tape import no_grad
from fusewire.eager.errors import ArgumentError, DTypeError, GradientError, ShapeError, StateError


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


def rmsprop(p, grads, lr, alpha=0.99, eps=1e-8, momentum=0.0, centered=False, weight_decay=0.0):
    v = mean = buffer = 0.0
    for g in grads:
        g = g + weight_decay * p
        v, mean = alpha * v + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        buffer = momentum * buffer + g / (np.sqrt(v - mean * mean * centered) + eps)
        p = p - lr * buffer
    return p


def adagrad(p, grads, lr, lr_decay=0.0, initial_accumulator_value=0.0, eps=1e-10):
    total = initial_accumulator_value
    for t, g in enumerate(grads):
        total = total + g * g
        p = p - lr / (1 + t * lr_decay) * g / (np.sqrt(total) + eps)
    return p


def adadelta(p, grads, lr=1.0, rho=0.9, eps=1e-6):
    v = u = 0.0
    for g in grads:
        v = rho * v + (1 - rho) * g * g
        d = np.sqrt((u + eps) / (v + eps)) * g
        u = rho * u + (1 - rho) * d * d
        p = p - lr * d
    return p


def adamax(p, grads, lr, betas=(0.9, 0.999), eps=1e-8):
    m, u = 0.0, np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        u = np.maximum(betas[1] * u, abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u
    return p


def nadam(p, grads, lr, betas=(0.9, 0.999), eps=1e-8, momentum_decay=4e-3):
    def share(t):
        return betas[0] * (1 - 0.5 * 0.96 ** (t * momentum_decay))

    m, v, product = 0.0, 0.0, 1.0
    for t, g in enumerate(grads, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        product *= share(t)
        ahead = (1 - share(t)) / (1 - product) * g
        ahead = ahead + share(t + 1) / (1 - product * share(t + 1)) * m
        p = p - lr * ahead / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


def radam(p, grads, lr, betas=(0.9, 0.999), eps=1e-8):
    m, v, most = 0.0, 0.0, 2 / (1 - betas[1]) - 1
    for t, g in enumerate(grads, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        step = m / (1 - betas[0] ** t)
        length = most - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if length > 5:
            r = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            step = step * math.sqrt(r * (1 - betas[1] ** t)) / (np.sqrt(v) + eps)
        p = p - lr * step
    return p


def asgd(p, grads, lr, lambd=1e-4, alpha=0.75, t0=1e6):
    eta = lr
    for t, g in enumerate(grads, 1):
        p = p * (1 - lambd * eta) - eta * g
        eta = lr / (1 + lambd * lr * t) ** alpha
    return p


def rprop(p, grads, lr, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    before, size = np.zeros_like(p), np.full_like(p, lr)
    for g in grads:
        turned = g * before < 0
        size = np.clip(np.where(turned, etas[0], np.where(g * before > 0, etas[1], 1)) * size,
                       *step_sizes)
        before = np.where(turned, 0, g)
        p = p - np.sign(before) * size
    return p


def adafactor(p, grads, lr, d=1.0, eps=(1e-8, 1e-3)):
    rows, columns = np.zeros((p.shape[0], 1)), np.zeros((1, p.shape[1]))
    for t, g in enumerate(grads, 1):
        rows = rows + t ** -0.8 * ((g * g).mean(1, keepdims=True) - rows)
        columns = columns + t ** -0.8 * ((g * g).mean(0, keepdims=True) - columns)
        update = g / np.sqrt(rows @ columns / rows.mean())
        update = update / max(1.0, math.sqrt((update * update).mean()) / d)
        p = p - max(eps[1], math.sqrt((p * p).mean())) * min(lr, t ** -0.5) * update
    return p


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
    (optim.RMSprop, rmsprop, {"lr": 0.01, "weight_decay": 0.1}),
    (optim.RMSprop, rmsprop, {"lr": 0.01, "momentum": 0.7, "centered": True, "alpha": 0.5}),
    (optim.Adagrad, adagrad, {"lr": 0.1}),
    (optim.Adagrad, adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    (optim.Adadelta, adadelta, {"lr": 1.0}),
    (optim.Adadelta, adadelta, {"lr": 0.5, "rho": 0.5, "eps": 1e-4}),
    (optim.Adamax, adamax, {"lr": 0.01}),
    (optim.NAdam, nadam, {"lr": 0.01}),
    (optim.NAdam, nadam, {"lr": 0.01, "betas": (0.5, 0.9), "momentum_decay": 0.1}),
    (optim.RAdam, radam, {"lr": 0.01}),
    (optim.RAdam, radam, {"lr": 0.01, "betas": (0.5, 0.9)}),
    (optim.ASGD, asgd, {"lr": 0.01}),
    (optim.ASGD, asgd, {"lr": 0.1, "lambd": 0.1, "alpha": 0.5}),
    (optim.Rprop, rprop, {"lr": 0.01}),
    (optim.Rprop, rprop, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (0.05, 0.2)}),
    (optim.Adafactor, adafactor, {"lr": 0.1}),
    (optim.Adafactor, adafactor, {"lr": 0.5, "d": 2.0}),
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
    state = dict(optimizer.state[p])
    assert sorted(state) == ["exp_avg", "exp_avg_sq", "step"]
    assert state["step"].shape == () and state["step"].dtype == fw.float32
    take_steps(optimizer, p, [np.ones(2), np.ones(2)])
    assert all(optimizer.state[p][name] is tensor for name, tensor in state.items())
    assert state["step"].item() == 2 and not state["exp_avg"].requires_grad


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
    optimizer.load_state_dict({
        "state": {0: {"momentum_buffer": np.full(2, 4.0, np.float32)}},
        "param_groups": [{"lr": 0.5, "momentum": 0.5, "dampening": 0.5, "params": [0]}]})
    assert optimizer.param_groups[0]["lr"] == 0.5
    take_steps(optimizer, p, [np.full(2, 2.0)])  # buffer: 0.5 * 4 + 0.5 * 2; not the first step
    assert p.tolist() == [-0.5, -0.5]


def test_loading_what_does_not_fit():
    a, b = nn.Parameter(fw.ones(2)), nn.Parameter(fw.ones(3))
    first = optim.Adam([a], lr=0.1)
    with pytest.raises(StateError, match=r"groups of \[1\] parameters, .* groups of \[2\]"):
        optim.Adam([a, b]).load_state_dict(first.state_dict())
    take_steps(first, a, [np.ones(2)])
    other = optim.Adam([b])
    with pytest.raises(StateError) as error:
        other.load_state_dict(first.state_dict())
    assert str(error.value).splitlines()[:3] == [
        "the state dict does not fit Adam:",
        "    parameter 0 of shape (3,): exp_avg has shape (2,), it needs (3,)",
        "    parameter 0 of shape (3,): exp_avg_sq has shape (2,), it needs (3,)"]
    with pytest.raises(StateError) as error:
        optim.Adadelta([a]).load_state_dict(first.state_dict())
    assert "parameter 0 of shape (2,): missing: square_avg\n" in str(error.value)
    assert "unexpected: exp_avg\n" in str(error.value)
    assert other.param_groups[0]["lr"] == 0.001 and other.state[b]["step"].item() == 0
    with pytest.raises(DTypeError, match=r"takes a result of state_dict\(\), not str"):
        other.load_state_dict("adam.safetensors")


def test_a_state_dict_holds_plain_settings_and_what_has_made_a_step():
    a, b = nn.Parameter(fw.ones(2)), nn.Parameter(fw.ones(3))
    optimizer = optim.SGD([("a", a), ("b", b)], lr=0.5, momentum=0.9)
    take_steps(optimizer, b, [np.ones(3)])
    saved = optimizer.state_dict()
    assert saved["param_groups"] == [{
        "lr": 0.5, "momentum": 0.9, "dampening": 0, "weight_decay": 0, "nesterov": False,
        "maximize": False, "foreach": None, "differentiable": False, "fused": None,
        "param_names": ["a", "b"], "params": [0, 1]}]
    assert list(saved["state"]) == [1]
    assert saved["state"][1]["momentum_buffer"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("case", OPTIMIZERS, ids=label)
@pytest.mark.parametrize("way", ["state_dict", "pickle", "deepcopy"])
def test_copies_go_on_with_the_same_bits(case, way):
    name, settings = case
    grads = list(gradients(name, np.float32))
    params = [fw.tensor(v).requires_grad_() for v in starts(name, np.float32)]
    optimizer = getattr(optim, name)([{"params": params[:2]}, {"params": params[2:], "lr": 0.05}],
                                     **settings)
    steps(optimizer, params, grads[:7])
    if way == "state_dict":
        copies = [fw.tensor(p).requires_grad_() for p in params]
        other = getattr(optim, name)([{"params": copies[:2]}, {"params": copies[2:]}])
        other.load_state_dict(optimizer.state_dict())
    elif way == "pickle":
        other, copies = pickle.loads(pickle.dumps((optimizer, params)))
    else:
        other, copies = copy.deepcopy((optimizer, params))
    steps(optimizer, params, grads[7:])
    before = [p.tolist() for p in params]
    steps(other, copies, grads[7:])
    assert [p.tolist() for p in copies] == before == [p.tolist() for p in params]


def steps(optimizer, params, grads):
    for step in grads:
        for p, g in zip(params, step):
            p.grad = None if g is None else fw.tensor(g)
        optimizer.step()


# ---- parameters that take a step together
def many(*shapes, dtype=np.float32):
    rng = np.random.default_rng(4)
    return [nn.Parameter(fw.tensor(np.asarray(rng.standard_normal(s), dtype))) for s in shapes]


def test_what_somebody_holds_of_a_parameter_stays_as_it_was():
    params = many((3, 4), (5,), ())
    optimizer = optim.AdamW(params, lr=0.1)
    held = [[(fw.tensor(p), p.detach().numpy(), p._data, p.tolist()) for p in params]]
    for _ in range(3):
        for p in params:
            p.grad = fw.ones(*p.shape)
        optimizer.step()
        held.append([(fw.tensor(p), p.detach().numpy(), p._data, p.tolist()) for p in params])
    saved = optimizer.state_dict()["state"][0]["exp_avg"]
    mean = saved.tolist()
    with no_grad():
        params[1][2] = 7.0
    optimizer.step()
    for of_a_step in held:
        for tensor, array, data, values in of_a_step:
            assert tensor.tolist() == array.tolist() == data.tolist() == values
    assert saved.tolist() == mean


def test_a_parameter_changed_between_steps_is_alone_in_that():
    params = many((3,), (2, 2), (4,))
    optimizer = optim.SGD(params, lr=0.5)
    for p in params:
        p.grad = fw.zeros(*p.shape)
    optimizer.step()
    before = [p.tolist() for p in params]
    with no_grad():
        params[1][0, 1] = 9.0
        params[2].mul_(2.0)
    assert params[0].tolist() == before[0] and params[1].tolist()[1] == before[1][1]
    optimizer.step()
    assert params[1].tolist()[0][1] == 9.0
    assert params[2].tolist() == [2 * x for x in before[2]]


@pytest.mark.parametrize("case", OPTIMIZERS, ids=label)
def test_together_as_one_by_one(case):
    name, settings = case
    together, apart = ([fw.tensor(v).requires_grad_() for v in starts(name, np.float32)]
                       for _ in range(2))
    steps(getattr(optim, name)(together, **settings), together, gradients(name, np.float32))
    for i, p in enumerate(apart):
        alone = getattr(optim, name)([p], **settings)
        steps(alone, [p], [[g[i]] for g in gradients(name, np.float32)])
        assert_allclose(together[i].detach().numpy(), p.detach().numpy(), rtol=1e-6, atol=1e-7)


def test_dtypes_and_sizes_in_one_group():
    params = [*many((3,), (20_000,), (2,)), *many((3,), (0,), dtype=np.float64),
              nn.Parameter(fw.ones(2, dtype=fw.bfloat16)),
              nn.Parameter(fw.ones(2, dtype=fw.complex64))]
    optimizer = optim.Adam(params, lr=0.5, eps=0.0)
    before = [fw.tensor(p) for p in params]
    for p in params:
        p.grad = fw.full(p.shape, 2 - 3j if p.dtype == fw.complex64 else 2.0, dtype=p.dtype)
    optimizer.step()
    for p, old in zip(params, before):
        assert p.dtype == old.dtype and p.shape == old.shape
        change = -0.5 + 0.5j if p.dtype == fw.complex64 else -0.5
        difference = (p - old).detach().numpy().astype(type(change))
        assert_allclose(difference, np.full(p.shape, change), rtol=1e-6)


def test_a_gradient_of_another_shape():
    p = nn.Parameter(fw.ones(2, 3))
    optimizer = optim.SGD([p])
    p.grad = fw.ones(3)
    with pytest.raises(ShapeError, match=r"a parameter of shape \(2, 3\) has shape \(3,\)"):
        optimizer.step()


def test_a_lazy_parameter_gets_its_state_in_its_first_step():
    layer = nn.LazyLinear(2)
    optimizer = optim.Adam(layer.parameters(), lr=0.1)
    layer(fw.ones(4, 3)).sum().backward()
    optimizer.step()
    assert optimizer.state[layer.weight]["exp_avg"].shape == (2, 3)


# ---- hooks, and optimizers of one's own
def test_hooks_around_a_step():
    p = nn.Parameter(fw.ones(1))
    optimizer, seen = optim.SGD([p], lr=1.0), []
    with optimizer.register_step_pre_hook(lambda *args: seen.append(("before", args[1:]))), \
            optimizer.register_step_post_hook(lambda *args: seen.append(("after", args[1:]))):
        take_steps(optimizer, p, [np.ones(1)])
    take_steps(optimizer, p, [np.ones(1)])
    assert seen == [("before", ((optimizer,), {})), ("after", ((optimizer,), {}))]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 5), {}))
    assert optimizer.step() == 5


def test_hooks_around_state_dicts():
    p = nn.Parameter(fw.ones(1))
    optimizer, seen = optim.SGD([p], lr=1.0), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "note": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state["note"]))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["saving", 1, "loaded"]


def test_an_optimizer_of_ones_own_defines_step():
    class Halving(optim.Optimizer):
        def __init__(self, params, factor=0.5):
            super().__init__(params, {"factor": factor})

        @no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
                    p.mul_(group["factor"])

    p = nn.Parameter(fw.ones(2))
    optimizer = Halving([p])
    calls = []
    optimizer.register_step_post_hook(lambda *args: calls.append(1))
    optimizer.step(), optimizer.step()
    assert p.tolist() == [0.25, 0.25] and calls == [1, 1]
    other = Halving([p])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[p] == {"steps": 2}


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.RMSprop, optim.Adagrad, optim.NAdam,
                                  optim.Adadelta, optim.RAdam, optim.Adamax, optim.ASGD])
def test_a_step_can_be_differentiated(make):
    def trained(x):
        p = x * 1.0
        optimizer = make([p], lr=0.1, differentiable=True, weight_decay=0.1)
        for _ in range(3):
            p.grad = p * p * 0.3
            optimizer.step()
        return p

    x = fw.tensor([0.5, -1.5, 2.0], dtype=fw.float64, requires_grad=True)
    assert fw.autograd.gradcheck(trained, x)


# ---- L-BFGS
@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum(line_search_fn):
    x, y = nn.Parameter(fw.tensor([-1.2])), nn.Parameter(fw.tensor(1.0))
    lr = 1.0 if line_search_fn else 0.2
    optimizer = optim.LBFGS([x, y], lr=lr, line_search_fn=line_search_fn)

    def closure():
        optimizer.zero_grad()
        loss = (10 * (y - x * x) ** 2 + (1 - x) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(12):
        optimizer.step(closure)
    assert_allclose([x.item(), y.item()], [1, 1], atol=1e-2)
    assert closure().item() < 1e-4


def test_lbfgs_needs_a_closure_and_one_group():
    p, q = nn.Parameter(fw.ones(1)), nn.Parameter(fw.ones(1))
    with pytest.raises(ArgumentError, match="step needs a closure"):
        optim.LBFGS([p]).step()
    with pytest.raises(ArgumentError, match="one group of parameters"):
        optim.LBFGS([{"params": [p]}, {"params": [q]}])


# ---- Muon
def test_muon_steps_are_nearly_orthogonal():
    p = nn.Parameter(fw.zeros(4, 8))
    optimizer = optim.Muon([p], lr=1.0, momentum=0.0, weight_decay=0.0)
    p.grad = fw.tensor(np.random.default_rng(5).standard_normal((4, 8)).astype(np.float32))
    optimizer.step()
    singular = np.linalg.svd(p.detach().numpy(), compute_uv=False)
    assert singular.min() > 0.6 and singular.max() < 1.3


# ---- errors
def test_what_cannot_be_optimized():
    p = nn.Parameter(fw.ones(1))
    with pytest.raises(ArgumentError, match="no parameters"):
        optim.Adam(iter(()))
    with pytest.raises(ArgumentError, match=r"parameter 1 of shape \(1,\) is given twice"):
        optim.Adam([p, p])
    with pytest.raises(ArgumentError, match=r"parameter 0 \(b\) .* is given twice"):
        optim.Adam([{"params": [("a", p)]}, {"params": [("b", p)]}])
    with pytest.raises(DTypeError, match="a list of parameters, not one tensor"):
        optim.SGD(p)
    with pytest.raises(DTypeError, match="a set have no order"):
        optim.SGD([{"params": {p}}])
    with pytest.raises(DTypeError, match="a group is a dict with 'params'"):
        optim.SGD([p]).add_param_group([p])
    with pytest.raises(ArgumentError, match="1 of 2 parameters have no name"):
        optim.SGD([("a", p), nn.Parameter(fw.ones(1))])
    with pytest.raises(ArgumentError, match="a group with names beside one without"):
        optim.SGD([p]).add_param_group({"params": [("b", nn.Parameter(fw.ones(1)))]})
    with pytest.raises(ShapeError, match=r"takes matrices, got a parameter of shape \(1,\)"):
        optim.Muon([p])
    with pytest.raises(DTypeError, match="not str"):
        optim.SGD(["weight"])
    with pytest.raises(GradientError, match="computed from others"):
        optim.SGD([p * 2])


@pytest.mark.parametrize(("make", "options", "text"), [
    (optim.SGD, {"lr": -1.0}, "lr must be at least 0"),
    (optim.SGD, {"nesterov": True}, "nesterov needs a momentum"),
    (optim.Adam, {"betas": (0.9, 1.0)}, r"betas\[1\] must be 0 <= value < 1"),
    (optim.AdamW, {"betas": 0.9}, "AdamW: betas are two numbers, got 0.9"),
    (optim.AdamW, {"eps": math.nan}, "AdamW: eps must be at least 0"),
    (optim.RMSprop, {"momentum": -0.5}, "momentum must be at least 0.0, got -0.5"),
    (optim.Adadelta, {"rho": 1.5}, "rho must be between 0 and 1, got 1.5"),
    (optim.Adagrad, {"lr_decay": -1.0}, "Adagrad: lr_decay must be at least 0"),
    (optim.NAdam, {"weight_decay": -1.0}, "NAdam: weight_decay must be at least 0"),
    (optim.Rprop, {"etas": (1.5, 1.2)}, r"etas must be 0 < etas\[0\] < 1 < etas\[1\]"),
    (optim.Adafactor, {"d": 0.5}, "d must be at least 1.0, got 0.5"),
    (optim.Adafactor, {"eps": (None, -1.0)}, r"eps\[1\] must be at least 0.0, got -1.0"),
    (optim.LBFGS, {"line_search_fn": "wolfe"}, "line_search_fn 'wolfe' is not known"),
    (optim.SGD, {"lr": fw.ones(2)}, r"lr must be a real number, got a tensor float32\[2\]"),
])
def test_settings_that_make_no_sense(make, options, text):
    with pytest.raises(ArgumentError, match=text):
        make([nn.Parameter(fw.ones(1))], **options)


def test_a_layer_is_no_list_of_parameters():
    with pytest.raises(fw.ArgumentError, match=r"pass model\.parameters\(\)"):
        fw.optim.SGD(fw.nn.Linear(2, 2), lr=0.1)


@pytest.mark.parametrize("make", [optim.Rprop, optim.ASGD])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_first_step_takes_the_rate_as_it_is_then(make, compiled):
    p = nn.Parameter(fw.tensor([1.0, 2.0]))
    optimizer = make([p], lr=0.1)
    fw.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)  # 0.05 from here on

    def step():
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()

    (fw.compile(step) if compiled else step)()
    assert_allclose(p.detach().numpy(), [0.95, 1.95], rtol=1e-5)
