"""Computes structural keys of kernels, so that kernels that differ only in names share their code.
"""

from __future__ import annotations

from typing import Any

from ..ir.loop_ir import (
    Assign,
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Mma,
    Prefetch,
    Read,
    Stmt,
    Store,
    TileDot,
    TileShape,
    Transpose,
    Update,
    Var,
    WordMatrix,
    children,
)


def signature(kernel: Kernel) -> tuple[Any, ...]:
    """A structural key: two kernels have equal keys exactly if their code is equal."""
    return _Numbering().kernel(kernel)


class _Numbering:
    """Numbers buffers, registers, variables and expressions in the order in which they appear."""

    def __init__(self) -> None:
        self._things: dict[Any, int] = {}
        self._numbers: dict[Expr, int] = {}
        self._rows: list[tuple[Any, ...]] = []

    def kernel(self, kernel: Kernel) -> tuple[Any, ...]:
        buffers = kernel.arguments + kernel.scratch
        shapes = tuple((b.dtype, b.size, b.scratch) for b in buffers)
        for thing in (*buffers, kernel.task):
            self._number(thing)
        written = tuple((b in kernel.outputs, b in kernel.streamed) for b in kernel.arguments)
        body = self._block(kernel.body)
        return (shapes, written, kernel.tasks, body, tuple(self._rows))

    def _number(self, thing: Any) -> int:
        return self._things.setdefault(thing, len(self._things))

    def _block(self, body: tuple[Stmt, ...]) -> tuple[Any, ...]:
        return tuple(self._statement(s) for s in body)

    def _statement(self, s: Stmt) -> tuple[Any, ...]:
        if isinstance(s, For):
            ends = (self._expr(s.start), self._expr(s.stop))
            head = ("for", self._number(s.var), *ends, s.lanes, s.unroll)
            return (*head, self._block(s.body))
        if isinstance(s, If):
            return ("if", self._expr(s.condition), self._block(s.body))
        if isinstance(s, Store):
            return ("store", self._number(s.buffer), self._expr(s.index), self._expr(s.value))
        if isinstance(s, Transpose):
            target = (self._number(s.buffer), self._expr(s.index), s.pitch)
            source = (self._number(s.source), self._expr(s.source_index), s.source_pitch)
            return ("transpose", *target, *source, s.size, s.rows)
        if isinstance(s, Prefetch):
            return ("prefetch", self._number(s.buffer), self._expr(s.index), s.ahead, s.writes)
        if isinstance(s, Mma):
            return ("mma", *map(self._number, (s.sums, s.rows, s.columns)), s.fragments)
        if isinstance(s, TileShape):
            return ("tile shape", s)
        if isinstance(s, TileDot):
            return self._tile_dot(s)
        register = (self._number(s.register), s.register.dtype)
        if isinstance(s, Update):
            return ("update", s.op, *register, self._expr(s.value))
        assert isinstance(s, Assign)
        return ("assign", *register, self._expr(s.value))

    def _tile_dot(self, s: TileDot) -> tuple[Any, ...]:
        sums = (self._number(s.buffer), self._expr(s.index), s.pitch)
        operands = (*self._word_matrix(s.rows), *self._word_matrix(s.columns))
        return ("tile dot", *sums, *operands, s.shape, s.width, self._expr(s.depth), s.adds)

    def _word_matrix(self, m: WordMatrix) -> tuple[Any, ...]:
        return (self._number(m.buffer), self._expr(m.index), m.pitch, m.elements)

    def _expr(self, root: Expr) -> int:
        stack = [root]
        while stack:
            top = stack[-1]
            missing = [x for x in children(top) if x not in self._numbers]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if top not in self._numbers:
                self._rows.append(self._row(top))
                self._numbers[top] = len(self._numbers)
        return self._numbers[root]

    def _row(self, e: Expr) -> tuple[Any, ...]:
        if isinstance(e, Const):
            return ("const", e.dtype, repr(e.value))
        if isinstance(e, Var):
            return ("var", self._number(e))
        if isinstance(e, Read):
            return ("read", self._number(e.register))
        below = tuple(self._numbers[x] for x in children(e))
        if isinstance(e, Load):
            return ("load", self._number(e.buffer), e.mask is None, e.other is None, below)
        assert isinstance(e, Call)
        return ("call", e.op, e.dtype, below)
