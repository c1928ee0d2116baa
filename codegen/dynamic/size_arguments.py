"""Gives kernels the sizes that they are called with: their size values become arithmetic.

Lowering writes each dynamic size as a `SizeValue`. Here it becomes an expression of registers,
which every task sets from the argument `SIZES`. Emitters see no symbolic sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ...capture.sizes.size_expr import Atom, Monomial, SizeExpr, SizeSymbol, constant, single
from ...eager.errors import CodegenError
from ..fusion.kernel_key import BufferView
from ..fusion.launch import Launch
from ..ir import loop_ir
from ..ir.loop_ir import (
    INT,
    Assign,
    Call,
    Expr,
    If,
    Kernel,
    KernelBuffer,
    Load,
    Register,
    SizeValue,
    Stmt,
    const,
)
from ..ir.sizes import is_dynamic, lower_bound, size_of, upper_bound
from ..ir.subexpressions import evaluation_order

MAX_DYNAMIC_SIZES = 8  # unknown sizes of a program
SIZES = KernelBuffer("sizes", loop_ir.INT, MAX_DYNAMIC_SIZES)
"""The argument in which every kernel finds the sizes that its caller has."""


def with_size_arguments(launches: Sequence[Launch], names: Sequence[str]) -> list[Launch]:
    """The launches of kernels that read the sizes with these names, in this order, from `SIZES`."""
    kernels: dict[Kernel, Kernel] = {}
    out = []
    for launch in launches:
        kernel = launch.kernel
        if kernel not in kernels:
            kernels[kernel] = _SizeReader(names).kernel(kernel)
        views = dict(zip(kernel.arguments, launch.views)) | {SIZES: BufferView(SIZES)}
        out.append(Launch(kernels[kernel], tuple(views[b] for b in kernels[kernel].arguments)))
    return out


class _SizeReader:
    """Rewrites one kernel."""

    def __init__(self, names: Sequence[str]) -> None:
        self.numbers = {name: i for i, name in enumerate(names)}
        self.named: dict[SizeSymbol, Register] = {}
        self.registers: dict[SizeExpr, Register] = {}  # of all sizes that are not named ones
        self.values: dict[Register, Expr] = {}
        self.rewritten: dict[Expr, Expr] = {}

    def kernel(self, kernel: Kernel) -> Kernel:
        """The kernel, with as many tasks as the largest sizes need."""
        body = self._body(kernel.body)
        if is_dynamic(kernel.tasks):  # further tasks have nothing to do
            count = self._expression(const(kernel.tasks))
            body = (If(loop_ir.call("lt", (kernel.task, count), loop_ir.BOOL), body),)
        if not self.values:
            return dataclasses.replace(kernel, body=body)
        first = [Assign(r, value) for r, value in self.values.items()]
        return dataclasses.replace(kernel, inputs=(*kernel.inputs, SIZES), body=(*first, *body),
                                   tasks=upper_bound(kernel.tasks))

    # ---- statements
    def _body(self, body: Iterable[Stmt]) -> tuple[Stmt, ...]:
        return tuple(map(self._statement, body))

    def _statement(self, s: Stmt) -> Stmt:
        changed: dict[str, Any] = {}
        for f in dataclasses.fields(s):
            value = getattr(s, f.name)
            if isinstance(value, tuple):
                changed[f.name] = self._body(value)
            elif isinstance(value, Expr) and not isinstance(value, loop_ir.Var):
                changed[f.name] = self._expression(value)
            elif isinstance(value, loop_ir.WordMatrix):
                changed[f.name] = dataclasses.replace(value, index=self._expression(value.index))
            elif is_dynamic(value):
                raise CodegenError(f"the {f.name} of a {type(s).__name__} is the dynamic size "
                                   f"{value}")
        return dataclasses.replace(s, **changed)

    # ---- expressions
    def _expression(self, root: Expr) -> Expr:
        for e in evaluation_order(root, self.rewritten.__contains__):
            self.rewritten[e] = self._rewrite(e)
        return self.rewritten.get(root, root)

    def _rewrite(self, e: Expr) -> Expr:
        if isinstance(e, SizeValue):
            return self._size(e.size.expr)  # type: ignore[attr-defined]
        if isinstance(e, Call):
            return loop_ir.call(e.op, tuple([self._done(x) for x in e.args]), e.dtype)
        if isinstance(e, Load):
            mask, other = (x and self._done(x) for x in (e.mask, e.other))
            return loop_ir.load(e.buffer, self._done(e.index), mask, other)
        return e

    def _done(self, e: Expr) -> Expr:
        return self.rewritten.get(e, e)  # constants are not among the rewritten

    # ---- sizes
    def _size(self, size: SizeExpr) -> Expr:
        """The register that has a size."""
        number = size.number
        if number is not None:
            return const(number)
        if size not in self.registers:
            value = self._sum(size)
            register = value.register if isinstance(value, loop_ir.Read) else \
                self._register(size, value)
            self.registers[size] = register
        return loop_ir.read(self.registers[size])

    def _register(self, size: SizeExpr, value: Expr) -> Register:
        of = size_of(size)
        register = Register(f"size{len(self.values)}", INT, (lower_bound(of), upper_bound(of)))
        self.values[register] = value
        return register

    def _sum(self, size: SizeExpr) -> Expr:
        total: Expr | None = None
        number = 0
        for monomial, c in size.terms:
            if not monomial:
                number = c
                continue
            term = self._product(monomial)
            term = term if c == 1 else loop_ir.call("mul", (term, const(c)), INT)
            total = term if total is None else loop_ir.call("add", (total, term), INT)
        assert total is not None
        return loop_ir.call("add", (total, const(number)), INT) if number else total

    def _product(self, monomial: Monomial) -> Expr:
        first, *others = [self._atom(a) for a, power in monomial for _ in range(power)]
        for factor in others:
            first = loop_ir.call("mul", (first, factor), INT)
        return first

    def _atom(self, atom: Atom) -> Expr:
        if isinstance(atom, SizeSymbol):
            if atom not in self.named:
                value = loop_ir.load(SIZES, const(self.numbers[atom.name]))
                self.named[atom] = self._register(single(atom), value)
            return loop_ir.read(self.named[atom])
        low, den = atom.num.low(), atom.den.low()
        if low is None or den is None:
            raise CodegenError(f"{atom} has no bounds")
        # only numbers from 0 on are divided
        times = constant(-(low // max(1, den)) if low < 0 else 0)
        num, divisor = self._size(atom.num + times * atom.den), self._size(atom.den)
        if den < 1:  # a size of 0, for which there is nothing to do
            divisor = loop_ir.call("maximum", (divisor, const(1)), INT)
        quotient = loop_ir.call("idiv", (num, divisor), INT)
        if not times.terms:
            return quotient
        return loop_ir.call("sub", (quotient, const(times.number)), INT)

