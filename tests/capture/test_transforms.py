"""Transforms of compiled functions, and compiled functions of transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from oracle import assert_same

import fusewire as fw
from fusewire import func


def numbers(*shape: int, seed: int = 0) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


W, X, T = numbers(3, 3, seed=5), numbers(4, 3), numbers(4, 3, seed=1)


def number(x: fw.Tensor) -> fw.Tensor:
    return (x @ W).tanh().sum()


def vector(x: fw.Tensor) -> fw.Tensor:
    return (x @ W).tanh()


def of_vjp(f: Any) -> Callable[..., Any]:
    def both(x: fw.Tensor, t: fw.Tensor) -> Any:
        out, back = func.vjp(f, x)
        return out, *back(t)

    return both


TRANSFORMS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "grad": (number, func.grad, (X,)),
    "value_and_grad": (number, func.value_and_grad, (X,)),
    "grad of grad": (number, lambda f: func.grad(lambda x: func.grad(f)(x).square().sum()), (X,)),
    "vmap": (number, func.vmap, (X,)),
    "vmap of grad": (number, lambda f: func.vmap(func.grad(f)), (X,)),
    "jvp": (vector, lambda f: lambda x, t: func.jvp(f, (x,), (t,)), (X, T)),
    "vjp": (vector, of_vjp, (X, T)),
    "jacrev": (vector, func.jacrev, (X,)),
    "jacfwd": (vector, func.jacfwd, (X,)),
    "hessian": (number, func.hessian, (X,)),
}


def parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_of_a_compiled_function(name: str) -> None:
    f, transform, args = TRANSFORMS[name]
    compiled = fw.compile(f, fullgraph=True)
    compiled(args[0])  # also where there is a program of the function already
    for k in range(3):
        given = [a * (k + 1) for a in args]
        for got, expected in zip(parts(transform(compiled)(*given)), parts(transform(f)(*given))):
            assert_same(got, expected, 10)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_compiled(name: str) -> None:
    f, transform, args = TRANSFORMS[name]
    compiled = fw.compile(transform(f), fullgraph=True)
    for k in range(4):
        given = [a * (k + 1) for a in args]
        for got, expected in zip(parts(compiled(*given)), parts(transform(f)(*given))):
            assert_same(got, expected, 10)
    assert (compiled.stats.recordings, compiled.stats.replays) == (1, 3)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_both(name: str) -> None:
    f, transform, args = TRANSFORMS[name]
    compiled = fw.compile(transform(fw.compile(f)), fullgraph=True)
    for _ in range(3):
        for got, expected in zip(parts(compiled(*args)), parts(transform(f)(*args))):
            assert_same(got, expected, 10)


def test_gradients_of_each_example_for_parameters_of_a_model() -> None:
    model = fw.nn.Linear(3, 2)
    state = dict(model.named_parameters())

    def loss(state: Any, x: fw.Tensor) -> fw.Tensor:
        return func.functional_call(model, state, (x,)).square().sum()

    each = func.vmap(func.grad(loss), in_axes=(None, 0))
    compiled = fw.compile(each, fullgraph=True)
    for _ in range(3):
        got, expected = compiled(state, X), each(state, X)
        for name in state:
            assert_same(got[name], expected[name], 10)


def test_backward_through_a_compiled_transform() -> None:
    slope = fw.compile(func.grad(number), fullgraph=True)
    for k in range(3):
        found = []
        for f in (slope, func.grad(number)):
            x = (X * (k + 1)).requires_grad_()
            f(x).square().sum().backward()
            found.append(x.grad)
        assert_same(*found, 10)


def _bent(x: fw.Tensor) -> fw.Tensor:
    return fw.sin(x).sum() if x.sum() > 2 else (x * x).sum()


def _by_its_number(x: fw.Tensor) -> fw.Tensor:
    return (x * x).sum() * x.sum().item()


def _grown(x: fw.Tensor) -> fw.Tensor:
    h = x
    while h.sum() < 20:
        h = h * 1.5 + x * x + 1
    return h.sum()


@pytest.mark.parametrize("function", [_bent, _by_its_number, _grown])
def test_what_a_function_in_a_transform_decides(function: Any) -> None:
    def f(x: fw.Tensor) -> Any:
        return (fw.func.vmap(function)(fw.stack([x, x + 5])),
                fw.func.jvp(function, (x,), (x,)), fw.func.grad(function)(x))

    rows = [(fw.tensor(v),) for v in ([1.0, 2.0], [0.1, 0.2], [-9.0, 1.0], [3.0, 4.0], [0.2, 0.1])]
    agree(lambda: f, *rows, *rows)
