"""grad, vjp, jacrev, jacfwd and hessian: structure, nesting, what stays outside, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import FusewireError
from fusewire.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    value_and_grad,
    vjp,
    vmap,
)


def numbers(*shape: int, seed: int = 0) -> Any:
    return fw.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


# ---- grad
def test_grad_of_arguments_by_number_and_in_trees() -> None:
    x, y = numbers(3), numbers(3, seed=1)

    def f(p: Any, q: Any) -> Any:
        return (p["a"] * q).sum() + p["b"][0] * 2

    p = {"a": x, "b": [fw.tensor(1.0), None]}
    found = grad(f)(p, y)
    same(found["a"], y)
    assert found["b"][0].item() == 2 and found["b"][1] is None
    by_both = grad(f, argnums=(-1, 0))(p, y)
    same(by_both[0], x)
    same(by_both[1]["a"], y)


def test_value_and_aux() -> None:
    x = fw.tensor([1.0, 2.0])
    assert value_and_grad(lambda a: (a * a).sum())(x)[0].item() == 5
    (value, aux), slope = value_and_grad(lambda a: ((a * a).sum(), {"n": 3, "a": a}), 0, True)(x)
    assert (value.item(), aux["n"], slope.tolist()) == (5, 3, [2, 4])
    assert not aux["a"].requires_grad
    assert grad(lambda a: ((a * a).sum(), "aux"), has_aux=True)(x)[1] == "aux"


def test_zeros_where_nothing_depends() -> None:
    assert grad(lambda a: fw.tensor(1.0))(fw.ones(2)).tolist() == [0, 0]
    assert grad(lambda a, b: b.sum(), argnums=(0, 1))(fw.ones(2), fw.ones(1))[0].tolist() == [0, 0]


def test_arguments_can_be_changed_in_place() -> None:
    def f(a: Any) -> Any:
        a *= 2
        a[0] = 5.0
        return (a * a).sum()

    x = fw.ones(2)
    assert grad(f)(x).tolist() == [0, 8]
    assert x.tolist() == [1, 1]


def test_nothing_is_left_on_the_tape() -> None:
    x = fw.ones(2)
    value, slope = value_and_grad(lambda a: (a * a).sum())(x)
    assert not value.requires_grad and not slope.requires_grad
    out, back = vjp(lambda a: a * a, x)
    assert not out.requires_grad and not back(x)[0].requires_grad
    per_example = vmap(grad(lambda p, a: (p * a).sum()), in_axes=(None, 0))(x, fw.ones(3, 2))
    assert not per_example.requires_grad


def test_what_stands_outside_can_be_differentiated() -> None:
    w = numbers(3).requires_grad_()
    x = numbers(3, seed=1)
    slope = grad(lambda a: (a * w).sin().sum())(x)
    (found,) = fw.grad(slope.sum(), w)
    same(found, (x * w).cos() - x * w * (x * w).sin())
    per_example = vmap(grad(lambda a: (a * w).sin().sum()))(fw.stack([x, x]))
    same(fw.grad(per_example.sum(), w)[0], 2 * found)


def test_no_grad_outside_does_not_reach_inside() -> None:
    w = fw.ones(2).requires_grad_()
    with fw.no_grad():
        value, slope = value_and_grad(lambda a: (a * a * w).sum())(fw.ones(2))
    assert slope.tolist() == [2, 2] and not value.requires_grad and not slope.requires_grad


def test_grad_fields_stay_as_they_are() -> None:
    w = fw.ones(2).requires_grad_()
    grad(lambda a: (a * w).sum())(fw.ones(2))
    grad(lambda a: (a * a).sum())(w)
    assert w.grad is None


# ---- vjp
def test_vjp_takes_trees_back_and_can_be_called_often() -> None:
    x, y = numbers(3), numbers(3, seed=1)
    out, back = vjp(lambda a, b: {"p": a * b, "s": a.sum()}, x, y)
    same(out["p"], x * y)
    for _ in range(2):
        gx, gy = back({"p": y, "s": fw.tensor(2.0, dtype=fw.float64)})
        same(gx, y * y + 2)
        same(gy, x * y)
    rows = vmap(lambda g: back({"p": g, "s": g.sum()})[1])(fw.eye(3, dtype=fw.float64))
    same(rows, fw.eye(3, dtype=fw.float64) * x)


def test_vjp_and_jvp_are_transposes() -> None:
    x, t, u = numbers(4), numbers(4, seed=1), numbers(3, seed=2)
    w = numbers(3, 4, seed=3)

    def f(a: Any) -> Any:
        return (w @ a).tanh() * a.sum()

    assert math.isclose((jvp(f, (x,), (t,))[1] * u).sum().item(),
                        (vjp(f, x)[1](u)[0] * t).sum().item(), rel_tol=1e-12)


# ---- jacobians
@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobian_of_a_matrix_product(jacobian: Any) -> None:
    x, w = numbers(4), numbers(2, 3, 4)
    found = jacobian(lambda a, b: b @ a, argnums=(0, 1))(x, w)
    same(found[0], w)
    assert found[1].shape == (2, 3, 2, 3, 4)
    same(found[1][1, 2, 1, 2], x)


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_trees_on_both_sides_and_aux(jacobian: Any) -> None:
    x, y = numbers(2), numbers(3, seed=1)
    made, aux = jacobian(lambda p: ({"p": p["x"] * 2, "s": (p["y"] ** 2).sum()}, "aux"),
                         has_aux=True)({"x": x, "y": y})
    assert aux == "aux"
    same(made["p"]["x"], 2 * fw.eye(2, dtype=fw.float64))
    same(made["p"]["y"], fw.zeros(2, 3, dtype=fw.float64))
    same(made["s"]["y"], 2 * y)


def test_both_modes_agree_and_nest() -> None:
    w, x = numbers(3, 3), numbers(3, seed=1)

    def f(a: Any) -> Any:
        return (w @ a).softmax() * a.exp()

    same(jacrev(f)(x), jacfwd(f)(x))
    for outer in (jacrev, jacfwd):
        for inner in (jacrev, jacfwd):
            same(outer(inner(f))(x), jacrev(jacrev(f))(x))
    batch = numbers(5, 3, seed=2)
    same(vmap(jacrev(f))(batch), fw.stack([jacfwd(f)(a) for a in batch]))


def test_hessian_of_a_quadratic_form() -> None:
    a, x = numbers(4, 4), numbers(4, seed=1)
    same(hessian(lambda v: v @ a @ v)(x), a + a.T)
    blocks = hessian(lambda u, v: u @ a @ v, argnums=(0, 1))(x, x)
    same(blocks[0][1], a)
    same(blocks[1][0], a.T)
    same(blocks[0][0], fw.zeros_like(a))


def test_hessian_of_a_models_loss() -> None:
    fw.manual_seed(0)
    model = fw.nn.Sequential(fw.nn.Linear(3, 4), fw.nn.Tanh(), fw.nn.Linear(4, 2)).double()
    names, sizes = zip(*[(n, p.shape) for n, p in model.named_parameters()])
    ends = np.cumsum([math.prod(s) for s in sizes])
    x, y = numbers(5, 3), fw.tensor([0, 1, 1, 0, 1])

    def loss(flat: Any) -> Any:
        parts = {n: flat[end - math.prod(s):end].reshape(s) for n, s, end in
                 zip(names, sizes, ends.tolist())}
        return fw.nn.functional.cross_entropy(functional_call(model, parts, x), y)

    flat = fw.concat([p.detach().reshape(-1) for p in model.parameters()])
    found = hessian(loss)(flat)
    same(found, jacrev(jacrev(loss))(flat), 1e-10)
    same(found, found.T, 1e-10)
    step = 1e-6 * numbers(flat.size, seed=3)
    change = (grad(loss)(flat + step) - grad(loss)(flat - step)) / 2
    np.testing.assert_allclose((found @ step).numpy(), change.numpy(), atol=1e-12)


def test_compiled_hessian() -> None:
    f = fw.compile(hessian(lambda v: (v.sin() * v.sum()).sum()))
    x = numbers(3)
    for _ in range(3):
        same(f(x), hessian(lambda v: (v.sin() * v.sum()).sum())(x), 1e-9)


# ---- errors
@pytest.mark.parametrize(("call", "words"), [
    (lambda: grad(lambda x: x)(fw.ones(2)), r"returned a tensor of shape \(2,\)"),
    (lambda: grad(lambda x: 1.0)(fw.ones(2)), "returned float, not a tensor"),
    (lambda: grad(lambda x: fw.tensor(1))(fw.ones(2)), "returned int64, which has no gradient"),
    (lambda: grad(fw.sum)(fw.arange(2)), "argument 0 is int64"),
    (lambda: grad(fw.sum)([fw.ones(2), 3.0]), r"argument 0\[1\] is float"),
    (lambda: grad(fw.sum, argnums=1)(fw.ones(2)), "argnums 1 of a function called with 1"),
    (lambda: grad(fw.sum, argnums="x")(fw.ones(2)), "argnums 'x'"),
    (lambda: grad(fw.sum, has_aux=True)(fw.ones(2)), r"returns \(result, aux\), it gave Tensor"),
    (lambda: vjp(fw.sin, fw.ones(2))[1]((fw.ones(2),)), "its gradient is tuple"),
    (lambda: vjp(fw.sin, fw.ones(2))[1](fw.ones(3)), r"shape \(3,\), the tensor \(2,\)"),
    (lambda: jacrev(lambda x: 1.0)(fw.ones(2)), "the result is float"),
])
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(FusewireError, match=words) as caught:
        call()
    assert caught.value.help
