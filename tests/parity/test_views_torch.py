"""Random programs that read and write through views have the results and gradients of PyTorch.

More programs: `FUSEWIRE_TEST_PROGRAMS=5000 pytest tests/parity/test_views_torch.py`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import fusewire as fw

torch = pytest.importorskip("torch")

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "300"))
PER_TEST = 100


class Step(NamedTuple):
    """One step of a program: the operands by number, and the same function for both libraries."""

    kind: str  # "view", "new" or "write"
    text: str
    operands: tuple[int, ...]
    run: Callable[..., Any]


# ---- steps
def random_index(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """A basic index of a tensor of this shape. PyTorch has no negative steps."""
    items: list[Any] = []
    for n in shape[:rng.randint(0, len(shape))]:
        kind = rng.choice(["int", "slice", "slice", "step", "all"]) if n else "all"
        start = rng.randrange(n) if n else 0
        items.append({"int": rng.choice([start, start - n]), "all": slice(None),
                      "slice": slice(start, rng.randint(start, n) if rng.random() < 0.5 else None),
                      "step": slice(start, None, rng.randint(1, 3))}[kind])
    if rng.random() < 0.2:
        items.insert(rng.randint(0, len(items)), None)
    if rng.random() < 0.2 and Ellipsis not in items:
        items.append(Ellipsis)
    return tuple(items) if len(items) != 1 or rng.random() < 0.5 else items[0]


def random_view(rng: random.Random, shape: tuple[int, ...]) -> tuple[str, Callable[..., Any]]:
    """A function that makes a view, or a copy where elements cannot be viewed."""
    n = len(shape)
    axes = [*range(n)]
    rng.shuffle(axes)
    size = int(np.prod(shape))
    new = rng.choice([(-1,), (size,), (1, size), (size, 1), *(
        (a, size // a) for a in (2, 3) if size and size % a == 0)])
    index = random_index(rng, shape)
    views: list[tuple[str, Callable[..., Any]]] = [
        (f"[{index}]", lambda x: x[index]), (f"[{index}]", lambda x: x[index]),
        ("[:]", lambda x: x[:]), ("detach", lambda x: x.detach()), ("data", lambda x: x.data)]
    if size:
        views.append((f"reshape{new}", lambda x: x.reshape(new)))
        views.append(("flatten", lambda x: x.flatten()))
    if n:
        at = rng.randrange(n)
        start = rng.randint(0, shape[at])
        width = rng.randint(1, 2)
        steps = rng.randint(width, 3)  # PyTorch does not see all that overlap
        views += [
            (f"permute{axes}", lambda x: permuted(x, axes)),
            ("squeeze", lambda x: x.squeeze()),
            (f"unsqueeze{at}", lambda x: x[(slice(None),) * at + (None,)]),
            (f"split{at}", lambda x: split(x, start, at)),
        ]
        if shape[at]:
            views.append((f"unstack{at}", lambda x: unstacked(x, at)))
        if shape[at] >= width:
            views.append((f"unfold{at, width, steps}", lambda x: x.unfold(at, width, steps)))
        if shape[0]:
            views.append(("row", first_row))
    if n == 2:
        views += [("T", lambda x: x.T), ("diagonal", lambda x: x.diagonal())]
    if n >= 2:
        views.append(("mT", lambda x: x.mT))
    if n < 3:
        views.append(("broadcast", lambda x: broadcast(x, (2, *shape))))
    return rng.choice(views)


def permuted(x: Any, axes: list[int]) -> Any:
    return x.permute(*axes) if isinstance(x, torch.Tensor) else x.permute_dims(*axes)


def split(x: Any, at: int, axis: int) -> Any:
    rest = x.shape[axis] - at  # PyTorch lets nobody write to the results of its split
    return x.narrow(axis, at, rest) if isinstance(x, torch.Tensor) else \
        fw.split(x, [at, rest], axis)[1]


def unstacked(x: Any, axis: int) -> Any:
    return x.select(axis, -1) if isinstance(x, torch.Tensor) else fw.unstack(x, axis)[-1]


def first_row(x: Any) -> Any:
    return x[0] if isinstance(x, torch.Tensor) else next(iter(x))


def broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return x.expand(shape) if isinstance(x, torch.Tensor) else x.broadcast_to(shape)


def assign(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def add_item(x: Any, index: Any, value: float) -> None:
    x[index] += value


def random_step(rng: random.Random, shapes: list[tuple[int, ...]]) -> Step:
    a = rng.randrange(len(shapes))
    shape = shapes[a]
    number = round(rng.uniform(-2, 2), 2)
    fitting = [i for i, s in enumerate(shapes) if s == shape]
    b = rng.choice(fitting)
    kind = rng.choice(["view", "view", "view", "write", "write", "new"])
    if kind == "view":
        text, run = random_view(rng, shape)
        return Step("view", f"v{a}.{text}", (a,), run)
    if kind == "new":
        return rng.choice([Step("new", f"v{a} * {number}", (a,), lambda x: x * number),
                           Step("new", f"v{a} + v{b}", (a, b), lambda x, y: x + y)])
    index = random_index(rng, shape)
    return rng.choice([
        Step("write", f"v{a}.add_({number})", (a,), lambda x: x.add_(number)),
        Step("write", f"v{a}.mul_({number})", (a,), lambda x: x.mul_(number)),
        Step("write", f"v{a}.fill_({number})", (a,), lambda x: x.fill_(number)),
        Step("write", f"v{a}.zero_()", (a,), lambda x: x.zero_()),
        Step("write", f"v{a}.copy_(v{b} * 1)", (a, b), lambda x, y: x.copy_(y * 1)),
        Step("write", f"v{a}.add_(v{b})", (a, b), lambda x, y: x.add_(y)),
        Step("write", f"v{a}[{index}] = {number}", (a,), lambda x: assign(x, index, number)),
        Step("write", f"v{a}[{index}] += {number}", (a,), lambda x: add_item(x, index, number)),
    ])


# ---- programs
def random_program(seed: int) -> tuple[list[Step], list[Any], Any]:
    """Steps that run in PyTorch, and the tensors and the gradient that they lead to there. The
    gradient is "error" if PyTorch cannot compute one."""
    rng = random.Random(seed)
    steps: list[Step] = []
    weight, pool = start(torch)
    for _ in range(rng.randint(2, 10)):
        step = random_step(rng, [tuple(x.shape) for x in pool])
        try:
            out = step.run(*[pool[i] for i in step.operands])
        except (RuntimeError, IndexError):  # as a write to elements that are one element
            continue
        steps.append(step)
        if step.kind != "write":
            pool.append(out)
    return steps, [x.detach().numpy() for x in pool], gradient_of(torch, weight, pool)


def start(library: Any) -> tuple[Any, list[Any]]:
    """A leaf that requires a gradient, and the first tensors: some of them depend on it."""
    make = fw.tensor if library is fw else torch.tensor
    weight = make([[0.5, -1.5, 2.5], [1.0, 3.0, -0.5]])
    weight.requires_grad_()
    other = make([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    return weight, [weight * 2, other, other[1:]]


def gradient_of(library: Any, weight: Any, pool: list[Any]) -> Any:
    """The gradient of the sum of all tensors, each with another factor."""
    try:
        loss = sum((x * (i + 1)).sum() for i, x in enumerate(pool) if x.requires_grad)
        if any(x.requires_grad for x in pool):
            loss.backward()
    except RuntimeError as error:
        if library is torch and ("modified by an inplace operation" in str(error)
                                 or "single memory location" in str(error)):
            return "error"
        raise
    return np.zeros(weight.shape) if weight.grad is None else weight.grad.numpy()


def run(steps: list[Step], pool: list[Any]) -> list[Any]:
    for step in steps:
        out = step.run(*[pool[i] for i in step.operands])
        if step.kind != "write":
            pool.append(out)
    return pool


def close(ours: Any, expected: Any) -> bool:
    return ours.shape == expected.shape and bool(
        np.allclose(ours, expected, rtol=1e-4, atol=1e-4, equal_nan=True))


def difference(seed: int) -> str:
    """What differs between the libraries in a program; empty if nothing does."""
    steps, values, gradient = random_program(seed)
    text = "\n".join(step.text for step in steps)

    def whole(weight: Any, other: Any, part: Any) -> list[Any]:
        return run(steps, [weight * 2, other, part])

    compiled = fw.compile(whole)
    for number in range(4):
        weight, pool = start(fw)
        try:
            if number == 0:
                pool = run(steps, pool)
            else:
                pool = compiled(weight, *pool[1:])
            ours = gradient_of(fw, weight, pool)
        except fw.FusewireError as error:
            return f"{seed}, call {number}: {error}\n{text}"
        for i, (x, expected) in enumerate(zip(pool, values, strict=True)):
            if not close(x.detach().numpy(), expected):
                return f"{seed}, call {number}: v{i} is {x.tolist()}, not {expected}\n{text}"
        if isinstance(gradient, str):
            continue
        if not close(ours, gradient):
            return f"{seed}, call {number}: the gradient is {ours}, not {gradient}\n{text}"
    return ""


@pytest.mark.parametrize("first", range(0, PROGRAMS, PER_TEST))
def test_random_programs_of_views(first: int) -> None:
    differences = [d for seed in range(first, first + PER_TEST) if (d := difference(seed))]
    assert not differences, differences[0]
