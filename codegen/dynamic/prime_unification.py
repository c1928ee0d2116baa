"""Generalizes kernels to unknown sizes, by comparing those lowered for two samples of prime sizes.

Lowering knows every size as a number. A sample gives each unknown size a prime that divides no
other number, so that the factors of a number tell its formula: with 67 examples of 71 words, 38,056
is 8 times the words of all examples. In the other sample, with 23 examples of 29 words, the number
must be 8 * 23 * 29, and the kernels must be equal otherwise, statement by statement. If they are
not, the choice of loops depends on the sizes, and there is no code for all of them. The larger
primes are upper bounds of the sizes: ranges that hold at one size hold for smaller ones.
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
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
    Load,
    Read,
    Register,
    Stmt,
    Var,
)

MAX_DYNAMIC_SIZES = 8  # unknown sizes of a program
SIZES = KernelBuffer("sizes", loop_ir.INT, MAX_DYNAMIC_SIZES)
"""The argument in which every kernel finds the sizes that its caller has."""

_T = TypeVar("_T")


class SizeFormula(NamedTuple):
    """A factor times the unknown sizes with these numbers, which may repeat, plus an offset."""

    factor: int
    sizes: tuple[int, ...] = ()
    offset: int = 0

    def value(self, sizes: Sequence[int]) -> int:
        """The value for these sizes."""
        return self.factor * math.prod(sizes[i] for i in self.sizes) + self.offset


class PrimeSample(NamedTuple):
    """Two primes for each unknown size: the larger ones, and the smaller ones."""

    large: tuple[int, ...]
    small: tuple[int, ...]

    def formula(self, large: int, small: int) -> SizeFormula:
        """The formula with these values at both samples. Raises CodegenError if they are not a
        product of sizes, plus or minus at most 1."""
        if large == small:
            return SizeFormula(large)
        for more in (0, -1, 1):
            candidate = self._product(large - more, more)
            if candidate.value(self.small) == small:
                return candidate
        raise size_dependent(f"{large} and {small}")

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
            raise size_dependent("numbers of axes")
        return tuple(map(self.formula, large, small))


def size_dependent(what: str) -> CodegenError:
    """The error for code that depends on the sizes otherwise than by products of them."""
    return CodegenError(f"the loops for two sizes differ: {what}")


def unify_samples(sample: PrimeSample, large: Sequence[Launch],
                  small: Sequence[Launch]) -> list[Launch]:
    """The launches for all sizes up to the larger primes, on the buffers of the larger sample."""
    if len(large) != len(small):
        raise size_dependent(f"{len(large)} and {len(small)} kernels")
    unified: dict[tuple[Kernel, Kernel], Kernel] = {}
    out = []
    for a, b in zip(large, small):
        pair = a.kernel, b.kernel
        if pair not in unified:
            unified[pair] = _KernelUnifier(sample).kernel(*pair)
        if [p.offset for p in a.views] != [p.offset for p in b.views]:
            raise size_dependent("where slices begin")
        views = dict(zip(a.kernel.arguments, a.views)) | {SIZES: BufferView(SIZES)}
        out.append(Launch(unified[pair], tuple(views[x] for x in unified[pair].arguments)))
    return out


class _KernelUnifier:
    """Unifies two kernels that were lowered for the two samples."""

    def __init__(self, sample: PrimeSample) -> None:
        self.sample = sample
        self.sizes = [Register(f"size{i}", loop_ir.INT) for i in range(len(sample.large))]
        self.used_sizes = set[int]()  # the sizes that anything depends on
        self.counterparts: dict[Any, Any] = {}  # buffers, registers and variables of the two
        self.unified: dict[tuple[Expr, Expr], Expr] = {}

    def kernel(self, a: Kernel, b: Kernel) -> Kernel:
        """The kernel that equals both, each at its sizes."""
        for of in ("inputs", "outputs", "scratch"):
            self._match(getattr(a, of), getattr(b, of))
        self.counterparts[a.task] = b.task
        body = self._guarded(a, b, self._body(a.body, b.body))
        if not self.used_sizes:
            return dataclasses.replace(a, body=body)
        first = [Assign(self.sizes[i], loop_ir.load(SIZES, loop_ir.const(i)))
                 for i in sorted(self.used_sizes)]
        return dataclasses.replace(a, inputs=(*a.inputs, SIZES), body=(*first, *body))

    def _match(self, a: Sequence[Any], b: Sequence[Any]) -> None:
        if len(a) != len(b):
            raise size_dependent(f"{len(a)} and {len(b)} buffers")
        self.counterparts |= dict(zip(a, b))

    def _guarded(self, a: Kernel, b: Kernel, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The body, guarded for tasks that have nothing to do."""
        if a.tasks == b.tasks:
            return body
        try:
            count = self._size_expression(self.sample.formula(a.tasks, b.tasks))
        except CodegenError:
            if not all(_ends_early(s, a.task) for s in a.body):
                raise
            return body
        return (If(loop_ir.call("lt", (a.task, count), loop_ir.BOOL), body),)

    # ---- statements
    def _body(self, a: Sequence[Stmt], b: Sequence[Stmt]) -> tuple[Stmt, ...]:
        if len(a) != len(b):
            raise size_dependent(f"{len(a)} and {len(b)} statements")
        return tuple(map(self._statement, a, b))

    def _statement(self, a: Stmt, b: Stmt) -> Stmt:
        if type(a) is not type(b):
            raise size_dependent(f"{type(a).__name__} and {type(b).__name__}")
        if isinstance(a, (For, Assign)) and isinstance(b, (For, Assign)):
            of = "var" if isinstance(a, For) else "register"
            self.counterparts.setdefault(getattr(a, of), getattr(b, of))
        names = [f.name for f in dataclasses.fields(a)]
        fields = {f: self._field(getattr(a, f), getattr(b, f)) for f in names}
        unified = dataclasses.replace(a, **fields)
        if isinstance(a, For) and isinstance(unified, For) and unified.stop is not a.stop:
            # a chunk that lies behind the end has nothing to do
            stop = loop_ir.call("maximum", (unified.stop, unified.start), loop_ir.INT)
            return dataclasses.replace(unified, stop=stop)
        return unified

    def _field(self, a: Any, b: Any) -> Any:
        """A field of a statement."""
        if isinstance(a, tuple):
            return self._body(a, b)
        if isinstance(a, Var) or not isinstance(a, Expr):
            return self._equal(a, b)
        return self._expression(a, b)

    # ---- expressions
    def _expression(self, a: Expr, b: Expr) -> Expr:
        """The unified expression. Uses an explicit stack, since expressions can exceed Python's."""
        stack = [(a, b)]
        while stack:
            top = stack[-1]
            below = [loop_ir.children(e) for e in top]
            missing = [pair for pair in zip(*below) if pair not in self.unified]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if type(top[0]) is not type(top[1]) or top[0].dtype != top[1].dtype:
                raise size_dependent(f"{top[0]} and {top[1]}")
            self.unified[top] = _UNIFIERS[type(top[0])](self, *top)
        return self.unified[a, b]

    def _constant(self, a: Const, b: Const) -> Expr:
        if a is b:
            return a
        integral = [float(x.value).is_integer() for x in (a, b) if x.dtype.kind in "if"]
        if integral != [True, True]:
            raise size_dependent(f"the numbers {a.value} and {b.value}")
        number = self._size_expression(self.sample.formula(int(a.value), int(b.value)))
        return number if a.dtype == loop_ir.INT else loop_ir.call("cast", (number,), a.dtype)

    def _size_expression(self, formula: SizeFormula) -> Expr:
        """A size formula as an expression of the size registers."""
        self.used_sizes.update(formula.sizes)
        parts = [loop_ir.read(self.sizes[i]) for i in formula.sizes]
        expression: Expr = parts[0] if parts else loop_ir.const(formula.factor)
        for part in parts[1:]:
            expression = loop_ir.call("mul", (expression, part), loop_ir.INT)
        if parts and formula.factor != 1:
            expression = loop_ir.call("mul", (expression, loop_ir.const(formula.factor)),
                                      loop_ir.INT)
        if parts and formula.offset:
            expression = loop_ir.call("add", (expression, loop_ir.const(formula.offset)),
                                      loop_ir.INT)
        return expression

    def _equal(self, a: _T, b: _T) -> _T:
        if self.counterparts.get(a, a) != b:
            raise size_dependent(f"{a} and {b}")
        return a

    def _load(self, a: Load, b: Load) -> Expr:
        parts = [self._optional(getattr(a, f), getattr(b, f)) for f in ("index", "mask", "other")]
        return loop_ir.load(self._equal(a.buffer, b.buffer), *parts)  # type: ignore[arg-type]

    def _optional(self, a: Expr | None, b: Expr | None) -> Expr | None:
        return self._equal(a, b) if a is None or b is None else self.unified[a, b]

    def _read(self, a: Read, b: Read) -> Expr:
        self._equal(a.register, b.register)
        return a

    def _call(self, a: Call, b: Call) -> Expr:
        if a.op != b.op or len(a.args) != len(b.args):
            raise size_dependent(f"{a.op} and {b.op}")
        return loop_ir.call(a.op, tuple(self.unified[x] for x in zip(a.args, b.args)), a.dtype)


_UNIFIERS: dict[type, Callable[[_KernelUnifier, Any, Any], Expr]] = {
    Const: _KernelUnifier._constant, Load: _KernelUnifier._load, Read: _KernelUnifier._read,
    Call: _KernelUnifier._call, Var: _KernelUnifier._equal,
}


def _ends_early(s: Stmt, task: Var) -> bool:
    """True if a task does nothing when its range lies behind the end."""
    if isinstance(s, If):
        return isinstance(s.condition, Call) and s.condition.op == "lt" and \
            task in loop_ir.subexpressions([s.condition.args[0]])
    return isinstance(s, For) and isinstance(s.stop, Call) and s.stop.op == "minimum"
