"""Checkpoints keep no values and compute them again, for any order of derivative."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager import interpreter
from fusewire.eager.errors import ArgumentError, GradientError
from fusewire.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(*values: float) -> fw.Tensor:
    return fw.tensor(values if len(values) != 1 else values[0], requires_grad=True)


def wave(x: fw.Tensor) -> fw.Tensor:
    return (x.sin() * 2).exp().cos()


def orders(fn: Any, *values: float) -> list[Any]:
    """The first three derivatives of the sum of fn."""
    x, found = leaf(*values), []
    value = fn(x).sum()
    for _ in range(3):
        g, = fw.grad(value, x, create_graph=True)
        found.append(g.tolist())
        value = g.sum()
    return found


def test_any_order_of_derivative() -> None:
    assert orders(lambda x: checkpoint(wave, x), 0.3, 0.4) == orders(wave, 0.3, 0.4)


def test_nested() -> None:
    def plain(x: fw.Tensor) -> fw.Tensor:
        return wave(wave(x * 2) + x) * 3

    def inside(x: fw.Tensor) -> fw.Tensor:
        return checkpoint(wave, checkpoint(wave, x * 2) + x) * 3

    assert orders(lambda x: checkpoint(inside, x), 0.3, 0.4) == orders(plain, 0.3, 0.4)
    assert orders(inside, 0.3) == orders(plain, 0.3)


class Living:
    """Counts the arrays of the tensors it was shown that are still there."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, x: fw.Tensor) -> fw.Tensor:
        self.seen.append(weakref.ref(x._data))
        return x

    def count(self) -> int:
        return sum(ref() is not None for ref in self.seen)


def test_values_are_not_kept() -> None:
    living, most = Living(), 0

    def deep(x: fw.Tensor) -> fw.Tensor:
        nonlocal most
        for _ in range(10):
            x = living(x.sin() * 1.5)
            most = max(most, living.count())
        return x

    x = leaf(0.1, 0.2)
    kept = deep(x)
    assert living.count() == 10
    del kept
    living.seen.clear()
    most = 0
    out = checkpoint(deep, x)
    assert most <= 2 and living.count() == 1  # the result only
    out.sum().backward()
    assert len(living.seen) == 20 and living.count() == 1


def test_nested_checkpoints_compute_one_part_at_a_time() -> None:
    living, most = Living(), 0

    def part(x: fw.Tensor) -> fw.Tensor:
        nonlocal most
        for _ in range(10):
            x = living(x.sin() * 1.5)
            most = max(most, living.count())
        return x

    def whole(x: fw.Tensor) -> fw.Tensor:
        for _ in range(5):
            x = checkpoint(part, x)
        return x

    out = checkpoint(whole, leaf(0.1, 0.2))
    assert living.count() == 5  # the result, and what each part but the first begins with
    out.sum().backward()
    assert most <= 20  # of 50: one part, and what lies between the parts
    living.seen.clear()
    most = 0
    checkpoint_sequential([part] * 5, 5, leaf(0.1, 0.2)).sum().backward()
    assert most <= 20 and len(living.seen) == 50 + 40


def test_an_argument_that_the_outer_one_computes_again() -> None:
    living = Living()

    def whole(x: fw.Tensor) -> fw.Tensor:
        return checkpoint(wave, living(x.sin())) * 3

    out = checkpoint(whole, leaf(0.1, 0.2))
    assert living.count() == 0
    out.sum().backward()


def test_values_are_freed_as_backward_goes() -> None:
    living, counts = Living(), []
    y = leaf(0.1, 0.2)
    for _ in range(5):
        y = living(y.sin())
        y.register_hook(lambda g: counts.append(living.count()))
    loss = y.sum()
    del y
    loss.backward()
    assert counts == sorted(counts, reverse=True) and counts[0] == 5 and counts[-1] <= 2


def test_random_numbers_are_the_same_again() -> None:
    def noisy(x: fw.Tensor) -> fw.Tensor:
        return (x * fw.rand(3)).exp()

    x = fw.ones(3).requires_grad_()
    fw.manual_seed(1)
    plain, = fw.grad(noisy(x).sum(), x)
    after = fw.rand(1).item()
    fw.manual_seed(1)
    out = checkpoint(noisy, x).sum()
    assert fw.rand(1).item() == after
    fw.manual_seed(7)
    expected = fw.rand(1).item()
    fw.manual_seed(7)
    again, = fw.grad(out, x)
    assert again.tolist() == plain.tolist() and fw.rand(1).item() == expected
    other, = fw.grad(checkpoint(noisy, x, preserve_rng_state=False).sum(), x)
    assert other.tolist() != plain.tolist()


def test_parameters_and_keywords() -> None:
    linear = nn.Linear(3, 2)
    x = fw.rand(4, 3)

    def run(x: fw.Tensor, *, scale: Any) -> Any:
        return {"out": linear(x).tanh() * scale}

    scale = leaf(2.0)
    run(x, scale=scale)["out"].sum().backward()
    expected = [linear.weight.grad.tolist(), linear.bias.grad.tolist(), scale.grad.tolist()]
    linear.zero_grad()
    scale.grad = None
    checkpoint(run, x, scale=scale, use_reentrant=False)["out"].sum().backward()
    assert [linear.weight.grad.tolist(), linear.bias.grad.tolist(), scale.grad.tolist()] == expected


def test_a_tensor_from_around_the_function() -> None:
    x = leaf(0.5)
    outer = x * 3
    checkpoint(lambda: (outer * outer).exp()).backward()
    assert x.grad.item() == pytest.approx(9 * 2.718281828 ** 2.25)


def test_arguments_that_change_afterwards() -> None:
    x = leaf(2.0)
    y = x * 1
    out = checkpoint(lambda y: y * y, y)
    y += 100
    out.backward()
    assert x.grad.item() == 4.0


def test_retain_graph() -> None:
    x = leaf(0.5)
    out = checkpoint(wave, x)
    out.backward(retain_graph=True)
    once = x.grad.item()
    out.backward()
    assert x.grad.item() == 2 * once
    with pytest.raises(GradientError, match="freed by an earlier backward"):
        out.backward()


def test_off_the_tape() -> None:
    with fw.no_grad():
        assert not checkpoint(wave, leaf(1.0)).requires_grad
    assert not checkpoint(wave, fw.ones(1)).requires_grad
    with pytest.raises(ZeroDivisionError):
        checkpoint(lambda: 1 / 0)
    assert interpreter.STATE.active is None


def test_a_function_that_does_something_else_the_second_time() -> None:
    x, calls = leaf(0.5, 1.0), []

    def moody(x: fw.Tensor) -> fw.Tensor:
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.cos()

    with pytest.raises(GradientError, match=r"op 0 is cos .* in the forward \('sin', \(2,\)\)"):
        checkpoint(moody, x).sum().backward()
    calls.clear()
    checkpoint(moody, x, determinism_check="none").sum().backward()
    with pytest.raises(GradientError, match="1 ops ran, 2 in the forward"):
        calls.clear()
        checkpoint(lambda x: (calls.append(1), x * 2 if len(calls) > 1 else x * 2 * 3)[1],
                   x).sum().backward()
    with pytest.raises(ArgumentError, match="determinism_check 'x' is not known"):
        checkpoint(wave, x, determinism_check="x")


def test_sequential() -> None:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(5)])
    x = fw.rand(2, 3)
    model(x).sum().backward()
    expected = [p.grad.tolist() for p in model.parameters()]
    for segments in (1, 2, 5):
        model.zero_grad()
        checkpoint_sequential(model, segments, x).sum().backward()
        assert [p.grad.tolist() for p in model.parameters()] == expected
    with pytest.raises(ArgumentError, match="6 segments of 5 functions"):
        checkpoint_sequential(model, 6, x)


def test_recorded() -> None:
    def gradient(x: fw.Tensor) -> fw.Tensor:
        y = x.detach().requires_grad_()
        checkpoint(wave, y).sum().backward()
        return y.grad

    x = fw.tensor([0.3, 0.4])
    expected, compiled = gradient(x), fw.compile(gradient)
    for _ in range(3):
        assert fw.max(abs(compiled(x) - expected)).item() < 1e-5
    assert compiled.stats.replays == 2


def test_with_anomaly_mode() -> None:
    x = leaf(0.0)
    with fw.autograd.detect_anomaly(), pytest.raises(GradientError, match="gradient of sqrt"):
        (checkpoint(lambda x: x.sqrt() * 1, x) * 0).backward()
