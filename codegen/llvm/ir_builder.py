"""Writes LLVM IR as text: values, nested scopes of code, and instructions that are hoisted as they
are written.

Every value has a *depth*: that of the innermost open scope (loop, branch) that its operands belong
to. An instruction is written at the depth of its operands, in front of all scopes that it does not
depend on, and the same instruction with the same operands is written once. So loop invariants are
hoisted and common sub-expressions merged while the text is written.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..runtime.target import Target

_MAX_REDUCED_BITS = 64  # LLVM 22.1 aborts on constant vectors of more
FLOATS = ("float", "double", "half")
BITS = {"float": 32, "double": 64, "half": 16, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}


class Value(NamedTuple):
    """An operand: its text, the LLVM type of one lane, the lanes (0: a scalar), its depth."""

    text: str
    type: str
    lanes: int = 0
    depth: int = 0

    @property
    def full(self) -> str:
        """The whole LLVM type."""
        return vector(self.type, self.lanes)

    @property
    def is_number(self) -> bool:
        """True for a constant integer that is no vector."""
        return not self.lanes and self.text.lstrip("-").isdecimal()

    @property
    def typed(self) -> str:
        """Type and text, as an argument is written."""
        return f"{vector(self.type, self.lanes)} {self.text}"


@functools.cache
def vector(kind: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements, of a scalar for 0."""
    return f"<{lanes} x {kind}>" if lanes else kind


def type_of(dtype: np.dtype[Any]) -> str:
    """The LLVM type that a value of this dtype has in registers, where small floats are wider."""
    return _TYPES[dtype.kind, dtype.itemsize]


_TYPES = {("b", 1): "i1", ("f", 4): "float", ("f", 8): "double"}
_TYPES.update({("f", 2): "float", ("V", 2): "float"})  # NumPy calls bfloat16 void
_TYPES.update({(kind, size): f"i{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)})


def literal(value: Any, kind: str) -> str:
    """A Python number as a constant of the given type."""
    if kind in FLOATS:
        if kind == "float":
            value = np.float32(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if kind == "i1":
        return "true" if value else "false"
    bits = BITS[kind]
    value = int(value) & ((1 << bits) - 1)
    return str(value - (1 << bits) if value >> (bits - 1) else value)


def constant(value: Any, kind: str, lanes: int = 0) -> Value:
    """A literal operand."""
    return Value(_constant_text(literal(value, kind), kind, lanes), kind, lanes)


def _constant_text(text: str, kind: str, lanes: int) -> str:
    return f"splat ({kind} {text})" if lanes else text


def listed(values: Any, kind: str) -> Value:
    """A vector constant of the given numbers."""
    items = ", ".join(f"{kind} {literal(v, kind)}" for v in values)
    return Value(f"<{items}>", kind, len(values))


@functools.cache
def lane_numbers(lanes: int, kind: str = "i32") -> Value:
    """The vector 0, 1, 2, ..."""
    return listed(range(lanes), kind)


class LlvmModule:
    """The state that the functions of one module share: declarations, helper functions, libm
    symbols."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.declarations: dict[str, None] = {}
        self.helpers: dict[str, str] = {}
        self.symbols: set[str] = set()

    def declare(self, result: str, name: str, types: Iterable[str]) -> None:
        """Declares a function that is defined elsewhere."""
        self.declarations[f"declare {result} @{name}({', '.join(types)})"] = None

    def text(self, functions: list[str]) -> str:
        """The whole module."""
        parts = [self.target.header, *functions, *self.helpers.values(), *self.declarations]
        return "\n".join([*parts, f"attributes #0 = {{ {self.target.attributes} }}", ""])


class CodeScope:
    """An open loop body, branch or block: its preheader, its text, and the values available in it.
    """

    _identities = itertools.count()

    def __init__(self, before: list[str], stored: frozenset[Any], pin: int) -> None:
        self.before = before
        self.stored = stored
        self.pin = pin  # loads and floats are not moved out of this enclosing scope
        self.known: dict[Any, Value] = {}
        self.identity = next(self._identities)


class LlvmBuilder:
    """Writes the instructions of one function."""

    def __init__(self, module: LlvmModule) -> None:
        self.module = module
        self.lines: list[str | list[str]] = []
        self.scopes = [CodeScope([], frozenset(), 0)]
        self.label = "entry"
        self._names = 0
        self._narrow: dict[tuple[str, str], Value] = {}  # what a widened integer was made of

    # Scopes

    @property
    def depth(self) -> int:
        """The depth of the innermost open scope."""
        return len(self.scopes) - 1

    def open(self, stored: frozenset[Any] = frozenset(), pinned: bool = False) -> None:
        """Opens a scope here; `pinned` when it may not run or runs under a mask."""
        before: list[str] = []
        self.lines.append(before)
        pin = len(self.scopes) if pinned else self.scopes[-1].pin
        self.scopes.append(CodeScope(before, stored, pin))

    def close(self) -> None:
        """Closes the innermost scope."""
        self.scopes.pop()

    def body(self) -> str:
        """All that was written, as text."""
        flat: list[str] = []
        for line in self.lines:
            if isinstance(line, str):
                flat.append(line)
            else:
                flat.extend(line)
        return "\n".join(flat)

    # Instructions

    def fresh(self) -> str:
        """A new name for a value."""
        self._names += 1
        return f"%_{self._names}"

    def block(self, name: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{name}:")
        self.label = name

    def raw(self, text: str) -> None:
        """Writes one instruction here."""
        self.lines.append("  " + text)

    def instruction(self, text: str, kind: str, lanes: int, depth: int, key: Any = None) -> Value:
        """The value of an instruction, written at its depth unless an equal one is available."""
        scope = self.scopes[depth]
        hit = scope.known.get(key or text)
        if hit is None:
            name = self.fresh()
            lines: list[Any] = self.lines if depth == self.depth else self.scopes[depth + 1].before
            lines.append(f"  {name} = {text}")
            hit = scope.known[key or text] = Value(name, kind, lanes, depth)
        return hit

    def emit(self, text: str, kind: str, lanes: int, depth: int) -> Value:
        """Like `instruction`, but a costly instruction is not hoisted out of a branch."""
        if kind in FLOATS:
            depth = max(depth, self.scopes[-1].pin)
        return self.instruction(text, kind, lanes, depth)

    def wide(self, x: Value, lanes: int) -> Value:
        """The same value in each lane."""
        if x.lanes == lanes:
            return x
        if x.text[0] != "%":
            return Value(_constant_text(x.text, x.type, lanes), x.type, lanes)
        full = vector(x.type, lanes)
        one = self.instruction(f"insertelement {full} poison, {x.typed}, i64 0", x.type, lanes,
                               x.depth)
        zeros = f"<{lanes} x i32> zeroinitializer"
        text = f"shufflevector {one.typed}, {full} poison, {zeros}"
        return self.instruction(text, x.type, lanes, x.depth)

    def match(self, *xs: Value | float) -> list[Value]:
        """Operands brought to the same number of lanes; Python numbers take the others' type."""
        lanes, kind = 0, ""
        for x in xs:
            if isinstance(x, Value):
                lanes, kind = max(lanes, x.lanes), kind or x.type
        return [
            self.wide(x, lanes) if isinstance(x, Value) else constant(x, kind, lanes) for x in xs
        ]

    def binary(self, op: str, a: Value | float, b: Value | float) -> Value:
        """An instruction of two operands of one type, such as "fadd"."""
        x, y = self.match(a, b)
        return self.emit(f"{op} {x.full} {x.text}, {y.text}", x.type, x.lanes, max(x[3], y[3]))

    def compare(self, predicate: str, a: Value | float, b: Value | float) -> Value:
        """fcmp or icmp, by the type of the operands."""
        x, y = self.match(a, b)
        if predicate in ("eq", "ne") and x.is_number and y.is_number:
            return constant((x.text == y.text) == (predicate == "eq"), "i1")
        op = "fcmp" if x.type in FLOATS else "icmp"
        text = f"{op} {predicate} {x.full} {x.text}, {y.text}"
        return self.emit(text, "i1", x.lanes, max(x.depth, y.depth))

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """a where the condition holds, else b; a scalar condition chooses whole vectors."""
        x, y = self.match(a, b)
        if condition.text in ("true", "false"):
            return x if condition.text == "true" else y
        if condition.lanes:
            x, y = self.wide(x, condition.lanes), self.wide(y, condition.lanes)
        depth = max(condition.depth, x.depth, y.depth)
        text = f"select {condition.typed}, {x.typed}, {y.typed}"
        return self.emit(text, x.type, x.lanes, depth)

    def cast(self, op: str, x: Value, kind: str) -> Value:
        """A conversion instruction such as "sext"; nothing when the type is the same."""
        if x.type == kind:
            return x
        return self.emit(f"{op} {x.typed} to {vector(kind, x.lanes)}", kind, x.lanes, x.depth)

    def integer(self, x: Value, kind: str, signed: bool = True) -> Value:
        """An integer widened or narrowed."""
        if x.is_number:
            number = int(x.text) if signed else int(x.text) & ((1 << BITS[x.type]) - 1)
            return constant(number, kind)
        if BITS[x.type] > BITS[kind]:
            return self._narrow.get((x.text, kind)) or self.cast("trunc", x, kind)
        wide = self.cast("sext" if signed else "zext", x, kind)
        self._narrow[wide.text, x.type] = x
        return wide

    def as_elements(self, x: Value, kind: str) -> Value:
        """The bits of a vector as elements of another type."""
        lanes = x.lanes * BITS[x.type] // BITS[kind]
        return self.emit(f"bitcast {x.typed} to {vector(kind, lanes)}", kind, lanes, x.depth)

    def intrinsic(self, name: str, *args: Value | float, flags: str = "") -> Value:
        """llvm.<name> of operands that all have the type of the result."""
        xs = self.match(*args)
        return self.call(f"llvm.{name}.{suffix(xs[0])}", xs, xs[0].type, xs[0].lanes, flags)

    def reduce_bits(self, op: str, mask: Value) -> Value:
        """`op` ("and" or "or") over all lanes of a vector of i1."""
        while mask.lanes > _MAX_REDUCED_BITS:
            half = mask.lanes // 2
            low, high = (self._half(mask, first) for first in (0, half))
            mask = self.binary(op, low, high)
        return self.call(f"llvm.vector.reduce.{op}.{suffix(mask)}", [mask], "i1", 0)

    def _half(self, x: Value, first: int) -> Value:
        """Half of the lanes of a vector, from lane `first` on."""
        half = x.lanes // 2
        numbers = ", ".join(f"i32 {first + lane}" for lane in range(half))
        return self.emit(f"shufflevector {x.typed}, {x.full} poison, <{half} x i32> <{numbers}>",
                         x.type, half, x.depth)

    def call(
        self, name: str, xs: list[Value], kind: str, lanes: int, flags: str = "", helper: str = ""
    ) -> Value:
        """A call of a function without side effects, declared on the way or defined by `helper`."""
        full = vector(kind, lanes)
        if helper:
            self.module.helpers[name] = helper
        elif name not in self.module.helpers:
            self.module.declare(full, name, (x.full for x in xs))
        args = ", ".join(x.typed for x in xs)
        depth = max((x.depth for x in xs), default=0)
        return self.emit(f"call {flags}{full} @{name}({args})", kind, lanes, depth)


def suffix(x: Value) -> str:
    """The ending that names a type in an intrinsic's name: v16f32."""
    one = _SUFFIX.get(x.type, x.type)
    return f"v{x.lanes}{one}" if x.lanes else one
