"""Reverse mode: what backward and grad promise beyond the gradients of single ops."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.core.tape import Entry
from fusewire.eager.errors import DTypeError, GradientError, ShapeError
from fusewire.eager.ops.elementwise.composite import call, composite


def leaf(*values: float) -> fw.Tensor:
    return fw.tensor(values if len(values) != 1 else values[0], requires_grad=True)


# ---- backward
def test_backward_collects_gradients_in_leaves() -> None:
    x, y = leaf(2.0), leaf(3.0)
    (x * y + x).backward()
    assert (x.grad.item(), y.grad.item()) == (4.0, 2.0)
    (x * y).backward()  # gradients add up over calls
    assert (x.grad.item(), y.grad.item()) == (7.0, 4.0)


def test_a_leaf_is_its_own_result() -> None:
    x = leaf(2.0)
    x.backward()
    assert x.grad.item() == 1.0


def test_each_leaf_has_a_gradient_of_its_own() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    seed = fw.ones(2)
    (x + y).backward(seed)
    with fw.no_grad():
        x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0] and seed.tolist() == [1.0, 1.0]


def test_results_are_not_leaves_and_get_no_grad() -> None:
    x = leaf(1.0)
    y = x * 2
    y.backward()
    assert (x.is_leaf, y.is_leaf, y.requires_grad, y.grad) == (True, False, True, None)


def test_gradient_sums_over_broadcast_axes() -> None:
    row, column, number = fw.ones(3), fw.ones(2, 1), leaf(1.0)
    for t in (row, column):
        t.requires_grad_()
    (row * column * number).sum().backward()
    assert (row.grad.tolist(), column.grad.tolist()) == ([2.0] * 3, [[3.0], [3.0]])
    assert number.grad.item() == 6.0 and number.grad.shape == ()


def test_diamonds_are_walked_once() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(40):  # 2 ** 40 paths
        y = y * 0.5 + y * 0.5
    y.backward()
    assert x.grad.item() == 1.0


def test_chains_of_any_length() -> None:
    x = y = leaf(1.0)
    for _ in range(20_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    y = x
    for _ in range(20_000):
        y = -y
    del y  # the tape is taken down without recursion too


def test_in_place_updates_do_not_change_what_was_computed() -> None:
    x = leaf(3.0)
    y = x * 1
    z = y * y
    y += 100
    z.backward()
    assert x.grad.item() == 6.0


def test_gradients_flow_through_in_place_updates() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y[1] = y[0] * 5
    y *= 10
    y.sum().backward()
    assert x.grad.tolist() == [120.0, 0.0, 20.0]


# ---- what backward refuses
@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: fw.ones(2).sum().backward(), GradientError, "does not depend on anything"),
    (lambda: (leaf(1.0, 2.0) * 2).backward(), GradientError, "shape (2,) has no single gradient"),
    (lambda: leaf(1.0, 2.0).backward(fw.ones(3)), ShapeError, "has shape (3,), the tensor (2,)"),
    (lambda: leaf(1.0).backward(fw.ones((), dtype=fw.float64)), DTypeError, "gradient is float64"),
    (lambda: leaf(1.0).backward("x"), DTypeError, "backward: takes tensors, not str"),
    (lambda: leaf(1.0).astype(fw.complex64).backward(), GradientError,
     "grad can be created only for real scalar outputs"),
    (lambda: fw.arange(3).requires_grad_(), DTypeError, "int64 cannot require a gradient"),
    (lambda: (leaf(1.0) * 2).requires_grad_(False), GradientError,
     "only leaves can stop requiring a gradient"),
    (lambda: leaf(1.0).add_(1), GradientError, "a leaf that requires a gradient cannot be changed"),
])
def test_refusals(make: object, error: type, words: str) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        make()


def test_the_tape_is_freed_unless_retained() -> None:
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12.0
    with pytest.raises(GradientError, match="freed by an earlier backward"):
        y.backward()


@pytest.mark.parametrize("wrap", [lambda f: f, fw.compile])
@pytest.mark.parametrize("old_first", [True, False])
def test_a_backward_over_a_freed_tape_changes_no_gradient(wrap: Any, old_first: bool) -> None:
    weight = fw.tensor([2.0, 3.0], requires_grad=True)

    @wrap
    def first(x: Any) -> Any:
        y = weight * x
        y.sum().backward()
        return y

    for _ in range(3):  # the third call is a replay
        old = first(fw.tensor([1.0, 1.0]))

    def step(x: Any) -> None:
        new = weight * x
        (old + new if old_first else new + old).sum().backward()

    step = wrap(step)
    for _ in range(3):
        with pytest.raises(GradientError, match="freed by an earlier backward"):
            step(fw.tensor([5.0, 7.0]))
        assert weight.grad.tolist() == [3.0, 3.0]


def test_backward_frees_what_the_tape_held() -> None:
    x = fw.ones(4).requires_grad_()
    y = x * 2
    z = (y * y).sum()
    held = weakref.ref(y)
    del y
    assert held() is None  # the tape holds arrays, not tensors
    entry = z.edge
    z.backward()
    assert isinstance(entry, Entry) and entry.arrays is None
    found = weakref.ref(x)
    del x, z, entry
    gc.collect()
    assert found() is None


def test_backward_frees_values_on_its_way() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    held = weakref.ref(y._data)
    x.register_hook(lambda g: seen.append(held()))
    seen: list[object] = []
    loss = (y * y).sum()
    del y
    loss.backward()
    assert seen == [None]


def test_an_unused_part_of_the_tape_is_kept() -> None:
    x, y = leaf(2.0), leaf(3.0)
    a, b = x * x, y * y
    fw.grad(a + b, x)
    assert fw.grad(b, y)[0].item() == 6.0
    with pytest.raises(GradientError, match="at its op multiply"):
        fw.grad(a, x)


def test_backward_for_some_inputs_only() -> None:
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    (z * z).backward(inputs=[x, z])
    assert (x.grad.item(), y.grad, z.grad.item()) == (36.0, None, 12.0)
    with pytest.raises(GradientError, match="backward: no inputs are given"):
        (x * y).backward(inputs=[])


def test_backward_of_several_tensors() -> None:
    x = leaf(2.0)
    fw.autograd.backward([x * 3, x * x], [None, fw.tensor(10.0)])
    assert x.grad.item() == 43.0


def test_a_gradient_with_a_tape_stays_on_it() -> None:
    x = leaf(2.0)
    (x * x * x).backward(create_graph=True)
    (x * 5).backward()
    assert x.grad.item() == 17.0 and fw.grad(x.grad, x)[0].item() == 12.0


# ---- grad
def test_grad_leaves_grad_alone() -> None:
    x, y = leaf(2.0), leaf(5.0)
    assert [g.item() for g in fw.grad(x * y, [x, y])] == [5.0, 2.0]
    assert x.grad is None and y.grad is None


def test_grad_of_results_in_between() -> None:
    x = leaf(2.0)
    y = x * x
    z = y * 3
    assert [g.item() for g in fw.grad(z, (y, x))] == [3.0, 12.0]


def test_grad_of_several_outputs() -> None:
    x = leaf(2.0)
    a, b = x * 3, x * x
    assert fw.grad([a, b], x, retain_graph=True)[0].item() == 7.0
    assert fw.grad([a, b], x, [fw.tensor(10.0), None])[0].item() == 34.0
    with pytest.raises(GradientError, match="2 outputs and 1 grad_outputs"):
        fw.grad([a, b], x, [None])


def test_grad_of_what_was_not_used() -> None:
    x, y = leaf(2.0), leaf(3.0)
    assert fw.grad(x * x, [x, y], allow_unused=True)[1] is None
    with pytest.raises(GradientError, match="do not depend on input 1"):
        fw.grad(x * x, [x, y])
    with pytest.raises(GradientError, match="input 0 does not require a gradient"):
        fw.grad(x * x, fw.ones(1))


def test_zeros_for_what_was_not_used() -> None:
    x, y = leaf(2.0), leaf(3.0, 4.0)
    assert fw.grad(x * x, [x, y], materialize_grads=True)[1].tolist() == [0.0, 0.0]
    with pytest.raises(GradientError, match="contradict"):
        fw.grad(x * x, [x, y], allow_unused=False, materialize_grads=True)


def test_grad_walks_only_towards_its_inputs() -> None:
    """The gradient with respect to the data does not compute the one of the weight."""
    seen = []

    def vjp(needs: tuple[bool, ...], g: fw.Tensor, *rest: fw.Tensor) -> list[fw.Tensor | None]:
        seen.append(needs)
        return [g if need else None for need in needs]

    op = composite("test_only_asked", lambda a, b: a + b, vjp=vjp)
    try:
        x, weight = leaf(1.0), leaf(1.0)
        fw.grad(call(op, x, weight * 1), x)
    finally:
        fw.eager.core.op.OPS.pop("test_only_asked")
    assert seen == [(True, False)]


def test_gradients_of_gradients() -> None:
    x = leaf(2.0)
    first, = fw.grad(x ** 4, x, create_graph=True)
    second, = fw.grad(first, x, create_graph=True)
    third, = fw.grad(second, x)
    assert [t.item() for t in (first, second, third)] == [32.0, 48.0, 48.0]
    y = x ** 3
    y.backward(create_graph=True)
    grad, x.grad = x.grad, None
    (grad * grad).backward()  # d (3 x^2)^2 / dx = 36 x^3
    assert x.grad.item() == 288.0


def test_a_composite_without_a_rule_differentiates_its_decomposition() -> None:
    op = composite("test_cube", lambda x, y: x * x * x + 0 * y)
    try:
        x = leaf(2.0)
        first, = fw.grad(call(op, x, fw.ones(1)).sum(), x, create_graph=True)
        assert (first.item(), fw.grad(first, x)[0].item()) == (12.0, 12.0)
    finally:
        fw.eager.core.op.OPS.pop("test_cube")


# ---- the tape switched off
def test_no_grad_as_context_and_decorator() -> None:
    x = leaf(1.0)

    @fw.no_grad()
    def doubled(n: int) -> fw.Tensor:
        """Doubles."""
        return x * 2 if n == 0 else doubled(n - 1)

    @fw.no_grad
    def tripled() -> fw.Tensor:
        return x * 3

    for _ in range(2):  # a decorator works more than once, and inside itself
        assert not doubled(3).requires_grad and not tripled().requires_grad
    assert doubled.__name__ == "doubled" and doubled.__doc__ == "Doubles."
    with fw.no_grad():
        assert not (x * 2).requires_grad and not fw.is_grad_enabled()
        with fw.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_one_context_object_can_be_entered_again() -> None:
    off = fw.no_grad()
    for _ in range(2):
        with off, off:
            assert not fw.is_grad_enabled()
        assert fw.is_grad_enabled()


def test_no_grad_ends_with_an_exception_and_holds_for_one_thread() -> None:
    with pytest.raises(ZeroDivisionError), fw.no_grad():
        1 / 0  # noqa: B018
    assert fw.is_grad_enabled()
    seen: list[bool] = []
    with fw.no_grad():
        thread = threading.Thread(target=lambda: seen.append(fw.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_set_grad_enabled() -> None:
    for enabled in (True, False):
        with fw.set_grad_enabled(enabled):
            assert (leaf(1.0) * 2).requires_grad is enabled


def test_set_grad_enabled_as_a_statement() -> None:
    fw.set_grad_enabled(False)
    try:
        assert not fw.is_grad_enabled()
    finally:
        fw.set_grad_enabled(True)
    off = fw.set_grad_enabled(False)
    for _ in range(2):
        with off, off:
            assert not fw.is_grad_enabled()
        assert fw.is_grad_enabled()

    @fw.set_grad_enabled(False)
    def doubled(x: fw.Tensor) -> fw.Tensor:
        return x * 2

    assert fw.is_grad_enabled() and not doubled(leaf(1.0)).requires_grad


def test_inference_mode() -> None:
    x = leaf(2.0)
    with fw.inference_mode():
        y = x * 2
        assert fw.is_inference_mode_enabled() and not y.requires_grad
        with fw.enable_grad():
            assert not (x * 2).requires_grad
        with fw.inference_mode(False):
            assert (x * 2).requires_grad
    assert not fw.is_inference_mode_enabled() and fw.is_grad_enabled()
    (x * y).backward()  # values never change, so they are as good as any others
    assert x.grad.item() == 4.0
    assert not fw.inference_mode()(lambda: x * 2)().requires_grad
    assert not fw.inference_mode(lambda: x * 2)().requires_grad


def test_detach_in_place() -> None:
    x = leaf(2.0)
    y = x * 3
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    (x * y).backward()
    assert x.grad.item() == 6.0


def test_parameters_are_updated_under_no_grad() -> None:
    weight = leaf(1.0, 2.0)
    (weight * weight).sum().backward()
    with fw.no_grad():
        weight -= weight.grad * 0.5
    assert weight.tolist() == [0.0, 0.0] and weight.is_leaf and weight.requires_grad


def test_detach_cuts_the_tape() -> None:
    x = leaf(2.0)
    (x * x.detach()).backward()
    assert x.grad.item() == 2.0 and not x.detach().requires_grad


def test_only_floats_carry_gradients() -> None:
    x = leaf(1.5, -2.5)
    for out in (x > 0, x.astype(fw.int64), x.argmax(), x.isnan(), x.any()):
        assert not out.requires_grad
    (x.astype(fw.float64) * np.float32(2)).sum().backward()
    assert x.grad.dtype == fw.float32 and x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("fn", "value", "expected"), [
    (lambda x: x ** 0, 0.0, 0.0),
    (lambda x: x ** fw.tensor(0.0), 0.0, 0.0),
    (lambda x: 0.0 ** x, 2.0, 0.0),
    (lambda x: fw.tensor(0.0) ** x, 2.0, 0.0),
    (lambda x: fw.maximum(x, x.detach()), 1.0, 0.5),  # ties share
    (lambda x: x.relu(), 0.0, 0.0),
    (lambda x: x.abs(), 0.0, 0.0),
    (lambda x: x.sigmoid(), -1000.0, 0.0),
    (lambda x: x.tanh(), 1000.0, 0.0),
    (lambda x: fw.tensor([2.0, 2.0]).copy_(x).max(), 1.0, 1.0),
    (lambda x: fw.where(x > 0, x.log(), 1.0), -1.0, 0.0),
])
def test_gradients_at_corners(fn: object, value: float, expected: float) -> None:
    x = leaf(value)
    fn(x).backward()
    assert x.grad.item() == expected


def test_masked_softmax_has_no_nan() -> None:
    x = leaf(1.0, -float("inf"), 2.0)
    x.softmax()[0].backward()
    assert np.isfinite(x.grad.numpy()).all()
    y = leaf(-float("inf"), -float("inf"))
    assert y.logsumexp().item() == -float("inf")


def test_inputs_do_not_share_a_gradient() -> None:
    a, b = (fw.ones(2).requires_grad_() for _ in range(2))
    seed = fw.ones(2)
    first, second = fw.grad(a + b, [a, b], seed)
    first[0] = 9.0
    assert second.tolist() == seed.tolist() == [1, 1]
