"""Generates random programs: lists of steps over a pool of tensors, with gradients of results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw

SHAPES = [(), (1,), (5,), (17,), (2, 3), (4, 5), (33, 2), (3, 40), (1, 4), (2, 3, 4), (3, 1, 2),
          (0, 3), (70, 33), (1, 33), (2000,), (9, 5, 7)]


@dataclasses.dataclass(frozen=True)
class Step:
    """A step, name = fn(operands). `text`: its printed form. `target`: an operand that it changes
    in place."""

    name: str
    text: str
    fn: Callable[..., fw.Tensor]
    operands: tuple[str, ...]
    target: str = ""




def pick(rng: np.random.Generator, pool: dict[str, fw.Tensor], kinds: str = "f",
         ndim: int = 0, want: Any = None) -> str | None:
    """The name of a random tensor of the pool that fits, or None."""
    names = [n for n, t in pool.items() if t.dtype.kind in kinds and t.ndim >= ndim
             and (want is None or want(t))]
    return str(rng.choice(names)) if names else None


def broadcasts(a: fw.Tensor, b: fw.Tensor) -> bool:
    try:
        return np.prod(np.broadcast_shapes(a.shape, b.shape)) < 5000
    except ValueError:
        return False


UNARY = {
    "exp": lambda x: fw.exp(-fw.abs(x)), "tanh": fw.tanh, "sigmoid": fw.sigmoid, "relu": fw.relu,
    "sqrt": lambda x: fw.sqrt(fw.abs(x) + 0.5), "log": lambda x: fw.log(x * x + 1.0),
    "negative": fw.negative, "sin": fw.sin, "softmax": lambda x: fw.softmax(fw.tanh(x), -1),
    "half": lambda x: x * 0.5, "from 2": lambda x: 2.0 - x, "erf": fw.erf,
    "square": lambda x: fw.tanh(x) ** 2,
}
BINARY = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: fw.tanh(x) * y,
    "/": lambda x, y: x / (y * y + 1.0), "maximum": fw.maximum, "minimum": fw.minimum,
    "where": lambda x, y: fw.where(x > y, x, y * 2.0),
}


def unary(rng: Any, pool: Any) -> Any:
    x, name = pick(rng, pool, ndim=1), str(rng.choice(list(UNARY)))
    return x and (f"{name}({x})", UNARY[name], (x,))


def binary(rng: Any, pool: Any) -> Any:
    x = pick(rng, pool)
    y = pick(rng, pool, want=lambda t: broadcasts(t, pool[x]))
    name = str(rng.choice(list(BINARY)))
    return x and y and (f"{x} {name} {y}", BINARY[name], (x, y))


def reduction(rng: Any, pool: Any) -> Any:
    x = pick(rng, pool, ndim=1, want=lambda t: t.size > 0)
    if x is None:
        return None
    axes = tuple(int(a) for a in range(pool[x].ndim) if rng.random() < 0.5) or (pool[x].ndim - 1,)
    keep, name = bool(rng.random() < 0.5), str(rng.choice(["sum", "mean", "max", "min"]))
    return f"{x}.{name}({axes}, {keep})", lambda x: getattr(x, name)(axis=axes, keepdims=keep), (x,)


def view(rng: Any, pool: Any) -> Any:
    x = pick(rng, pool, "fi", ndim=1)
    if x is None:
        return None
    shape = pool[x].shape
    order = tuple(int(a) for a in rng.permutation(len(shape)))
    axis = int(rng.integers(len(shape)))
    low = int(rng.integers(0, max(1, shape[axis])))
    part = (*[slice(None)] * axis, slice(low, None, int(rng.choice([1, 2]))))
    choices = {
        f"{x}.permute_dims({order})": lambda x: x.permute_dims(order),
        f"{x}.reshape(-1)": lambda x: x.reshape(x.size),
        f"{x}.reshape({shape[::-1]})": lambda x: x.reshape(shape[::-1]),
        f"{x}.flip({axis})": lambda x: x.flip(axis),
        f"{x}[{part}]": lambda x: x[part],
        f"expand_dims({x}, {axis})": lambda x: fw.expand_dims(x, axis),
        f"broadcast({x})": lambda x: fw.broadcast_to(x, (2, *x.shape)),
        f"pad({x}, {axis})": lambda x: fw.pad(
            x, [(1, 2) if a == axis else (0, 0) for a in range(x.ndim)]),
    }
    text = str(rng.choice(list(choices)))
    return (text, choices[text], (x,)) if pool[x].size < 3000 else None


def multiplies(x: fw.Tensor, y: fw.Tensor) -> bool:
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    return x.shape[-1] == inner and max(x.ndim, y.ndim) < 4 and min(x.ndim, y.ndim) < 3


def product(rng: Any, pool: Any) -> Any:
    x = pick(rng, pool, ndim=1)
    y = x and pick(rng, pool, ndim=1, want=lambda t: multiplies(pool[x], t))
    return x and y and (f"{x} @ {y}", lambda x, y: fw.tanh(x) @ fw.tanh(y), (x, y))


def gather(rng: Any, pool: Any) -> Any:
    x = pick(rng, pool, ndim=1, want=lambda t: t.size > 0 and not t.requires_grad)
    if x is None:
        return None
    axis = int(rng.integers(pool[x].ndim))
    size = pool[x].shape[axis]
    indices = rng.integers(-size, size, int(rng.integers(1, 6))).tolist()
    return f"take({x}, {indices}, {axis})", lambda x: fw.take(x, fw.tensor(indices), axis), (x,)


def numbers(rng: Any, pool: Any) -> Any:
    x = pick(rng, pool, ndim=1, want=lambda t: t.size > 0)
    choices: dict[str, Any] = {
        "argmax": lambda x: x.argmax(axis=-1), "compare": lambda x: (x > 0).astype(fw.int64),
        "arange": lambda x: fw.arange(x.shape[0]),
        "round": lambda x: fw.round(x * 3).astype(fw.int32)}
    name = str(rng.choice(list(choices)))
    return x and (f"{name}({x})", choices[name], (x,))


def from_numbers(rng: Any, pool: Any) -> Any:
    i = pick(rng, pool, "i")
    choices: dict[str, Any] = {
        "float": lambda i: i.astype(fw.float32) * 0.25,
        "%": lambda i: (i % 3 + i // 2).astype(fw.float32),
        "where": lambda i: fw.where(i > 1, 1.5, -0.5)}
    name = str(rng.choice(list(choices)))
    return i and (f"{name}({i})", choices[name], (i,))


def update(rng: Any, pool: Any) -> Any:
    """x += y or x[part] = y, on an input or on a result."""
    x = pick(rng, pool, ndim=1, want=lambda t: not t.requires_grad and t.size > 0)
    y = x and pick(rng, pool, want=lambda t: not t.requires_grad and broadcasts(t, pool[x])
                   and np.broadcast_shapes(t.shape, pool[x].shape) == pool[x].shape)
    if not x or not y:
        return None

    def add(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        x += fw.tanh(y)
        return x

    def put(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        x[..., :1] = fw.tanh(y.mean() if y.size else fw.tensor(1.0))
        return x

    if rng.random() < 0.5:
        return f"{x} += {y}", add, (x, y)
    return f"{x}[..., :1] = {y}", put, (x, y)


MAKERS = [unary, unary, binary, binary, binary, reduction, view, view, product, gather, numbers,
          from_numbers, update]


def inputs_of(seed: int) -> dict[str, fw.Tensor]:
    """New tensors as inputs of a program; some require gradients."""
    rng = np.random.default_rng(seed)
    pool = {}
    for i in range(int(rng.integers(2, 5))):
        shape = SHAPES[int(rng.integers(len(SHAPES)))]
        t = fw.from_numpy(rng.standard_normal(shape).astype(np.float32))
        pool[f"x{i}"] = t.requires_grad_(bool(rng.random() < 0.4))
    return pool


def program(seed: int) -> list[Step]:
    """The steps of a random program. Each is run when it is generated, so that all shapes fit."""
    rng = np.random.default_rng([seed, 1])
    pool, steps = inputs_of(seed), []
    for number in range(int(rng.integers(3, 16))):
        made_step = MAKERS[int(rng.integers(len(MAKERS)))](rng, pool)
        if not made_step:
            continue
        text, fn, operands = made_step
        changed = "=" in text and "==" not in text
        step = Step(operands[0] if changed else f"v{number}", text, fn, operands,
                    operands[0] if changed else "")
        try:
            pool[step.name] = fn(*[pool[o] for o in operands])
        except fw.ViewError:  # a write to elements that are one element of another tensor
            continue
        steps.append(step)
    return steps


def run(steps: list[Step], inputs: dict[str, fw.Tensor]) -> list[Any]:
    """The values that no other step uses, and the gradients of their sum."""
    pool = dict(inputs)
    for s in steps:
        pool[s.name] = s.fn(*[pool[o] for o in s.operands])
    used = {o for s in steps for o in s.operands if o != s.target}
    results: list[fw.Tensor] = []
    for value in [pool[s.name] for s in steps if s.name not in used]:
        if all(value is not other for other in results):
            results.append(value)
    leaves = [t for t in inputs.values() if t.requires_grad]
    losses = [t.sum() for t in results if t.requires_grad]
    gradients: tuple[Any, ...] = ()
    if losses:
        gradients = fw.grad(sum(losses[1:], start=losses[0]), leaves, allow_unused=True)
    return [*[t.detach() for t in results], *gradients]


def printed(steps: list[Step], seed: int) -> str:
    lines = [f"{n}: {t.shape}{' requires_grad' if t.requires_grad else ''}"
             for n, t in inputs_of(seed).items()]
    return "\n".join([f"seed {seed}", *lines, *[f"{s.name} <- {s.text}" for s in steps]])
