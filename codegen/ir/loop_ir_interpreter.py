"""Runs a kernel in Python, one scalar at a time: the reference definition of the loop IR.

Every load and store is checked: indices are inside their buffers, scratch is written before it is
read, and registers are assigned in the block that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .loop_ir import (
    Assign,
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
    Load,
    Mma,
    Prefetch,
    Read,
    Register,
    Stmt,
    Store,
    TileDot,
    TileShape,
    Transpose,
    Update,
    Var,
    WordMatrix,
    children,
    expressions,
)
from .scalar_ops import SCALAR

Frame = dict[Any, Any]  # Var | Register | Expr -> NumPy scalar
Run = Callable[[Frame], None]
_SIMPLE = (Const, Var, Read)


def run(
    kernel: Kernel,
    arrays: Mapping[KernelBuffer, np.ndarray[Any, Any]],
    sizes: Mapping[Var, int] | None = None,
    order: Iterable[int] | None = None,
) -> None:
    """Runs all tasks, in `order` if given. `arrays` holds a contiguous array for each argument."""
    memory = {b: arrays[b].reshape(-1) for b in kernel.arguments}
    machine = _Machine(kernel, memory)
    body = machine.block(kernel.body)
    with np.errstate(all="ignore"):
        for task in range(kernel.tasks) if order is None else order:
            machine.forget_scratch()
            frame: Frame = {kernel.task: np.int64(task)}
            frame.update({var: np.int64(size) for var, size in (sizes or {}).items()})
            body(frame)


class _Machine:
    """Translates statements into Python functions of a frame."""

    def __init__(self, kernel: Kernel, memory: dict[KernelBuffer, np.ndarray[Any, Any]]) -> None:
        self.kernel = kernel
        self.memory = memory
        self.written: dict[KernelBuffer, np.ndarray[Any, Any]] = {}
        for b in kernel.arguments:
            if memory[b].dtype != b.dtype or memory[b].size > b.size:
                got = f"{memory[b].dtype}[{memory[b].size}]"
                raise ValueError(f"{kernel.name}: {b.name} is {b.dtype}[{b.size}], got {got}")
        for b in kernel.scratch:
            memory[b] = np.zeros(b.size, b.dtype)
            self.written[b] = np.zeros(b.size, bool)

    def forget_scratch(self) -> None:
        """Makes the contents of scratch undefined."""
        for flags in self.written.values():
            flags[:] = False

    # Statements

    def block(self, body: Iterable[Stmt]) -> Run:
        """Compiles a block of statements. Registers first assigned in the block end with it."""
        runs = [self._statement(s) for s in body]
        own = {s.register for s in body if isinstance(s, Assign)}

        def block(frame: Frame) -> None:
            new = [r for r in own if r not in frame]
            for each in runs:
                each(frame)
            for r in new:
                del frame[r]

        return block

    def _statement(self, s: Stmt) -> Run:
        handlers: dict[type, Callable[[Any], Run]] = {
            For: self._for, If: self._if, Assign: self._assign,
            Update: self._update, Store: self._store, Transpose: self._transpose,
            Prefetch: self._prefetch, Mma: self._multiply_fragments,
            TileShape: lambda s: discard, TileDot: self._tile_dot,
        }  # fmt: skip
        evaluate, action = self._evaluations(expressions(s)), handlers[type(s)](s)

        def statement(frame: Frame) -> None:
            for each in evaluate:
                each(frame)
            action(frame)

        return statement

    def _for(self, s: For) -> Run:
        body, start, stop = self.block(s.body), _getter(s.start), _getter(s.stop)

        def loop(frame: Frame) -> None:
            for i in range(int(start(frame)), int(stop(frame))):
                frame[s.var] = np.int64(i)
                body(frame)

        return loop

    def _if(self, s: If) -> Run:
        body, condition = self.block(s.body), _getter(s.condition)

        def branch(frame: Frame) -> None:
            if condition(frame):
                body(frame)

        return branch

    def _assign(self, s: Assign) -> Run:
        value = _getter(s.value)

        def assign(frame: Frame) -> None:
            frame[s.register] = _cast(value(frame), s.register.dtype)

        return assign

    def _update(self, s: Update) -> Run:
        value, function, r = _getter(s.value), SCALAR[s.op].function, s.register

        def update(frame: Frame) -> None:
            old = self._register(frame, r)
            frame[r] = _cast(function(old, _cast(value(frame), r.dtype)), r.dtype)

        return update

    def _store(self, s: Store) -> Run:
        value, index, array = _getter(s.value), _getter(s.index), self.memory[s.buffer]
        flags = self.written.get(s.buffer)

        def store(frame: Frame) -> None:
            at = self._checked(s.buffer, index(frame), "store")
            array[at] = _cast(value(frame), s.buffer.dtype)
            if flags is not None:
                flags[at] = True

        return store

    def _transpose(self, s: Transpose) -> Run:
        index, source_index = _getter(s.index), _getter(s.source_index)
        array, source = self.memory[s.buffer], self.memory[s.source]
        flags = self.written.get(s.buffer)

        def transpose(frame: Frame) -> None:
            for r in range(s.rows):
                for c in range(s.size):
                    start = source_index(frame) + r * s.source_pitch + c
                    at = self._checked(s.buffer, index(frame) + c * s.pitch + r, "store")
                    array[at] = source[self._checked(s.source, start, "load")]
                    if flags is not None:
                        flags[at] = True

        return transpose

    def _multiply_fragments(self, s: Mma) -> Run:
        f, sums = s.fragments, self.memory[s.sums]
        own = [(t, n) for t in range(f.threads) for n in range(f.products_per_thread)]
        rows, columns = (np.add.outer(first, np.arange(f.depth)) for first in (
            [f.row(t, n) * f.pitch for t, n in own], [f.column(t, n) * f.pitch for t, n in own]))

        def multiply(frame: Frame) -> None:
            products = self._elements(s.rows, rows) * self._elements(s.columns, columns)
            sums[:] = self._elements(s.sums, np.arange(len(own))) + products.sum(1)

        return multiply

    def _tile_dot(self, s: TileDot) -> Run:
        index, depth = _getter(s.index), _getter(s.depth)
        i, j = np.arange(s.shape.rows), np.arange(s.width)

        def multiply(frame: Frame) -> None:
            k = np.arange(int(depth(frame)))
            at = index(frame) + np.add.outer(i * s.pitch, j)
            rows, row_flags = self._words(s.rows, frame, i, k)
            columns, column_flags = self._words(s.columns, frame, k, j)
            sums = np.einsum("ike,kje->ij", rows, columns)
            flags = row_flags.all(1)[:, None] & column_flags.all(0)
            for end in (at.min(), at.max()):
                self._checked(s.buffer, end, "store")
            if s.adds:
                sums, flags = sums + self.memory[s.buffer][at], flags & self._are_set(s.buffer, at)
            self.memory[s.buffer][at] = sums
            self.written[s.buffer][at] = flags

        return multiply

    def _words(self, m: WordMatrix, frame: Frame, lines: Any, places: Any) -> tuple[Any, Any]:
        """The elements of the words at these places of these lines, and whether they are set."""
        count = 4 // m.buffer.dtype.itemsize
        elements = np.add.outer(places * count, np.arange(count))
        at = int(_getter(m.index)(frame)) + np.add.outer(lines * m.pitch, elements)
        for end in (at.min(), at.max()) if at.size else ():
            self._checked(m.buffer, end, "load")
        elements = np.ascontiguousarray(self.memory[m.buffer][at]).view(m.elements)
        wide = np.float32 if m.elements.itemsize == 2 else np.int32
        return elements.astype(wide), self._are_set(m.buffer, at).all(2)

    def _are_set(self, b: KernelBuffer, at: Any) -> Any:
        """Whether elements are set, for each of these positions."""
        flags = self.written.get(b)
        return np.ones(at.shape, bool) if flags is None else flags[at]

    def _elements(self, b: KernelBuffer, positions: Any) -> Any:
        """The elements of scratch at these positions, as float64."""
        for at in (positions.max(), positions.flat[self.written[b][positions].argmin()]):
            self._require_set(b, self._checked(b, at, "load"))
        return self.memory[b][positions].astype(np.float64)

    def _prefetch(self, s: Prefetch) -> Run:
        index = _getter(s.index)
        return lambda frame: discard(self._checked(s.buffer, index(frame), "prefetch"))

    # Expressions: each is evaluated once per statement, operands first; the frame holds its value

    def _evaluations(self, roots: Iterable[Expr]) -> list[Run]:
        order: dict[Expr, None] = {}
        stack = list(roots)
        while stack:
            top = stack[-1]
            missing = [x for x in children(top) if x not in order and not isinstance(x, _SIMPLE)]
            if missing and top not in order:
                stack.extend(missing)
                continue
            stack.pop()
            if not isinstance(top, _SIMPLE):
                order.setdefault(top)
        checks = [self._check_read(x) for e in order for x in (e, *children(e))]
        checks += [self._check_read(x) for x in roots]
        return [c for c in checks if c] + [self._evaluation(e) for e in order]

    def _check_read(self, e: Expr) -> Run | None:
        if not isinstance(e, Read):
            return None
        register = e.register
        return lambda frame: discard(self._register(frame, register))

    def _evaluation(self, e: Expr) -> Run:
        if isinstance(e, Load):
            return self._load(e)
        assert isinstance(e, Call), e
        function, dtype, args = SCALAR[e.op].function, e.dtype, [_getter(x) for x in e.args]

        def evaluate(frame: Frame) -> None:
            frame[e] = _cast(function(*(a(frame) for a in args)), dtype)

        return evaluate

    def _load(self, e: Load) -> Run:
        index, array = _getter(e.index), self.memory[e.buffer]
        mask = _getter(e.mask) if e.mask is not None else None
        other = _getter(e.other) if e.other is not None else lambda frame: e.dtype.type(0)

        def load(frame: Frame) -> None:
            if mask is not None and not mask(frame):
                frame[e] = _cast(other(frame), e.dtype)
                return
            at = self._checked(e.buffer, index(frame), "load")
            self._require_set(e.buffer, at)
            frame[e] = array[at]

        return load

    def _require_set(self, b: KernelBuffer, at: int) -> None:
        if b in self.written and not self.written[b][at]:
            raise ValueError(f"{self.kernel.name}: scratch {b.name}[{at}] is read before it is set")

    def _checked(self, b: KernelBuffer, index: Any, what: str) -> int:
        if not 0 <= index < b.size:
            raise IndexError(
                f"{self.kernel.name}: {what} of {b.name}[{index}], which has {b.size} elements"
            )
        return int(index)

    def _register(self, frame: Frame, r: Register) -> Any:
        if r not in frame:
            raise ValueError(f"{self.kernel.name}: register {r.name} is read before it is assigned")
        return frame[r]


def discard(value: Any) -> None:
    """Ignores a value, so that a lambda can return None."""


def _getter(e: Expr) -> Callable[[Frame], Any]:
    if isinstance(e, Const):
        value = e.dtype.type(e.value)
        return lambda frame: value
    key = e.register if isinstance(e, Read) else e
    return lambda frame: frame[key]


def _cast(value: Any, dtype: np.dtype[Any]) -> Any:
    if getattr(value, "dtype", None) != dtype or getattr(value, "shape", ()) != ():
        return np.asarray(value).astype(dtype)[()]
    return value[()] if isinstance(value, np.ndarray) else value
