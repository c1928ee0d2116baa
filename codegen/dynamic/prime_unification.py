"""Kernels for any sizes, found by comparing those that lowering makes for two sets of them.

Lowering knows every size as a number. Here each unknown one is a prime number that divides nothing
else, so that a number tells what it is made of: with 67 examples of 71 words, 38,056 is 8 times the
words of all examples. With 23 examples of 29 words, it must be 8 * 23 * 29, and the rest of the
kernels must be equal, statement by statement; where it is not, the choice of loops depends on the
sizes, and there is no code for all of them. The larger numbers are bounds for the sizes, as what is
known of ranges at one size holds for smaller ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ...eager.errors import CodegenError
from ..fusion.kernel_key import BufferView
from ..fusion.launch import Launch
from ..ir import loop_ir
from ..ir.loop_ir import (
    Assign,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Read,
    Register,
    Stmt,
    Var,
)

MOST = 8  # unknown sizes of a program
SIZES = Buffer("sizes", loop_ir.INT, MOST)
"""The argument in which every kernel finds the sizes that its caller has."""

_T = TypeVar("_T")


class SizeFormula(NamedTuple):
    """A factor times the unknown sizes of these numbers, which may stand there several times, plus
    a number."""

    factor: int
    sizes: tuple[int, ...] = ()
    more: int = 0

    def at(self, sizes: Sequence[int]) -> int:
        """What it amounts to."""
        return self.factor * math.prod(sizes[i] for i in self.sizes) + self.more


class PrimeSample(NamedTuple):
    """Two prime numbers for each unknown size: the larger ones, and the smaller ones."""

    large: tuple[int, ...]
    small: tuple[int, ...]

    def formula(self, large: int, small: int) -> SizeFormula:
        """What stands for two numbers; CodegenError if they are no product of sizes, as they stand
        or one less or more."""
        if large == small:
            return SizeFormula(large)
        for more in (0, -1, 1):
            found = self._product(large - more, more)
            if found.at(self.small) == small:
                return found
        raise differing(f"{large} and {small}")

    def _product(self, number: int, more: int) -> SizeFormula:
        sizes = []
        for i, prime in enumerate(self.large):
            while number and number % prime == 0:
                number //= prime
                sizes.append(i)
        return SizeFormula(number, tuple(sizes), more)

    def shape(self, large: Sequence[int], small: Sequence[int]) -> tuple[SizeFormula, ...]:
        """A formula for each axis."""
        if len(large) != len(small):
            raise differing("numbers of axes")
        return tuple(map(self.formula, large, small))


def differing(what: str) -> CodegenError:
    """The error for code that depends on the sizes otherwise than by products of them."""
    return CodegenError(f"the loops for two sizes differ: {what}")


def unify_samples(sample: PrimeSample, large: Sequence[Launch],
                  small: Sequence[Launch]) -> list[Launch]:
    """The launches for any sizes up to the larger ones, on the buffers of those."""
    if len(large) != len(small):
        raise differing(f"{len(large)} and {len(small)} kernels")
    made: dict[tuple[Kernel, Kernel], Kernel] = {}
    out = []
    for a, b in zip(large, small):
        pair = a.kernel, b.kernel
        if pair not in made:
            made[pair] = _KernelUnifier(sample).kernel(*pair)
        if [p.offset for p in a.views] != [p.offset for p in b.views]:
            raise differing("where slices begin")
        places = dict(zip(a.kernel.arguments, a.views)) | {SIZES: BufferView(SIZES)}
        out.append(Launch(made[pair], tuple(places[x] for x in made[pair].arguments)))
    return out


class _KernelUnifier:
    """Two kernels that are compared."""

    def __init__(self, sample: PrimeSample) -> None:
        self.sample = sample
        self.sizes = [Register(f"size{i}", loop_ir.INT) for i in range(len(sample.large))]
        self.used = set[int]()  # the sizes that anything depends on
        self.same: dict[Any, Any] = {}  # buffers, registers and variables of the two
        self.known: dict[tuple[Expr, Expr], Expr] = {}

    def kernel(self, a: Kernel, b: Kernel) -> Kernel:
        """The kernel that both are, each for its size."""
        for of in ("inputs", "outputs", "scratch"):
            self._match(getattr(a, of), getattr(b, of))
        self.same[a.task] = b.task
        body = self._guarded(a, b, self._body(a.body, b.body))
        if not self.used:
            return dataclasses.replace(a, body=body)
        first = [Assign(self.sizes[i], loop_ir.load(SIZES, loop_ir.const(i)))
                 for i in sorted(self.used)]
        return dataclasses.replace(a, inputs=(*a.inputs, SIZES), body=(*first, *body))

    def _match(self, a: Sequence[Any], b: Sequence[Any]) -> None:
        if len(a) != len(b):
            raise differing(f"{len(a)} and {len(b)} buffers")
        self.same |= dict(zip(a, b))

    def _guarded(self, a: Kernel, b: Kernel, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The body for tasks that may have nothing to do."""
        if a.tasks == b.tasks:
            return body
        try:
            count = self._number(self.sample.formula(a.tasks, b.tasks))
        except CodegenError:
            if not all(_ends_early(s, a.task) for s in a.body):
                raise
            return body
        return (If(loop_ir.call("lt", (a.task, count), loop_ir.BOOL), body),)

    # ---- statements
    def _body(self, a: Sequence[Stmt], b: Sequence[Stmt]) -> tuple[Stmt, ...]:
        if len(a) != len(b):
            raise differing(f"{len(a)} and {len(b)} statements")
        return tuple(map(self._statement, a, b))

    def _statement(self, a: Stmt, b: Stmt) -> Stmt:
        if type(a) is not type(b):
            raise differing(f"{type(a).__name__} and {type(b).__name__}")
        if isinstance(a, (For, Assign)) and isinstance(b, (For, Assign)):
            of = "var" if isinstance(a, For) else "register"
            self.same.setdefault(getattr(a, of), getattr(b, of))
        fields = [f.name for f in dataclasses.fields(a)]
        found = {f: self._part(getattr(a, f), getattr(b, f)) for f in fields}
        made = dataclasses.replace(a, **found)
        if isinstance(a, For) and isinstance(made, For) and made.stop is not a.stop:
            # a piece that lies behind the end has nothing to do
            stop = loop_ir.call("maximum", (made.stop, made.start), loop_ir.INT)
            return dataclasses.replace(made, stop=stop)
        return made

    def _part(self, a: Any, b: Any) -> Any:
        """A field of a statement."""
        if isinstance(a, tuple):
            return self._body(a, b)
        if isinstance(a, Var) or not isinstance(a, Expr):
            return self._equal(a, b)
        return self._expression(a, b)

    # ---- expressions
    def _expression(self, a: Expr, b: Expr) -> Expr:
        """The expression that both are. Long ones are too deep for Python's own stack."""
        stack = [(a, b)]
        while stack:
            top = stack[-1]
            below = [loop_ir.children(e) for e in top]
            missing = [pair for pair in zip(*below) if pair not in self.known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if type(top[0]) is not type(top[1]) or top[0].dtype != top[1].dtype:
                raise differing(f"{top[0]} and {top[1]}")
            self.known[top] = _COMPARED[type(top[0])](self, *top)
        return self.known[a, b]

    def _constant(self, a: Const, b: Const) -> Expr:
        if a is b:
            return a
        whole = [float(x.value).is_integer() for x in (a, b) if x.dtype.kind in "if"]
        if whole != [True, True]:
            raise differing(f"the numbers {a.value} and {b.value}")
        number = self._number(self.sample.formula(int(a.value), int(b.value)))
        return number if a.dtype == loop_ir.INT else loop_ir.call("cast", (number,), a.dtype)

    def _number(self, formula: SizeFormula) -> Expr:
        """A number that depends on the sizes as an expression."""
        self.used.update(formula.sizes)
        parts = [loop_ir.read(self.sizes[i]) for i in formula.sizes]
        found: Expr = parts[0] if parts else loop_ir.const(formula.factor)
        for part in parts[1:]:
            found = loop_ir.call("mul", (found, part), loop_ir.INT)
        if parts and formula.factor != 1:
            found = loop_ir.call("mul", (found, loop_ir.const(formula.factor)), loop_ir.INT)
        if parts and formula.more:
            found = loop_ir.call("add", (found, loop_ir.const(formula.more)), loop_ir.INT)
        return found

    def _equal(self, a: _T, b: _T) -> _T:
        if self.same.get(a, a) != b:
            raise differing(f"{a} and {b}")
        return a

    def _load(self, a: Load, b: Load) -> Expr:
        parts = [self._maybe(getattr(a, f), getattr(b, f)) for f in ("index", "mask", "other")]
        return loop_ir.load(self._equal(a.buffer, b.buffer), *parts)  # type: ignore[arg-type]

    def _maybe(self, a: Expr | None, b: Expr | None) -> Expr | None:
        return self._equal(a, b) if a is None or b is None else self.known[a, b]

    def _read(self, a: Read, b: Read) -> Expr:
        self._equal(a.register, b.register)
        return a

    def _call(self, a: Call, b: Call) -> Expr:
        if a.op != b.op or len(a.args) != len(b.args):
            raise differing(f"{a.op} and {b.op}")
        return loop_ir.call(a.op, tuple(self.known[x] for x in zip(a.args, b.args)), a.dtype)


_COMPARED: dict[type, Callable[[_KernelUnifier, Any, Any], Expr]] = {
    Const: _KernelUnifier._constant, Load: _KernelUnifier._load, Read: _KernelUnifier._read,
    Call: _KernelUnifier._call,
    Var: _KernelUnifier._equal,
}


def _ends_early(s: Stmt, task: Var) -> bool:
    """Whether a task does nothing if its piece lies behind the end."""
    if isinstance(s, If):
        return isinstance(s.condition, Call) and s.condition.op == "lt" and \
            task in loop_ir.subexpressions([s.condition.args[0]])
    return isinstance(s, For) and isinstance(s.stop, Call) and s.stop.op == "minimum"
