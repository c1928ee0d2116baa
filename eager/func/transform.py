"""Hands every op to the innermost transform that it concerns.

A running transform is a level. The data of its tensors is not an array but a `TransformValue` of
that level, which consists of tensors of the levels below. The highest level among the inputs
handles an op; other inputs are constants to it. It calls `apply` again on the inner tensors. So
transforms nest in any order, and derivatives of different levels never mix.
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
from ..core.transform_value import TransformValue
from ..errors import GradientError


class Level:
    """A running transform; `number` counts the levels around it, itself included."""

    number = 0
    running = False

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        """The result of `op` on inputs of this level; off the tape."""
        raise NotImplementedError

    def call(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        """The result of a `Function` on arguments of this level; off the tape, fills `ctx`."""
        raise NotImplementedError

    def draws(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any], below: Any) -> Tensor:
        """Random numbers drawn inside of this level; below(inputs, params) draws outside of it."""
        return below(inputs, params)  # type: ignore[no-any-return]


class _Depth(threading.local):
    """Counts the running levels of a thread, across interpreters between them."""

    number = 0


_DEPTH = _Depth()


class OfLevel(TransformValue):
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
        """An inner tensor with the dtype of this value."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises a GradientError if the transform has ended."""
        if not self.level.running:
            raise self.outlived()


class TransformInterpreter:
    """The interpreter while transforms run, in front of the one before."""

    can_read_values = False  # each example has its own
    keeps_layers = False

    def __init__(self, outer: interpreter.Interpreter | None) -> None:
        self.outer = outer
        self.levels: list[Level] = []

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        level = _highest(inputs)
        if op.draws:
            if not isinstance(inputs[0]._data, TransformValue):
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
        """Random numbers from the state of a generator; each level may change the draw."""
        if depth == 0:
            return self._below(op, inputs, params)
        return self.levels[depth - 1].draws(
            op, inputs, params, lambda xs, more: self._draw(op, xs, more, depth - 1))

    def _draw_by_example(self, level: Level, op: Op, inputs: tuple[Any, ...],
                         params: dict[str, Any]) -> Tensor:
        """Random numbers from a state of `level`, without the levels from there inwards."""
        levels = self.levels
        self.levels = [other for other in levels if other.number < level.number]
        try:
            return level.apply(op, inputs, params)
        finally:
            self.levels = levels

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        data = tensor._data
        if isinstance(data, TransformValue):
            return data.seen(tensor)
        return data.shape if self.outer is None else self.outer.shape(tensor)

    def note_constant(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.note_constant(tensor)

    def changed(self, tensor: Tensor) -> None:
        if self.outer is not None and not isinstance(tensor._data, TransformValue):
            self.outer.changed(tensor)

    def reads_grad(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.reads_grad(tensor)

    def sets_grad(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.sets_grad(tensor)

    def reads_values(self, tensor: Tensor, how: str) -> Any:
        if self.outer is None or isinstance(tensor._data, TransformValue):
            return None
        return self.outer.reads_values(tensor, how)

    def item(self, tensor: Tensor, value: Any) -> Any:
        if self.outer is None or isinstance(tensor._data, TransformValue):
            return value
        return self.outer.item(tensor, value)

    def apply_data_dependent(self, op: Op, x: Tensor) -> Tensor | None:
        if self.outer is None or isinstance(x._data, TransformValue):
            return None
        return self.outer.apply_data_dependent(op, x)  # type: ignore[no-any-return]


def _highest(inputs: tuple[Any, ...]) -> Level | None:
    highest: Level | None = None
    for x in inputs:
        if isinstance(x, Tensor) and isinstance(x._data, OfLevel):
            x._data.check()
            if highest is None or x._data.level.number > highest.number:
                highest = x._data.level
    return highest


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
    """True if `x` is a tensor whose value is of `level`."""
    return isinstance(x, Tensor) and isinstance(x._data, OfLevel) and x._data.level is level


def edges_of(*tensors: Any) -> Iterator[Any]:
    """The edges of `tensors` and of their inner tensors."""
    for x in tensors:
        if isinstance(x, Tensor):
            if x.edge is not None:
                yield x.edge
            if isinstance(x._data, TransformValue):
                yield from edges_of(*x._data.parts())


def tracked(*tensors: Any) -> bool:
    """True if a tape leads to any of `tensors` or their inner tensors."""
    return next(edges_of(*tensors), None) is not None


def untaped(x: Tensor) -> Tensor:
    """The value of `x` in a new tensor off the tapes; tangents stay."""
    return Tensor(x._data.untaped() if isinstance(x._data, TransformValue) else x._data)


def check_inner(x: Tensor, name: str) -> Tensor:
    """`x`, a result of the function given to `name`; a GradientError if its transform has ended."""
    if isinstance(x._data, OfLevel) and not x._data.level.running:
        raise GradientError(f"{name}: the function returned a tensor of a transform that has ended",
                            "it is from an earlier call; compute it inside of the function")
    return x
