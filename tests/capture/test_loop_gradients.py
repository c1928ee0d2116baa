"""Gradients through loops that end on values: asked for inside and outside, once and twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agreement import assert_equal

import fusewire as fw
from fusewire import nn
from fusewire.utils.checkpoint import checkpoint

CALLS = [([1.0, 2.0, 3.0], 1.5), ([0.5, 0.1, 0.2], 2.5), ([9.0, 5.0, 6.0], 1.0),
         ([0.1, 0.2, 0.3], 3.5), ([4.0, 2.0, 3.0], 0.5), ([1.0, 1.0, 1.0], 7.0)]
Cases = dict[str, Callable[[Any], Any]]
CASES: Cases = {}


def case(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of x and a number, over a weight; its result goes back."""
    CASES[make.__name__] = make
    return make


@case
def a_counter(w: fw.Tensor) -> Any:
    def f(x: fw.Tensor, n: float) -> fw.Tensor:
        h = x
        while h.sum() < 100:
            h = h * 2 + w * n
            n += 1
        return h.sum()
    return f


@case
def random_numbers(w: fw.Tensor) -> Any:
    drop = nn.Dropout(0.4)

    def f(x: fw.Tensor, n: float) -> fw.Tensor:
        h = x
        while h.sum() < 50:
            h = drop(h) * 1.5 + w * w * n + 1
        return h
    return f


@case
def a_loop_without_gradients_before(w: fw.Tensor) -> Any:
    def f(x: fw.Tensor, n: float) -> fw.Tensor:
        h = x
        with fw.no_grad():
            while h.sum() < 50:
                h = h * 1.5 + w * w * n
        return h * w
    return f


class Square(fw.autograd.Function):
    """A square whose gradient is another one than ours would be."""

    @staticmethod
    def forward(ctx: Any, x: fw.Tensor) -> fw.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: fw.Tensor) -> fw.Tensor:
        x, = ctx.saved_tensors
        return 2.5 * x * g


@case
def a_function_with_a_gradient_of_its_own(w: fw.Tensor) -> Any:
    def f(x: fw.Tensor, n: float) -> fw.Tensor:
        h = x + w
        while h.sum() < 40:
            h = Square.apply(h) * 0.1 + h * 1.3 + abs(w) * n
        return h.sum()
    return f


@case
def a_checkpoint(w: fw.Tensor) -> Any:
    def grown(x: fw.Tensor, n: float) -> fw.Tensor:
        h = x
        while h.sum() < 40:
            h = h * 1.5 + w * w * n
        return h.sum()
    return lambda x, n: checkpoint(grown, x, n) * 2


def _backward(loss: fw.Tensor, w: fw.Tensor) -> None:
    loss.sum().backward()


def _twice(loss: fw.Tensor, w: fw.Tensor) -> None:
    g, = fw.autograd.grad(loss.sum(), [w], create_graph=True)
    (g * g * w).sum().backward()


def trained(name: str, back: Callable[..., None], inside: bool, compiled: bool
            ) -> tuple[list[Any], Any]:
    """What calls give and leave as gradients."""
    w = fw.tensor([0.3, -0.2, 0.5], requires_grad=True)
    f = CASES[name](w)

    def step(x: fw.Tensor, n: float) -> fw.Tensor:
        loss = f(x, n)
        back(loss, w)
        return loss.detach()

    wrap = fw.compile if compiled else lambda function, **options: function
    part = wrap(step if inside else f, fullgraph=True)
    results = []
    for k, (x, n) in enumerate(CALLS * 3):
        w.grad = None
        fw.manual_seed(k % len(CALLS))
        out = part(fw.tensor(x), n)
        if not inside:
            back(out, w)
        results.append((out.detach(), w.grad))
    return results, part


@pytest.mark.parametrize("back", [_backward, _twice])
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, inside: bool, back: Callable[..., None]) -> None:
    got, compiled = trained(name, back, inside, True)
    assert_equal(got, trained(name, back, inside, False)[0], name)
    assert compiled.stats.replays >= len(CALLS)
    assert compiled.stats.fallbacks <= 1  # the run that showed that the turns are to be told apart


def test_a_gradient_reads_a_loop_variable_through_an_op_off_the_tape() -> None:
    """The reshape is cheap and needs no gradient. The backward computes it again from the value
    that the loop carries."""
    w = fw.tensor([[0.3, -0.2], [0.1, 0.5]], requires_grad=True)

    def f(x: fw.Tensor, n: int) -> fw.Tensor:
        for i in range(n):
            x = fw.tanh(x + i)
        return fw.expand_dims(x, 0) @ w

    compiled = fw.compile(f)
    for n in (2, 3, 5, 1, 4):
        gradients = [fw.autograd.grad((g(fw.ones(2), n) ** 2).sum(), [w]) for g in (compiled, f)]
        assert_equal(*gradients, f"{n}")
    assert compiled.stats.replays > 0
