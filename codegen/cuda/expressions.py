"""Writes expressions of the loop IR as CUDA C."""

from __future__ import annotations

import numpy as np

from ...eager.arrays.dtypes import is_small
from ..gpu.index_narrowing import Ranges
from ..gpu.thread_mapping import ThreadMapping
from ..ir.loop_ir import (
    BOOL,
    INT,
    Call,
    Const,
    Expr,
    Kernel,
    KernelBuffer,
    Load,
    Read,
    Register,
    Var,
    expressions,
    walk,
)
from ..ir.subexpressions import evaluation_order
from . import scalar
from .c_writer import CWriter, use_counts
from .types import DType, literal, register_type, small_float_name

MAX_INLINE_CHARACTERS = 40  # of a value with a single use
INT32_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "idiv": "/", "imod": "%", "and": "&",
                   "xor": "^", "shl": "<<", "shr": ">>"}


class CudaExpressions(CWriter):
    """Writes the values of expressions at the current point of a kernel."""

    def __init__(self, kernel: Kernel, mapping: ThreadMapping) -> None:
        super().__init__()
        self.kernel, self.mapping, self.ranges = kernel, mapping, Ranges()
        self.pointers: dict[KernelBuffer, str] = {}
        self.registers: dict[Register, str] = {}
        self.variables: dict[Var, str] = {}
        self.vector_elements: dict[Load, str] = {}  # elements that a vector access has loaded
        self._use_counts = use_counts(e for s in walk(kernel.body) for e in expressions(s))

    def value(self, e: Expr) -> str:
        """The text of a value: a name, a literal, or an expression in parentheses."""
        for x in evaluation_order(e, lambda x: self.name_in_scope(x) is not None):
            self._write(x)
        return self._text_of(e)

    def declared_value(self, e: Expr) -> str:
        """The text of a value in the type of its dtype: 32-bit indices are widened."""
        text = self.value(e)
        return f"((long long){text})" if self._is_int32(e) else text

    def _text_of(self, e: Expr) -> str:
        if isinstance(e, Const):
            return str(e.value) if self._is_int32(e) else literal(e.value, e.dtype)
        if isinstance(e, Var):
            return self.variables[e]
        if isinstance(e, Read):
            text = self.registers[e.register]
            return f"((int){text})" if self._is_int32(e) else text
        name = self.name_in_scope(e)
        assert name is not None, e
        return name

    def type_of(self, e: Expr) -> str:
        """The C type that a value has here."""
        return "int" if self._is_int32(e) else register_type(e.dtype)

    def _is_int32(self, e: Expr) -> bool:
        return e.dtype == INT and not isinstance(e, Load) and self.ranges.fits(e)

    def _write(self, e: Expr) -> None:
        if isinstance(e, (Var, Read)):
            return
        text = self._load(e) if isinstance(e, Load) else self._call(e)
        if self._use_counts.get(e, 2) > 1 or len(text) > MAX_INLINE_CHARACTERS or isinstance(e,
                                                                                             Load):
            name = self.fresh("v")
            self.line(f"const {self.type_of(e)} {name} = {text};")
            text = name
        self.remember(e, text)

    def _call(self, e: Expr) -> str:
        assert isinstance(e, Call), e
        args = [self._text_of(x) for x in e.args]
        dtypes = [x.dtype for x in e.args]
        is_int32 = [self._is_int32(x) for x in e.args]
        all_int32 = all(n for n, t in zip(is_int32, dtypes) if t == INT)
        if self._is_int32(e) and all_int32:
            return self._int32_operation(e, args)
        no_widening = all_int32 and e.dtype != INT  # comparisons and conversions to float
        operands = [f"((long long){a})" if n and not no_widening else a
                    for a, n in zip(args, is_int32)]
        text = scalar.apply(e.op, operands, dtypes, e.dtype)
        return f"((int){text})" if self._is_int32(e) else text

    def _int32_operation(self, e: Call, args: list[str]) -> str:
        """An index operation of which all operands and the result fit into 32 bits."""
        if e.op in INT32_OPERATORS:
            return f"({args[0]} {INT32_OPERATORS[e.op]} {args[1]})"
        if e.op == "neg":
            return f"(-{args[0]})"
        if e.op == "where":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        return f"{e.op[:3]}({args[0]}, {args[1]})"

    # ---- memory
    def element(self, buffer: KernelBuffer, index: Expr) -> str:
        """The C expression of an element in memory."""
        return f"{self.pointers[buffer]}[{self.value(self.local_index(buffer, index))}]"

    def local_index(self, buffer: KernelBuffer, index: Expr) -> Expr:
        """The index of an element in its buffer as this thread sees it: thread-local scratch drops
        the lane."""
        raise NotImplementedError

    def _load(self, e: Load) -> str:
        text = from_memory(self.element(e.buffer, e.index), e.buffer)
        if e.mask is None:
            return text
        assert e.other is not None
        return f"({self._text_of(e.mask)} ? {text} : {self._text_of(e.other)})"

    def raw_bits(self, e: Expr) -> str:
        """The 16-bit pattern of an `is_raw_copy` value."""
        if isinstance(e, Const):
            return f"{np.array(e.value, e.dtype).view(np.uint16)}"
        if isinstance(e, Load):
            return self.vector_elements.get(e) or self.element(e.buffer, e.index)
        assert isinstance(e, Call), e
        condition = scalar.convert(self.value(e.args[0]), e.args[0].dtype, BOOL)
        return f"({condition} ? {self.raw_bits(e.args[1])} : {self.raw_bits(e.args[2])})"


def is_raw_copy(e: Expr, dtype: DType) -> bool:
    """True if a value is a 16-bit float from memory, a constant, or a choice between these: it can
    be copied without conversion."""
    if e.dtype != dtype or not is_small(dtype):
        return False
    if isinstance(e, Call):
        return e.op == "where" and all(is_raw_copy(x, dtype) for x in e.args[1:])
    return isinstance(e, Const) or (isinstance(e, Load) and e.mask is None)


def from_memory(element: str, buffer: KernelBuffer) -> str:
    """The value of an element in memory."""
    dtype = buffer.dtype
    return f"fw_{small_float_name(dtype)}_to_f32({element})" if is_small(dtype) else element


def to_memory(value: str, buffer: KernelBuffer) -> str:
    """The memory representation of a value in a register."""
    dtype = buffer.dtype
    return f"fw_f32_to_{small_float_name(dtype)}({value})" if is_small(dtype) else value
