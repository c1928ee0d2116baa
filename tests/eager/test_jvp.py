"""jvp: derivatives carried forward, of any order, beside all other transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import FusewireError, GradientError
from fusewire.func import grad, jvp, vmap


def number(x: float) -> Any:
    return fw.tensor(x, dtype=fw.float64)


def forward(f: Any) -> Any:
    """The derivative of a function of one number, in forward mode."""
    return lambda x: jvp(f, (x,), (fw.ones_like(x),))[1]


def test_result_and_tangent_have_the_structure_of_the_result() -> None:
    x, t = fw.tensor([1.0, 2.0]), fw.tensor([1.0, 0.0])
    out, slope = jvp(lambda a: {"square": a * a, "fixed": fw.ones(2)}, (x,), (t,))
    assert out["square"].tolist() == [1, 4] and slope["square"].tolist() == [2, 0]
    assert slope["fixed"].tolist() == [0, 0]


def test_trees_of_arguments_and_aux() -> None:
    x = number(2.0)
    out, slope, aux = jvp(lambda p, b: (p["a"] * b, ("seen", p["a"] + b)), ({"a": x}, number(3.0)),
                          ({"a": number(1.0)}, number(10.0)), has_aux=True)
    assert (out.item(), slope.item()) == (6, 23)
    assert aux[0] == "seen" and aux[1].item() == 5


def test_any_order_in_any_mixture() -> None:
    x = number(0.7)
    for a in (forward, grad):
        for b in (forward, grad):
            for c in (forward, grad):
                assert math.isclose(a(b(c(fw.sin)))(x).item(), -math.cos(0.7), rel_tol=1e-12)


@pytest.mark.parametrize("first", [forward, grad])
@pytest.mark.parametrize("second", [forward, grad])
def test_second_derivatives_of_ops_whose_tangent_is_the_transpose_of_vjp(first: Any, second: Any
                                                                         ) -> None:
    x = number(0.7)
    assert math.isclose(second(first(lambda a: fw.stack([a, a * a, a + 1]).prod()))(x).item(),
                        12 * 0.7 ** 2 + 6 * 0.7)  # of x**4 + x**3


@pytest.mark.parametrize("inner", [forward, grad])
@pytest.mark.parametrize("outer", [forward, grad])
def test_directions_of_two_levels_do_not_mix(outer: Any, inner: Any) -> None:
    x = number(0.7)
    assert outer(lambda a: a * inner(lambda b: a + b)(a))(x).item() == 1.0
    assert outer(lambda a: a * inner(lambda b: a * b)(a))(x).item() == 1.4


def test_tangents_are_on_the_tape() -> None:
    w = number(3.0).requires_grad_()
    _, slope = jvp(lambda a: (a * w).sin(), (number(1.0),), (number(2.0),))
    slope.backward()
    assert math.isclose(w.grad.item(), 2 * math.cos(3) - 6 * math.sin(3))
    _, free = jvp(fw.sin, (number(1.0),), (number(2.0),))
    assert not free.requires_grad


def test_the_tape_works_inside() -> None:
    def f(x: Any) -> Any:
        leaf = fw.tensor([1.0, 2.0], dtype=fw.float64, requires_grad=True)
        ((leaf * x) ** 3).sum().backward()
        return leaf.grad

    x = number(2.0)
    _, slope = jvp(f, (x,), (number(1.0),))
    np.testing.assert_allclose(slope.numpy(), 9 * 4 * np.array([1.0, 4.0]))


def test_no_grad_and_detach() -> None:
    def f(x: Any) -> Any:
        with fw.no_grad():  # a tape's affair
            return x * x

    assert jvp(f, (number(3.0),), (number(1.0),))[1].item() == 6
    assert jvp(lambda x: x.detach() * x, (number(3.0),), (number(1.0),))[1].item() == 3
    assert jvp(lambda x: x.detach(), (number(3.0),), (number(1.0),))[1].item() == 0


def test_decisions_and_in_place_changes() -> None:
    def f(x: Any) -> Any:
        out = fw.zeros(2, dtype=fw.float64)
        out[0] = x if x > 0 else -x
        out[1] = x * float(x)  # a float is a constant
        return out

    out, slope = jvp(f, (number(-3.0),), (number(1.0),))
    assert out.tolist() == [3, 9] and slope.tolist() == [-1, -3]


def test_ties_count_as_in_the_gradient() -> None:
    x = fw.ones(1, 1, 2, 2)
    pool = fw.nn.MaxPool2d(2)
    for first in range(4):  # the first of equal elements has the gradient
        t = fw.eye(4)[first].reshape(1, 1, 2, 2)
        slope = (grad(lambda a: pool(a).sum())(x) * t).sum().item()
        assert jvp(pool, (x,), (t,))[1].item() == slope == (first == 0)
        batch = grad(lambda a: vmap(pool)(a).sum())(x[None])
        assert (batch[0] * t).sum().item() == slope


def test_under_vmap_with_a_primal_that_all_share() -> None:
    x, steps = fw.tensor([1.0, 2.0]), fw.eye(2)
    calls = []

    def f(a: Any) -> Any:
        calls.append(1)
        return a * a

    out = vmap(lambda t: jvp(f, (x,), (t,))[1])(steps)
    assert out.tolist() == [[2, 0], [0, 4]] and len(calls) == 1


def test_repr_shows_both_parts() -> None:
    shown = []
    jvp(lambda x: shown.append(repr(x)) or x, (fw.tensor(1.0),), (fw.tensor(2.0),))
    assert shown == ["dual(tensor(1.), tangent=tensor(2.))"]


def test_a_tensor_that_outlives_its_jvp_says_so() -> None:
    kept = []
    jvp(lambda x: kept.append(x) or x, (fw.tensor(1.0),), (fw.tensor(2.0),))
    with pytest.raises(GradientError, match="computed inside of jvp is used outside"):
        kept[0] * 2


def test_compiled() -> None:
    f = fw.compile(lambda x, t: jvp(lambda a: (a * a).sin().sum(), (x,), (t,)))
    x, t = fw.tensor([1.0, 2.0]), fw.tensor([1.0, -1.0])
    for _ in range(3):
        _, slope = f(x, t)
        np.testing.assert_allclose(slope.item(), 2 * math.cos(1) - 4 * math.cos(4), rtol=1e-5)
    assert f.stats.replays == 2


@pytest.mark.parametrize(("call", "words"), [
    (lambda: jvp(fw.sin, (fw.ones(2),), (fw.ones(3),)), r"primal 0 has shape \(2,\), its tangent"),
    (lambda: jvp(fw.sin, (fw.ones(2),), (fw.ones(2, dtype=fw.float64),)), "primal 0 is float32"),
    (lambda: jvp(fw.sin, (fw.arange(2),), (fw.arange(2),)), "primal 0 is int64"),
    (lambda: jvp(fw.sin, fw.ones(2), fw.ones(2)), "primals is Tensor, not a tuple"),
    (lambda: jvp(fw.add, (fw.ones(2), fw.ones(2)), (fw.ones(2),)), "differ in structure"),
    (lambda: jvp(fw.sin, (1.0,), (1.0,)), "primal 0 is float, not a tensor"),
    (lambda: jvp(lambda x: 2.0, (fw.ones(2),), (fw.ones(2),)), "the result is float"),
])
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(FusewireError, match=words) as caught:
        call()
    assert caught.value.help
