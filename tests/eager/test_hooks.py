"""Hooks on tensors and modules see gradients and values, and may replace them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import DTypeError, GradientError, ShapeError


def leaf(*values: float) -> fw.Tensor:
    return fw.tensor(values if len(values) != 1 else values[0], requires_grad=True)


# ---- tensors
def test_a_hook_sees_the_whole_gradient_once() -> None:
    x = leaf(2.0)
    seen: list[float] = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * x + x).backward()
    assert seen == [5.0] and x.grad.item() == 5.0


def test_a_hook_may_replace_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)  # in the order they were registered
    (y * y).sum().backward()
    assert x.grad.tolist() == [3 * 61.0, 3 * 121.0]
    assert fw.grad((x * 2).sum(), x)[0].tolist() == [2.0, 2.0]  # nothing of it stays on x


def test_a_hook_registered_after_the_tensor_was_used() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * 5
    y.register_hook(lambda g: g * 0)
    z.backward()
    assert x.grad.item() == 0.0


def test_hooks_run_for_grad_too() -> None:
    x = leaf(1.0)
    x.register_hook(lambda g: g + 1)
    assert fw.grad(x * 3, x)[0].item() == 4.0


def test_handles() -> None:
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 2) as handle:
        assert fw.grad(x * 1, x)[0].item() == 2.0
    handle.remove()  # gone already: nothing happens
    assert fw.grad(x * 1, x)[0].item() == 1.0


def test_a_hook_can_be_differentiated() -> None:
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    first, = fw.grad(y, x, create_graph=True)  # x * 2x
    assert (first.item(), fw.grad(first, x)[0].item()) == (18.0, 12.0)


def test_retain_grad() -> None:
    x = leaf(2.0)
    y = x * 3
    assert not y.retains_grad
    y.retain_grad()
    y.register_hook(lambda g: g + 1)  # what is kept is what the hooks leave
    z = y * y
    z.backward(retain_graph=True)
    assert y.retains_grad and y.grad.item() == 13.0
    z.backward()
    assert y.grad.item() == 26.0
    x.retain_grad()  # a leaf has its gradient anyway
    assert not x.retains_grad


def test_post_accumulate_hooks_get_the_leaf() -> None:
    x = leaf(2.0)
    seen: list[float] = []

    def step(leaf: fw.Tensor) -> None:
        seen.append(leaf.grad.item())
        leaf.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * x).backward()
    assert seen == [4.0] and x.grad is None
    fw.grad(x * x, x)  # adds nothing up
    assert seen == [4.0]
    handle.remove()
    (x * x).backward()
    assert x.grad.item() == 4.0


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: fw.ones(1).register_hook(print), GradientError, "does not require a gradient"),
    (lambda: leaf(1.0).register_hook(3), DTypeError, "takes a function, not int"),
    (lambda: fw.ones(1).retain_grad(), GradientError, "does not require a gradient"),
    (lambda: (leaf(1.0) * 2).register_post_accumulate_grad_hook(print), GradientError,
     "only leaves"),
])
def test_refusals(make: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(("given", "error"), [(1.0, DTypeError), (fw.ones(3), ShapeError)])
def test_a_hook_must_return_a_gradient(given: Any, error: type) -> None:
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: given)
    with pytest.raises(error, match="a hook returned"):
        x.sum().backward()


# ---- modules
class Scale(nn.Module):
    """x * factor."""

    def forward(self, x: Any, factor: float = 1.0) -> Any:
        return x * factor


def test_forward_pre_hooks_change_arguments() -> None:
    m = Scale()
    m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    assert m(fw.ones(1)).item() == 2.0
    m.register_forward_pre_hook(lambda module, args: args[0] * 10)  # one value for a tuple of it
    m.register_forward_pre_hook(lambda module, args: None)
    assert m(fw.ones(1)).item() == 20.0
    m.register_forward_pre_hook(lambda module, args, kwargs: (args, {"factor": 2.0}),
                                with_kwargs=True)
    assert m(fw.ones(1)).item() == 40.0
    m.register_forward_pre_hook(lambda module, args: args[0] * 0, prepend=True)
    assert m(fw.ones(1)).item() == 20.0


def test_forward_hooks_see_and_change_the_result() -> None:
    m, seen = Scale(), []
    m.register_forward_hook(lambda module, args, out: seen.append((len(args), out.item())))
    m.register_forward_hook(lambda module, args, out: out + 1)
    m.register_forward_hook(lambda module, args, kwargs, out: out * kwargs["factor"],
                            with_kwargs=True)
    assert m(fw.ones(1), factor=3.0).item() == 12.0 and seen == [(1, 3.0)]


def test_always_call() -> None:
    m, seen = Scale(), []
    m.register_forward_hook(lambda module, args, out: seen.append("usual"))
    m.register_forward_hook(lambda module, args, out: seen.append(out), always_call=True)
    with pytest.raises(TypeError):
        m(None, object())
    assert seen == [None]


def test_backward_hooks_see_gradients_at_both_ends() -> None:
    m, seen = Scale(), []
    m.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 10,))
    m.register_full_backward_hook(lambda module, ins, outs: seen.append((ins, outs)))
    x = leaf(1.0)
    m(x, 3.0).backward()
    (first, number), (out,) = seen[0]
    assert (first.item(), number, out.item(), x.grad.item()) == (30.0, None, 10.0, 30.0)


def test_a_backward_hook_replaces_the_gradient_of_the_input() -> None:
    m, x = Scale(), leaf(1.0)
    with m.register_full_backward_hook(lambda module, ins, outs: (ins[0] * 0,)):
        m(x).backward()
    m(x).backward()
    assert x.grad.item() == 1.0


def test_a_backward_hook_where_the_input_has_no_gradient() -> None:
    linear, seen = nn.Linear(2, 1), []
    linear.register_full_backward_hook(lambda module, ins, outs: seen.append((ins, outs[0].item())))
    linear(fw.ones(1, 2)).sum().backward()
    assert seen == [((None,), 1.0)]


def test_a_module_with_several_results() -> None:
    class Pair(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x * y, x + y

    m, seen = Pair(), []
    m.register_full_backward_hook(lambda module, ins, outs: seen.append((ins, outs)))
    x, y = leaf(2.0), leaf(3.0)
    product, total = m(x, y)
    (product + total * 10).backward()
    ins, outs = seen[0]
    assert [g.item() for g in (*ins, *outs)] == [13.0, 12.0, 1.0, 10.0]


def test_hooks_belong_to_one_module() -> None:
    m = Scale()
    other = copy.deepcopy(m)
    handle = m.register_forward_hook(lambda module, args, out: out + 1)
    assert (m(fw.ones(1)).item(), other(fw.ones(1)).item()) == (2.0, 1.0)
    assert copy.deepcopy(m)(fw.ones(1)).item() == 2.0  # a copy of a module has its hooks
    handle.remove()
    assert m(fw.ones(1)).item() == 1.0
    with pytest.raises(DTypeError, match="a hook is a function, not str"):
        m.register_forward_hook("x")


def test_hooks_are_recorded() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[0].register_forward_hook(lambda module, args, out: out * 2)
    model[1].register_full_backward_hook(lambda module, ins, outs: (ins[0] * 3,))

    def step(x: fw.Tensor) -> Any:
        loss = model(x).sum()
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        model.zero_grad()
        return grads

    x = fw.rand(2, 3)
    expected, compiled = step(x), fw.compile(step)
    for _ in range(3):
        for got, want in zip(compiled(x), expected):
            assert fw.max(abs(got - want)).item() < 1e-5
    assert compiled.stats.replays == 2


def test_what_a_hook_changes_in_place_is_its_own() -> None:
    def doubled(g: fw.Tensor) -> None:
        g *= 2

    a, b = (fw.ones(2).requires_grad_() for _ in range(2))
    seed = fw.ones(2)
    a.register_hook(doubled)
    (a + b).backward(seed)
    assert (a.grad.tolist(), b.grad.tolist(), seed.tolist()) == ([2, 2], [1, 1], [1, 1])
