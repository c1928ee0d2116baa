"""Random programs that write into tensors of a state at indices, many of which they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fusewire as fw

ROWS, COLUMNS = 6, 4
Step = Callable[["State", fw.Tensor, list[Any]], None]


@dataclass
class State:
    """What a program changes: two caches, a counter, and what the caller holds of them."""

    first: fw.Tensor
    second: fw.Tensor
    count: fw.Tensor
    held: list[fw.Tensor] = field(default_factory=list)

    @classmethod
    def make(cls, rng: np.random.Generator, alias: str) -> State:
        """A state. `alias`: what else refers to the first cache."""
        first, second = (fw.tensor(rng.standard_normal((ROWS, COLUMNS)).astype(np.float32))
                         for _ in range(2))
        state = cls(first, second, fw.tensor(int(rng.integers(3))))
        if alias == "same":
            state.second = state.first
        elif alias == "view":
            state.second = state.first[:, :]
        elif alias == "held view":
            state.held = [state.first[1:3]]
        elif alias == "held transpose":
            state.held = [state.first.T]
        return state

    def values(self) -> list[Any]:
        """All numbers that a caller can see."""
        return [t.numpy().copy() for t in (self.first, self.second, self.count, *self.held)]


def _target(state: State, name: str) -> fw.Tensor:
    target: fw.Tensor = getattr(state, name)
    return target


def _row(rng: np.random.Generator) -> Callable[[State, fw.Tensor], Any]:
    """A random index of rows: a number, or several, mostly in range."""
    shift = int(rng.integers(-ROWS, ROWS))
    return [
        lambda state, x: state.count % ROWS,
        lambda state, x: state.count + fw.arange(2) - 2,
        lambda state, x: (state.count + fw.arange(3)) % ROWS,
        lambda state, x: (state.count * 0 + shift)[None],
        lambda state, x: x[0].argmax(),
        lambda state, x: fw.minimum((x[:, 0] * 3).astype(fw.int64), ROWS - 1),
        lambda state, x: state.count,  # out of range after some calls
        lambda state, x: x[:, 1] > 0 if x.shape[0] == ROWS else fw.tensor([0, 0, 1]),
        lambda state, x: [1, 1, 4],
    ][rng.integers(9)]


def _write(rng: np.random.Generator) -> Step:
    name, scale = str(rng.choice(["first", "second"])), float(rng.integers(1, 4))
    row, column = _row(rng), rng.random() < 0.3

    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        target, at = _target(state, name), row(state, x)
        if column and not isinstance(at, list) and at.ndim == 0:
            target[:, at % COLUMNS] = x.sum() * scale
        else:
            target[at] = x[0] * scale

    return step


def _write_what_was_read(rng: np.random.Generator) -> Step:
    other, start, several = int(rng.integers(ROWS)), int(rng.integers(4)), rng.random() < 0.5
    row = (lambda state, x: (state.count * 0 + other + fw.arange(3)) % ROWS) if several \
        else _row(rng)
    name, source = (str(rng.choice(["first", "second"])) for _ in range(2))

    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        if several:
            _target(state, name)[row(state, x)] = _target(state, source)[start:start + 3]
        else:
            _target(state, name)[row(state, x)] = _target(state, source)[other] + 1

    return step


def _read(rng: np.random.Generator) -> Step:
    name, how = str(rng.choice(["first", "second"])), int(rng.integers(4))

    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        target = _target(state, name)
        seen.append([lambda: target.sum(axis=0), lambda: target[1:], lambda: target * 2,
                     lambda: x + 1][how]())

    return step


def _read_around_a_write(rng: np.random.Generator) -> Step:
    """Reads what a write replaces, in an expression that is due after the write."""
    row, name = _row(rng), str(rng.choice(["first", "second"]))

    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        before = _target(state, name) * 2
        _target(state, name)[row(state, x)] = x[0]
        seen.append(before + _target(state, name))

    return step


def _count(rng: np.random.Generator) -> Step:
    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        state.count = state.count + 1

    return step


def _write_argument(rng: np.random.Generator) -> Step:
    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        x[state.count % x.shape[0]] = state.second[0]

    return step


def _write_new(rng: np.random.Generator) -> Step:
    """Rows of a new tensor, written twice, perhaps kept by the state."""
    row, kept, adds = _row(rng), rng.random() < 0.3, rng.random() < 0.5

    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        new = state.first + 1
        new[row(state, x)] = x[0]
        between = new * 3
        new[state.count % ROWS] = x[1]
        copies = new.clone()
        new[state.count % COLUMNS] = 7.0
        seen.extend([copies, between + new] if adds else [new])
        if kept:
            state.second = new

    return step


def _write_into_a_copy(rng: np.random.Generator) -> Step:
    row = _row(rng)

    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        result = state.second * 2
        copy = result.clone()
        copy[row(state, x)] = x[1]
        seen.extend([result, copy])

    return step


def _write_for_gradients(rng: np.random.Generator) -> Step:
    """Writes into a value that a backward needs, and computes this backward."""
    row = _row(rng)

    def step(state: State, x: fw.Tensor, seen: list[Any]) -> None:
        leaf = state.first.detach() + 0
        leaf.requires_grad = True
        y = leaf * 2
        square = y * y
        y[row(state, x)] = x[0].detach()
        (square.sum() + (y * y).sum()).backward()
        seen.append(leaf.grad)

    return step


STEPS = [_write, _write, _write, _write_what_was_read, _read, _read_around_a_write, _count,
         _write_argument, _write_new, _write_into_a_copy, _write_for_gradients]


def program(seed: int) -> tuple[Callable[[State, fw.Tensor], list[Any]], Callable[[], State]]:
    """A random program (state, x) -> what it has seen, and a function that makes its state."""
    rng = np.random.default_rng(seed)
    steps = [STEPS[rng.integers(len(STEPS))](rng) for _ in range(rng.integers(1, 6))]
    alias = str(rng.choice(["none", "none", "same", "view", "held view", "held transpose"]))

    def run(state: State, x: fw.Tensor) -> list[Any]:
        seen: list[Any] = []
        for step in steps:
            step(state, x, seen)
        return seen

    return run, lambda: State.make(np.random.default_rng(seed), alias)


def outcome(function: Callable[..., list[Any]], state: State, x: Any) -> list[Any]:
    """What a call returns or raises, and all that its caller can see of it afterwards."""
    argument = fw.tensor(x)
    before = argument[:1]
    try:
        seen: Any = [t.numpy().copy() for t in function(state, argument)]
    except fw.FusewireError as error:
        seen = [type(error).__name__]
    return [*seen, *state.values(), argument.numpy().copy(), before.numpy().copy()]
