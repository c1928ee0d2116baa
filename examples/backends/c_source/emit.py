"""Writes kernels of the loop IR as C: one function for each kernel, which runs one task.

The loop IR (`fusewire/codegen/ir/loop_ir.py`) is nested loops over scalars, so a statement becomes
a statement. The C compiler finds common values, unrolls, and chooses vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fusewire.codegen.ir.loop_ir import (
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
    Store,
    Transpose,
    Update,
    Var,
)
from fusewire.codegen.ir.subexpressions import evaluation_order
from fusewire.eager.arrays.dtypes import is_small
from fusewire.eager.errors import CodegenError

from .scalar import BOOL, SCALAR, apply, convert, literal, memory_type, register_type, small

ALIGNMENT = 64  # bytes, of scratch


def scratch_bytes(kernel: Kernel) -> int:
    """The bytes of scratch that a task needs."""
    return sum(-(-b.size * b.dtype.itemsize // ALIGNMENT) * ALIGNMENT for b in kernel.scratch)


def function_of(kernel: Kernel, name: str) -> str:
    """The C function of a kernel: name(task, arguments, scratch)."""
    return "\n".join(_Writer(kernel).function(name))


class _Writer:
    """The lines of one function. Names are numbered: `t3` is a variable, register or value."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.lines, self.depth = kernel, list[str](), 1
        self.count = 0
        self.buffers: dict[KernelBuffer, str] = {}
        self.variables: dict[Var, str] = {kernel.task: "task"}
        self.registers: dict[Register, str] = {}

    def function(self, name: str) -> list[str]:
        for i, b in enumerate(self.kernel.arguments):
            self._declare(b, f"arguments[{i}]")
        offset = 0
        for b in self.kernel.scratch:
            self._declare(b, f"(scratch + {offset})")
            offset += -(-b.size * b.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        self.block(self.kernel.body)
        head = f"static void {name}(int64_t task, char **arguments, char *scratch) {{"
        return [head, *self.lines, "}"]

    def _declare(self, b: KernelBuffer, address: str) -> None:
        kind, self.buffers[b] = memory_type(b.dtype), self.fresh("b")
        self.line(f"{kind} *{self.buffers[b]} = ({kind} *){address};")

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # ---- statements
    def block(self, body: Iterable[Stmt]) -> None:
        """Writes statements in order; the registers that they declare end with the block."""
        before = dict(self.registers)
        for s in body:
            if isinstance(s, Assign) and s.register not in self.registers:
                name = self.registers[s.register] = self.fresh("r")
                self.line(f"{register_type(s.register.dtype)} {name};")
            self.inside("", lambda s=s: self.statement(s))  # type: ignore[misc]
        self.registers = before

    def inside(self, head: str, write: Callable[[], Any]) -> None:
        """Writes a block in braces."""
        self.line(f"{head}{{")
        self.depth += 1
        write()
        self.depth -= 1
        self.line("}")

    def statement(self, s: Stmt) -> None:
        write = _STATEMENTS.get(type(s))
        if write is not None:  # a Prefetch is a hint
            write(self, s)

    def _for(self, s: For) -> None:
        start, stop = self.values(s.start, s.stop)
        name = self.variables[s.var] = self.fresh("i")
        self.inside(f"for (int64_t {name} = {start}; {name} < {stop}; ++{name}) ",
                    lambda: self.block(s.body))

    def _if(self, s: If) -> None:
        condition, = self.values(s.condition)
        self.inside(f"if ({convert(condition, s.condition.dtype, BOOL)}) ",
                    lambda: self.block(s.body))

    def _assign(self, s: Assign) -> None:
        value, = self.values(s.value)
        self.line(f"{self.registers[s.register]} = "
                  f"{convert(value, s.value.dtype, s.register.dtype)};")

    def _update(self, s: Update) -> None:
        (value,), name, dtype = self.values(s.value), self.registers[s.register], s.register.dtype
        operands = [name, convert(value, s.value.dtype, dtype)]
        self.line(f"{name} = {apply(s.op, operands, [dtype, dtype], dtype)};")

    def _store(self, s: Store) -> None:
        index, value = self.values(s.index, s.value)
        value = convert(value, s.value.dtype, s.buffer.dtype)
        if is_small(s.buffer.dtype):
            value = f"store_{small(s.buffer.dtype)}({value})"
        self.line(f"{self.buffers[s.buffer]}[{index}] = {value};")

    def _transpose(self, s: Transpose) -> None:
        to, source = self.values(s.index, s.source_index)
        self.line(f"for (int64_t r = 0; r < {s.rows}; ++r) for (int64_t c = 0; c < {s.size}; ++c)")
        self.line(f"    {self.buffers[s.buffer]}[{to} + c * {s.pitch} + r] = "
                  f"{self.buffers[s.source]}[{source} + r * {s.source_pitch} + c];")

    # ---- values
    def values(self, *roots: Expr) -> list[str]:
        """The texts of values, after lines that compute their parts, each once."""
        names: dict[Expr, str] = {}
        for root in roots:
            for e in evaluation_order(root, names.__contains__):
                names[e] = self._value(e, names)
        return [self._text(root, names) for root in roots]

    def _text(self, e: Expr, names: dict[Expr, str]) -> str:
        return literal(e.value, e.dtype) if isinstance(e, Const) else names[e]

    def _value(self, e: Expr, names: dict[Expr, str]) -> str:
        if isinstance(e, Var):
            return self.variables[e]
        if isinstance(e, Read):
            return self.registers[e.register]
        text = self._load(e, names) if isinstance(e, Load) else self._call(e, names)
        name = self.fresh("t")
        self.line(f"const {register_type(e.dtype)} {name} = {text};")
        return name

    def _load(self, e: Load, names: dict[Expr, str]) -> str:
        text = f"{self.buffers[e.buffer]}[{self._text(e.index, names)}]"
        if is_small(e.buffer.dtype):
            text = f"load_{small(e.buffer.dtype)}({text})"
        if e.mask is None:
            return text
        assert e.other is not None
        other = convert(self._text(e.other, names), e.other.dtype, e.dtype)
        return f"{self._text(e.mask, names)} ? {text} : {other}"

    def _call(self, e: Expr, names: dict[Expr, str]) -> str:
        assert isinstance(e, Call), e
        if e.op not in SCALAR and e.op not in ("cast", "where"):
            raise CodegenError(f"the C back end has no {e.op}")
        return apply(e.op, [self._text(x, names) for x in e.args], [x.dtype for x in e.args],
                     e.dtype)


_STATEMENTS: dict[type, Callable[[_Writer, Any], None]] = {
    For: _Writer._for, If: _Writer._if, Assign: _Writer._assign, Update: _Writer._update,
    Store: _Writer._store, Transpose: _Writer._transpose}
