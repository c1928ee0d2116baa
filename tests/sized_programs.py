"""Generates random functions of arrays with one to three unknown sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from dynamic_rows import Row

import fusewire as fw
import fusewire.nn.functional as F

Shape = tuple[str, ...]  # each size as text: equal texts are equal sizes


class Value(NamedTuple):
    """A value of a program: its number and its symbolic shape."""

    number: int
    shape: Shape


class Step(NamedTuple):
    """An operation of values with these numbers; `text` is for messages."""

    text: str
    function: Callable[..., Any]
    operands: tuple[int, ...]


class SizedProgram(NamedTuple):
    """Arguments' shapes, and steps; the results are the last values."""

    shapes: tuple[tuple[Any, ...], ...]
    steps: tuple[Step, ...]

    def __call__(self, *arguments: Any) -> Any:
        values = [*arguments]
        for step in self.steps:
            values.append(step.function(*[values[i] for i in step.operands]))
        return tuple(values[-3:])

    def row(self) -> Row:
        """The program as a row of the table of functions."""
        return Row(self, self.shapes, least=3, ulps=300)

    def __str__(self) -> str:
        lines = [f"v{i + len(self.shapes)} = {s.text} {s.operands}"
                 for i, s in enumerate(self.steps)]
        return "\n".join([str(self.shapes), *lines])


_UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": fw.tanh, "gelu": F.gelu, "square": lambda x: fw.tanh(x) ** 2,
    "exp": lambda x: fw.exp(-fw.abs(x)), "double": lambda x: x * 2 + 1,
    "per size": lambda x: x / x.shape[0] + x.shape[-1] % 3}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "multiply": lambda x, y: fw.tanh(x) * y,
    "where": lambda x, y: fw.where(x > y, x, y * 2)}


def _unary(rng: Any, pool: list[Value]) -> Any:
    x, name = _pick(rng, pool), str(rng.choice([*_UNARY]))
    return (name, _UNARY[name], (x,), x.shape) if x.shape else None


def _binary(rng: Any, pool: list[Value]) -> Any:
    x = _pick(rng, pool)
    y, name = _pick(rng, [v for v in pool if v.shape in (x.shape, x.shape[-1:])]), \
        str(rng.choice([*_BINARY]))
    return name, _BINARY[name], (x, y), x.shape


def _reduction(rng: Any, pool: list[Value]) -> Any:
    x = _pick(rng, pool)
    if not x.shape:
        return None
    axis, name = int(rng.integers(len(x.shape))), str(rng.choice(["sum", "mean", "max", "var"]))
    shape = x.shape[:axis] + x.shape[axis + 1:]
    return f"{name} {axis}", lambda x: getattr(x, name)(axis=axis), (x,), shape


def _along(rng: Any, pool: list[Value]) -> Any:
    """Functions along an axis that keep the shape."""
    x = _pick(rng, pool)
    if not x.shape:
        return None
    axis, name = int(rng.integers(len(x.shape))), str(rng.choice(
        ["softmax", "cumsum", "flip", "roll", "argmax"]))
    run = {"softmax": lambda x: fw.softmax(x, axis), "cumsum": lambda x: fw.cumsum(x, axis),
           "flip": lambda x: fw.flip(x, (axis,)), "roll": lambda x: fw.roll(x, 2, axis),
           "argmax": lambda x: x * x.argmax(axis=axis, keepdims=True)}[name]
    return f"{name} {axis}", run, (x,), x.shape


def _concat(rng: Any, pool: list[Value]) -> Any:
    x = _pick(rng, pool)
    if not x.shape:
        return None
    axis = int(rng.integers(len(x.shape)))

    def fits(v: Value) -> bool:
        return len(v.shape) == len(x.shape) and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(x.shape, v.shape)))

    y = _pick(rng, [v for v in pool if fits(v)])
    size = f"({x.shape[axis]}+{y.shape[axis]})"
    return (f"concat {axis}", lambda x, y: fw.concat([x, y], axis=axis), (x, y),
            _with(x.shape, axis, size))


def _cut(rng: Any, pool: list[Value]) -> Any:
    """Padding and slices along an axis."""
    x = _pick(rng, pool)
    if not x.shape:
        return None
    axis, name = int(rng.integers(len(x.shape))), str(rng.choice(["pad", "rest", "half", "front"]))
    before = (slice(None),) * axis
    run, size = {
        "pad": (lambda x: fw.pad(x, tuple((1, 2) if a == axis else (0, 0)
                                          for a in range(x.ndim))), "{0}+3"),
        "rest": (lambda x: x[(*before, slice(1, None))], "{0}-1"),
        "half": (lambda x: x[(*before, slice(None, None, 2))], "({0}+1)//2"),
        "front": (lambda x: x[(*before, slice(None, 2))], "min({0},2)")}[name]
    if name in ("rest", "front") and not x.shape[axis].isalpha():
        return None  # it may be too short
    return f"{name} {axis}", run, (x,), _with(x.shape, axis, f"({size.format(x.shape[axis])})")


def _reshape(rng: Any, pool: list[Value]) -> Any:
    x = _pick(rng, [v for v in pool if len(v.shape) > 1])
    name = str(rng.choice(["transpose", "merge", "stack", "repeat"]))
    if x is None or (len(x.shape) > 3 and name == "stack"):
        return None
    order = tuple(int(a) for a in rng.permutation(len(x.shape)))
    run, shape = {
        "transpose": (lambda x: x.permute_dims(order), tuple(x.shape[a] for a in order)),
        "merge": (lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]),
                  (f"({x.shape[0]}*{x.shape[1]})", *x.shape[2:])),
        "stack": (lambda x: fw.stack([x, x * 2], 1), (x.shape[0], "2", *x.shape[1:])),
        "repeat": (lambda x: fw.concat([x, x], axis=-1),
                   (*x.shape[:-1], f"({x.shape[-1]}+{x.shape[-1]})"))}[name]
    return f"{name} {order if name == 'transpose' else ''}", run, (x,), shape


def _product(rng: Any, pool: list[Value]) -> Any:
    x = _pick(rng, [v for v in pool if len(v.shape) > 1])
    y = x and _pick(rng, [v for v in pool if len(v.shape) == 2 and v.shape[-1] == x.shape[-1]])
    if not x or not y:
        return None
    return ("product", lambda x, y: fw.tanh(x) @ fw.tanh(y).T, (x, y),
            (*x.shape[:-1], y.shape[0]))


_KINDS = (_unary, _binary, _reduction, _along, _concat, _cut, _reshape, _product)


def _pick(rng: Any, values: list[Value]) -> Any:
    return values[rng.integers(len(values))] if values else None


def _with(shape: Shape, axis: int, size: str) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1:])


def sized_program(seed: int) -> SizedProgram:
    """A random program with one to three unknown sizes."""
    rng = np.random.default_rng(seed)
    names = ["n", "m", "k"][:int(rng.integers(1, 4))]
    shapes: list[tuple[Any, ...]] = [(names[0], 6), *[(names[-1], 6) for _ in range(2)]]
    shapes += [tuple(rng.choice([*names, "5"]) for _ in range(int(rng.integers(1, 4))))]
    shapes = [tuple(int(n) if str(n).isdigit() else str(n) for n in shape) for shape in shapes]
    missing = [name for name in names if not any(name in shape for shape in shapes)]
    shapes += [(name,) for name in missing]
    pool = [Value(i, tuple(map(str, shape))) for i, shape in enumerate(shapes)]
    steps: list[Step] = []
    while len(steps) < 6:
        made = _KINDS[rng.integers(len(_KINDS))](rng, pool)
        if made is not None and sum(size.count("*") for size in made[3]) < 2:
            text, run, operands, shape = made
            steps.append(Step(text, run, tuple(v.number for v in operands)))
            pool.append(Value(len(pool), shape))
    return SizedProgram(tuple(shapes), tuple(steps))
