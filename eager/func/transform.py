"""Levels, and the interpreter that hands every op to the innermost transform it concerns.

A transform that runs is a level. Its values are ordinary tensors whose data is not an array but a
`Traced` of that level, made of tensors of the levels below. An op is handled by the highest level
among its inputs, for which all other inputs are constants; it calls `apply` again on what its
values are made of. So transforms nest in any order, and derivatives of one never mix with another.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .. import interpreter
from ..core.dispatch import apply, evaluate, taped
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.tracer import Traced
from ..errors import GradientError


class Level:
    """A transform that runs; `number` says how many stand around it."""

    number = 0
    running = False

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        """The result of `op`, one or more of whose inputs are of this level; not on the tape."""
        raise NotImplementedError

    def call(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        """The result of a `Function` with arguments of this level, not on the tape; fills `ctx`."""
        raise NotImplementedError

    def draws(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any], below: Any) -> Tensor:
        """Random numbers, drawn inside of this level; below(inputs, params) draws around it."""
        return below(inputs, params)  # type: ignore[no-any-return]


class _Depth(threading.local):
    """How many levels run in this thread, also where other interpreters stand between them."""

    number = 0


_DEPTH = _Depth()


class OfLevel(Traced):
    """A value of a level."""

    __slots__ = ("level",)
    level: Level

    @property
    def dtype(self) -> Any:
        return self.first()._data.dtype

    @property
    def size(self) -> Any:
        total: Any = 1
        for n in self.shape:
            total = total * n
        return total

    def custom(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        highest = _highest(args)
        assert highest is not None
        return highest.call(function, ctx, args)

    def first(self) -> Tensor:
        """A tensor of the dtype of this value, that it is made of."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises GradientError if the transform has ended."""
        if not self.level.running:
            raise self.outlived()


class TransformInterpreter:
    """The interpreter while transforms run, on top of the one that was there before."""

    answers = False  # for each example another
    keeps_layers = False

    def __init__(self, outer: interpreter.Interpreter | None) -> None:
        self.outer = outer
        self.levels: list[Level] = []

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        level = _highest(inputs)
        if op.draws:
            if not isinstance(inputs[0]._data, Traced):
                return self._draw(op, inputs, params, len(self.levels))
            assert level is not None
            return self._draw_by_example(level, op, inputs, params)
        if level is None:
            return self._below(op, inputs, params)
        out = level.apply(op, inputs, params)
        return taped(op, inputs, params, out) if is_of(out, level) else out

    def _below(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        if self.outer is None:
            return evaluate(op, inputs, params)
        interpreter.STATE.active = self.outer
        try:
            return apply(op, inputs, params)
        finally:
            interpreter.STATE.active = self

    def _draw(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any], depth: int) -> Tensor:
        """An op that makes numbers from the state of a generator: each level has its say."""
        if depth == 0:
            return self._below(op, inputs, params)
        return self.levels[depth - 1].draws(
            op, inputs, params, lambda xs, more: self._draw(op, xs, more, depth - 1))

    def _draw_by_example(self, level: Level, op: Op, inputs: tuple[Any, ...],
                         params: dict[str, Any]) -> Tensor:
        """Numbers from a state that is of `level`: neither it nor those inside have a say."""
        levels = self.levels
        self.levels = [other for other in levels if other.number < level.number]
        try:
            return level.apply(op, inputs, params)
        finally:
            self.levels = levels

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        data = tensor._data
        if isinstance(data, Traced):
            return data.seen(tensor)
        return data.shape if self.outer is None else self.outer.shape(tensor)

    def source(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.source(tensor)

    def changed(self, tensor: Tensor) -> None:
        if self.outer is not None and not isinstance(tensor._data, Traced):
            self.outer.changed(tensor)

    def reads_grad(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.reads_grad(tensor)

    def sets_grad(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.sets_grad(tensor)

    def leaves(self, tensor: Tensor, how: str) -> Any:
        if self.outer is None or isinstance(tensor._data, Traced):
            return None
        return self.outer.leaves(tensor, how)

    def number(self, tensor: Tensor, value: Any) -> Any:
        if self.outer is None or isinstance(tensor._data, Traced):
            return value
        return self.outer.number(tensor, value)

    def measure(self, op: Op, x: Tensor) -> Tensor | None:
        if self.outer is None or isinstance(x._data, Traced):
            return None
        return self.outer.measure(op, x)  # type: ignore[no-any-return]


def _highest(inputs: tuple[Any, ...]) -> Level | None:
    found: Level | None = None
    for x in inputs:
        if isinstance(x, Tensor) and isinstance(x._data, OfLevel):
            x._data.check()
            if found is None or x._data.level.number > found.number:
                found = x._data.level
    return found


@contextlib.contextmanager
def running(level: Level) -> Iterator[None]:
    """A context in which `level` is the innermost transform."""
    before: Any = interpreter.STATE.active
    active = before if isinstance(before, TransformInterpreter) else TransformInterpreter(before)
    _DEPTH.number += 1
    level.number, level.running = _DEPTH.number, True
    active.levels.append(level)
    interpreter.STATE.active = active
    try:
        yield
    finally:
        _DEPTH.number -= 1
        level.running = False
        active.levels.pop()
        interpreter.STATE.active = before


def is_of(x: Any, level: Level) -> bool:
    """Whether `x` is a tensor whose value is of `level`."""
    return isinstance(x, Tensor) and isinstance(x._data, OfLevel) and x._data.level is level


def edges_of(*tensors: Any) -> Iterator[Any]:
    """Where gradients of `tensors` go, and those of what they are made of."""
    for x in tensors:
        if isinstance(x, Tensor):
            if x.edge is not None:
                yield x.edge
            if isinstance(x._data, Traced):
                yield from edges_of(*x._data.parts())


def tracked(*tensors: Any) -> bool:
    """Whether a tape leads to any of `tensors`, or to what they are made of."""
    return next(edges_of(*tensors), None) is not None


def untaped(x: Tensor) -> Tensor:
    """The same value as a tensor of its own, cut off from the tapes; tangents stay."""
    return Tensor(x._data.untaped() if isinstance(x._data, Traced) else x._data)


def check_inner(x: Tensor, name: str) -> Tensor:
    """`x`, a result of the function given to `name`, if its own transforms have all ended."""
    if isinstance(x._data, OfLevel) and not x._data.level.running:
        raise GradientError(f"{name}: the function returned a tensor of a transform that has ended",
                            "it was kept from an earlier call; compute it inside of the function")
    return x
