"""Expressions of the loop IR as CUDA C."""

from __future__ import annotations

import numpy as np

from ...eager.arrays.dtypes import is_small
from ..gpu.index_narrowing import Ranges
from ..gpu.thread_mapping import ThreadMapping
from ..ir.loop_ir import (
    BOOL,
    INT,
    Buffer,
    Call,
    Const,
    Expr,
    Kernel,
    Load,
    Read,
    Register,
    Var,
    expressions,
    walk,
)
from ..ir.subexpressions import evaluation_order
from . import scalar
from .c_writer import CWriter, uses
from .types import DType, held, literal, small

_SHORT = 40  # characters of a value that is written where it is read, if that is one place
_WHOLE = {"add": "+", "sub": "-", "mul": "*", "idiv": "/", "imod": "%", "and": "&",
          "xor": "^", "shl": "<<", "shr": ">>"}


class CudaExpressions(CWriter):
    """Writes the values of expressions at the present point of a kernel."""

    def __init__(self, kernel: Kernel, team: ThreadMapping) -> None:
        super().__init__()
        self.kernel, self.team, self.ranges = kernel, team, Ranges()
        self.pointers: dict[Buffer, str] = {}
        self.registers: dict[Register, str] = {}
        self.variables: dict[Var, str] = {}
        self.pieces: dict[Load, str] = {}  # bits of what was read in one piece with others
        self._uses = uses(e for s in walk(kernel.body) for e in expressions(s))

    def value(self, e: Expr) -> str:
        """The text of a value: a name, a literal, or something that stands alone."""
        for x in evaluation_order(e, lambda x: self.name_of(x) is not None):
            self._write(x)
        return self._read(e)

    def whole_value(self, e: Expr) -> str:
        """The same, with whole numbers in the type that their dtype has."""
        text = self.value(e)
        return f"((long long){text})" if self._narrow(e) else text

    def _read(self, e: Expr) -> str:
        if isinstance(e, Const):
            return str(e.value) if self._narrow(e) else literal(e.value, e.dtype)
        if isinstance(e, Var):
            return self.variables[e]
        if isinstance(e, Read):
            return self.registers[e.register]
        found = self.name_of(e)
        assert found is not None, e
        return found

    def type_of(self, e: Expr) -> str:
        """The type that a value has here."""
        return "int" if self._narrow(e) else held(e.dtype)

    def _narrow(self, e: Expr) -> bool:
        return e.dtype == INT and not isinstance(e, (Read, Load)) and self.ranges.fits(e)

    def _write(self, e: Expr) -> None:
        if isinstance(e, (Var, Read)):
            return
        text = self._load(e) if isinstance(e, Load) else self._call(e)
        if self._uses.get(e, 2) > 1 or len(text) > _SHORT or isinstance(e, Load):
            name = self.fresh("v")
            self.line(f"const {self.type_of(e)} {name} = {text};")
            text = name
        self.know(e, text)

    def _call(self, e: Expr) -> str:
        assert isinstance(e, Call), e
        args = [self._read(x) for x in e.args]
        dtypes = [x.dtype for x in e.args]
        narrow = [self._narrow(x) for x in e.args]
        small = all(n for n, t in zip(narrow, dtypes) if t == INT)
        if self._narrow(e) and small:
            return self._of_ints(e, args)
        as_they_are = small and e.dtype != INT  # what compares them, or makes floats of them
        wide = [f"((long long){a})" if n and not as_they_are else a for a, n in zip(args, narrow)]
        text = scalar.apply(e.op, wide, dtypes, e.dtype)
        return f"((int){text})" if self._narrow(e) else text

    def _of_ints(self, e: Call, args: list[str]) -> str:
        """An index, all of which fits in 32 bits."""
        if e.op in _WHOLE:
            return f"({args[0]} {_WHOLE[e.op]} {args[1]})"
        if e.op == "neg":
            return f"(-{args[0]})"
        if e.op == "where":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        return f"{e.op[:3]}({args[0]}, {args[1]})"

    # ---- memory
    def element(self, buffer: Buffer, index: Expr) -> str:
        """The place in memory of an element."""
        return f"{self.pointers[buffer]}[{self.value(self.own_place(buffer, index))}]"

    def own_place(self, buffer: Buffer, index: Expr) -> Expr:
        """Where an element lies: in a thread's own scratch only the rest of its index counts."""
        raise NotImplementedError

    def _load(self, e: Load) -> str:
        text = from_memory(self.element(e.buffer, e.index), e.buffer)
        if e.mask is None:
            return text
        assert e.other is not None
        return f"({self._read(e.mask)} ? {text} : {self._read(e.other)})"


    def as_it_lies(self, e: Expr) -> str:
        """The bits of what `is_moved`."""
        if isinstance(e, Const):
            return f"{np.array(e.value, e.dtype).view(np.uint16)}"
        if isinstance(e, Load):
            return self.pieces.get(e) or self.element(e.buffer, e.index)
        assert isinstance(e, Call), e
        condition = scalar.convert(self.value(e.args[0]), e.args[0].dtype, BOOL)
        return f"({condition} ? {self.as_it_lies(e.args[1])} : {self.as_it_lies(e.args[2])})"


def is_moved(e: Expr, dtype: DType) -> bool:
    """Whether a value is a float of 16 bits from memory, a constant, or the one or the other."""
    if e.dtype != dtype or not is_small(dtype):
        return False
    if isinstance(e, Call):
        return e.op == "where" and all(is_moved(x, dtype) for x in e.args[1:])
    return isinstance(e, Const) or (isinstance(e, Load) and e.mask is None)


def from_memory(element: str, buffer: Buffer) -> str:
    """What an element in memory stands for."""
    dtype = buffer.dtype
    return f"fw_{small(dtype)}_to_f32({element})" if is_small(dtype) else element


def to_memory(value: str, buffer: Buffer) -> str:
    """The bits of a value that a register holds."""
    dtype = buffer.dtype
    return f"fw_f32_to_{small(dtype)}({value})" if is_small(dtype) else value
