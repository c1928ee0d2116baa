"""Emits expressions of the loop IR as LLVM values: scalars, or vectors inside a lane loop."""

from __future__ import annotations

import functools

import numpy as np

from ...eager.arrays.dtypes import is_small
from ..ir.loop_ir import (
    INT,
    Call,
    Const,
    Expr,
    KernelBuffer,
    Load,
    Read,
    Register,
    Var,
    children,
    packed_element_loads,
)
from . import half, scalar
from .affine import LANE, Affine, bounds, total
from .index_values import COMPARE, IndexValues, Remembered, fits32, is_sum
from .ir_builder import LlvmModule, Value, constant, listed, suffix, type_of, vector

MAX_STRIDE_ELEMENTS = 4  # between lanes under a mask; with more, each lane is accessed by itself
_MIN_LANES_PER_STRIDE = 2  # with fewer lanes, a load for each lane is as fast as whole vectors
_LANE_MASKS, _ANY_MASK = 32, 64  # bytes of vectors: loads with a number per lane as mask, with bits
_MAX_RECURSION_DEPTH = 40  # deeper expressions are evaluated bottom-up, without recursion


class LlvmExpressions(IndexValues):
    """Emits expressions at the current point of the function."""

    def __init__(self, module: LlvmModule) -> None:
        super().__init__(module)
        self.registers: dict[Register, Value] = {}
        self.pointers: dict[KernelBuffer, Value] = {}
        self._memo: dict[Expr, Remembered] = {}

    # Values

    def value(self, e: Expr) -> Value:
        """The value of `e` here."""
        if isinstance(e, Const):
            return constant(e.value, type_of(e.dtype))
        if e not in self._facts:
            self.facts(e)
        hit: Value | None = self.recall(self._memo, e)
        if hit is not None:
            return hit
        if self._facts[e].depth > _MAX_RECURSION_DEPTH:
            self._from_leaves(e)
        value = self._make(e)
        return self.remember(self._memo, e, value, value.depth)  # type: ignore[no-any-return]

    def _from_leaves(self, e: Expr) -> None:
        """Evaluates the sub-expressions of `e` first, the shallow before the deep."""
        pending, stack = {e: None}, [e]  # in an order that is the same in every process
        while stack:
            top = stack.pop()
            below = (top.mask, top.other) if isinstance(top, Load) else children(top)
            new = [x for x in below if x is not None and x not in pending and not is_sum(x)]
            pending.update(dict.fromkeys(new))
            stack.extend(new)
        for x in sorted(pending, key=lambda x: self._facts[x].depth):
            if x is not e and not isinstance(x, Const) and self.recall(self._memo, x) is None:
                value = self._make(x)
                self.remember(self._memo, x, value, value.depth)

    def _make(self, e: Expr) -> Value:
        if isinstance(e, Read):
            return self.register(e.register)
        if isinstance(e, Load):
            return self.load(e)
        if isinstance(e, Var):
            return self.sum_value(self.affine(e))
        assert isinstance(e, Call), e
        if is_sum(e):
            return self.sum_value(self.affine(e))
        if e.op in COMPARE and all(x.dtype == INT for x in e.args):
            return self._compare_sums(e.op, *map(self.affine, e.args))
        if (word := self._packed_word(e)) is not None:
            return word
        args = [self.value(x) for x in e.args]
        return scalar.apply(self, e.op, args, [x.dtype for x in e.args], e.dtype)

    def register(self, r: Register) -> Value:
        """The present value of a register."""
        if r not in self.registers:
            raise ValueError(f"register {r.name} is read before it is assigned in this block")
        return self.registers[r]

    # Memory

    def pointer(self, buffer: KernelBuffer, a: Affine) -> Value:
        """The address of an element: one step for each depth that the index depends on."""
        base = self.pointers[buffer]
        depths: dict[int, dict[str, int]] = {}
        for name, coefficient in a.terms.items():
            depths.setdefault(self.atoms[name].value.depth, {})[name] = coefficient
        for depth in sorted(depths):
            base = self._step(base, buffer, self.uniform_sum(Affine(depths[depth])))
        if a.constant:
            base = self._step(base, buffer, constant(a.constant, "i64"))
        return base

    def _step(self, base: Value, buffer: KernelBuffer, offset: Value) -> Value:
        text = f"getelementptr inbounds {memory_type(buffer)}, {base.typed}, {offset.typed}"
        return self.instruction(text, "ptr", offset.lanes, max(base.depth, offset.depth))

    def addresses(self, buffer: KernelBuffer, a: Affine) -> Value:
        """The addresses of one element for each lane."""
        uniform, varying = self.parts(a)
        if varying:
            ends = bounds(Affine(varying), self.atoms)
            narrow = fits32(*ends)
            offset = self.varying_sum(varying, "i32" if narrow else "i64")
            offset = self.integer(offset, "i64")
        else:
            offset = self.wide(constant(0, "i64"), self.lanes())
        return self._step(self.pointer(buffer, uniform), buffer, offset)

    def mask(self) -> Value | None:
        """The mask of the lanes in which the current statement runs; None for all lanes."""
        if self.lane is None:
            return None
        return self.both(self.lane.tail, self.lane.guard)

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        """The intersection of two masks."""
        if a is None or b is None:
            return a or b
        return self.binary("and", a, b)

    def memory_depth(self, buffer: KernelBuffer, *values: Value) -> int:
        """The outermost depth for a load: after all stores to its buffer, and inside its branches.
        """
        depth = max(self.scopes[-1].pin, *(v.depth for v in values))
        for inner in range(self.depth, depth, -1):
            if buffer in self.scopes[inner].stored:
                return inner
        return depth

    def load(self, e: Load) -> Value:
        """The loaded element, or one per lane if its index or its mask differs between lanes."""
        index = self.affine(e.index)
        mask = None if e.mask is None else self._condition(e.mask)
        if mask is not None and mask.text in ("true", "false"):
            if mask.text == "false":
                return self.other(e)
            mask = None
        _, varying = self.parts(index)
        if not varying and (mask is None or not mask.lanes):
            return self._load_one(e, index, mask)
        if mask is not None:
            mask = self.wide(mask, self.lanes())
        mask = self.both(self.mask(), mask)
        if varying == {LANE: 1}:
            return self._load_row(e, index, mask)
        if varying == {LANE: -1} and self.module.target.x86:
            return self._load_reversed(e, index, mask)
        step = varying.get(LANE, 0) if len(varying) == 1 else 0
        if step > 1 and self._can_load_strided(e):
            unknown = mask is not None and mask.text.startswith("%")
            few = step * _MIN_LANES_PER_STRIDE <= self.lanes()
            if few and (mask is None or (unknown and self._masks_rows())):
                return self._load_interleaved(e, index, mask, step)
            if step <= MAX_STRIDE_ELEMENTS and not (unknown and self._vector_bytes < _ANY_MASK):
                return self._load_strided(e, index, mask, step)
        return self._gather(e, index, mask)

    def _condition(self, e: Expr) -> Value:
        """The mask of a load. Where masks have a number per lane, those that are the same for all
        lanes are joined with the others as numbers: joined as bits, LLVM widens each mask anew."""
        terms = [self.value(part) for part in _conjuncts(e)]
        same, varying = ([v for v in terms if bool(v.lanes) == lanes] for lanes in (False, True))
        if not same or not varying or not self._masks_rows():
            return self.value(e)
        row, column = functools.reduce(self._and, same), functools.reduce(self._and, varying)
        bits = self.binary("and", self.wide(self.integer(row, "i32"), column.lanes),
                           self.integer(column, "i32"))
        return self.compare("slt", bits, 0)

    def _and(self, a: Value, b: Value) -> Value:
        return self.binary("and", a, b)

    @property
    def _vector_bytes(self) -> int:
        return self.module.target.vector_bytes

    def _masks_rows(self) -> bool:
        """True if the processor loads whole vectors under masks that have a number per lane."""
        return self._vector_bytes == _LANE_MASKS

    def _can_load_strided(self, e: Load) -> bool:
        """True if a load of the whole span, of which some elements are used, is allowed and cheap.
        """
        size = e.buffer.dtype.itemsize
        usual = e.buffer.dtype.kind in "fi" and size in (4, 8)
        full_vector = self.lanes() * size in (32, 64) and self.lanes() * size <= self._vector_bytes
        return self.module.target.x86 and usual and full_vector and not self.other(e).lanes

    def _load_interleaved(self, e: Load, index: Affine, mask: Value | None, step: int) -> Value:
        """Loads elements `step` apart by `step` vectors, and picks the elements from one vector
        after the other. Without a mask, the last vector ends with the last element."""
        lanes = self.lanes()
        first, end = self.pointer(e.buffer, self.parts(index)[0]), (lanes - 1) * step + 1
        starts = [n * lanes if mask else min(n * lanes, end - lanes) for n in range(step)]
        lane_bits = None if mask is None else self.integer(mask, "i32", signed=True)
        picked: Value | None = None
        for start in starts:
            p = self._step(first, e.buffer, constant(start, "i64"))
            ours = {n: n * step - start for n in range(lanes) if start <= n * step < start + lanes}
            row_mask = None if lane_bits is None else self._row_mask(lane_bits, ours)
            picked = self._picked(picked, self._row_at(e, p, row_mask), ours)
        assert picked is not None
        return picked

    def _row_mask(self, lane_bits: Value, places: dict[int, int]) -> Value:
        """The mask of a row's elements: that of the lane at each place, else false."""
        lanes = lane_bits.lanes
        lane_at = {place: lane for lane, place in places.items()}
        numbers = listed([lane_at.get(n, lanes) for n in range(lanes)], "i32")
        text = f"shufflevector {lane_bits.typed}, {lane_bits.full} zeroinitializer, {numbers.typed}"
        spread = self.instruction(text, "i32", lanes, lane_bits.depth)
        return self.compare("slt", spread, 0)

    def _picked(self, before: Value | None, row: Value, places: dict[int, int]) -> Value:
        """The lanes picked before, with elements of a row in the lanes that `places` maps to
        them."""
        lanes = row.lanes
        if before is None:
            numbers = [places.get(n, 0) for n in range(lanes)]
            text = f"shufflevector {row.typed}, {row.full} poison, {listed(numbers, 'i32').typed}"
        else:
            numbers = [places[n] + lanes if n in places else n for n in range(lanes)]
            text = f"shufflevector {before.typed}, {row.typed}, {listed(numbers, 'i32').typed}"
        return self.instruction(text, row.type, lanes, row.depth)

    def _load_strided(self, e: Load, index: Affine, mask: Value | None, step: int) -> Value:
        """Loads elements `step` apart by one masked load of the whole span. The elements between
        them, and those behind the end of the buffer, are masked off."""
        lanes, p = self.lanes(), self.pointer(e.buffer, self.parts(index)[0])
        kind, size = memory_type(e.buffer), e.buffer.dtype.itemsize
        # LLVM takes masks of other lengths apart, bit by bit
        wide = lanes << (step - 1).bit_length()
        full = vector(kind, wide)
        spread_mask = self._spread_mask(mask or constant(True, "i1", lanes), step, wide)
        other = self.wide(self.other(e), wide)
        name = f"llvm.masked.load.{suffix(other)}.p0"
        self.module.declare(full, name, ["ptr", "i32", spread_mask.full, full])
        text = f"call {full} @{name}({p.typed}, i32 {size}, {spread_mask.typed}, {other.typed})"
        elements = self._fetch(e.buffer, text, wide, p, spread_mask, other)
        numbers = ", ".join(f"i32 {n * step}" for n in range(lanes))
        text = f"shufflevector {elements.typed}, {full} poison, <{lanes} x i32> <{numbers}>"
        return self.instruction(text, kind, lanes, elements.depth)

    def _spread_mask(self, mask: Value, step: int, wide: int) -> Value:
        """The mask with `step` - 1 off lanes inserted behind each lane, `wide` lanes long."""
        numbers = [n // step if n % step == 0 and n < mask.lanes * step else mask.lanes
                   for n in range(wide)]
        indices = ", ".join(f"i32 {n}" for n in numbers)
        text = f"shufflevector {mask.typed}, {mask.full} zeroinitializer, " \
            f"<{len(numbers)} x i32> <{indices}>"
        return self.instruction(text, "i1", len(numbers), mask.depth)

    def other(self, e: Load) -> Value:
        """The value of a load where its mask is false."""
        return constant(0, type_of(e.dtype)) if e.other is None else self.value(e.other)

    def _fetch(self, buffer: KernelBuffer, text: str, lanes: int, *values: Value) -> Value:
        depth = self.memory_depth(buffer, *values)
        key = (text, self._changed.get(buffer, 0))
        value = self.instruction(text, memory_type(buffer), lanes, depth, key)
        return self._from_memory(value, buffer)

    def _from_memory(self, value: Value, buffer: KernelBuffer) -> Value:
        """Converts an element from its memory format to its register format."""
        if is_small(buffer.dtype):
            return half.from_memory(self, value, buffer.dtype)
        return self.compare("ne", value, 0) if buffer.dtype.kind == "b" else value

    def to_memory(self, value: Value, buffer: KernelBuffer) -> Value:
        """Converts a value from its register format to the buffer's memory format."""
        if is_small(buffer.dtype):
            return half.to_memory(self, value, buffer.dtype)
        return self.integer(value, "i8", signed=False) if buffer.dtype.kind == "b" else value

    def _load_one(self, e: Load, index: Affine, mask: Value | None) -> Value:
        """A scalar load; where it is masked off, it reads the spare word instead."""
        p = self.pointer(e.buffer, index)
        safe = p
        for condition in (mask, self._any_guarded()):
            if condition is not None:
                safe = self.select(condition, safe, self.pointers[SPARE])
        memory = memory_type(e.buffer)
        text = f"load {memory}, {safe.typed}, align {e.buffer.dtype.itemsize}"
        value = self._fetch(e.buffer, text, 0, safe)
        return value if mask is None else self.select(mask, value, self.other(e))

    def _any_guarded(self) -> Value | None:
        """True if any lane is active under the enclosing `If`s; None outside of them."""
        if self.lane is None or self.lane.guard is None:
            return None
        return self.any(self.both(self.lane.tail, self.lane.guard))

    def any(self, mask: Value | None) -> Value:
        """True if any lane of a mask is set."""
        assert mask is not None
        if not mask.lanes:
            return mask
        return self.reduce_bits("or", mask)

    def _packed_word(self, e: Call) -> Value | None:
        """Loads neighbours in memory as one packed word, or one per lane; None if they are not
        neighbours or the load is masked."""
        loads = packed_element_loads(e)
        if loads is None or self.mask():
            return None
        count_per_word, first = len(loads), loads[0]
        index = self.affine(first.index)
        uniform, varying = self.parts(index)
        if varying not in ({}, {LANE: count_per_word}) or any(
                total(self.affine(x.index), index, -1) != Affine({}, n)
                for n, x in enumerate(loads) if n):
            return None
        buffer, lanes = first.buffer, self.lanes() if varying else 0
        p = self.pointer(buffer, uniform)
        depth, changed = self.memory_depth(buffer, p), self._changed.get(buffer, 0)
        kind, size = memory_type(buffer), buffer.dtype.itemsize
        count = count_per_word * max(1, lanes)
        text = f"load {vector(kind, count)}, {p.typed}, align {size}"
        both = self.instruction(text, kind, count, depth, (text, changed))
        if kind == "i8" and count_per_word == 2:
            how = "sext" if buffer.dtype.kind == "i" else "zext"
            both = self.instruction(f"{how} {both.typed} to <{count} x i16>", "i16", count, depth)
        return self.instruction(f"bitcast {both.typed} to {vector('i32', lanes)}", "i32", lanes,
                                depth)

    def _load_row(self, e: Load, index: Affine, mask: Value | None) -> Value:
        return self._row_at(e, self.pointer(e.buffer, self.parts(index)[0]), mask)

    def _row_at(self, e: Load, p: Value, mask: Value | None) -> Value:
        """The elements at an address and behind it, one per lane."""
        lanes = self.lanes()
        kind, size = memory_type(e.buffer), e.buffer.dtype.itemsize
        full = vector(kind, lanes)
        if mask is None:
            return self._fetch(e.buffer, f"load {full}, {p.typed}, align {size}", lanes, p)
        other = self._passed(e)
        name = f"llvm.masked.load.{suffix(other)}.p0"
        self.module.declare(full, name, ["ptr", "i32", mask.full, full])
        text = f"call {full} @{name}({p.typed}, i32 {size}, {mask.typed}, {other.typed})"
        return self._fetch(e.buffer, text, lanes, p, mask, other)

    def _load_reversed(self, e: Load, index: Affine, mask: Value | None) -> Value:
        """Loads the elements that end with the first lane's as one row, and reverses them."""
        lanes = self.lanes()
        ahead = total(index, Affine({LANE: 2}, 1 - lanes))
        row = self._load_row(e, ahead, None if mask is None else self._reversed(mask))
        return self._reversed(row)

    def _reversed(self, value: Value) -> Value:
        """The lanes of a vector in reverse order; a scalar is the same in all lanes."""
        if not value.lanes:
            return value
        numbers = listed([*range(value.lanes)][::-1], "i32")
        text = f"shufflevector {value.typed}, {value.full} poison, {numbers.typed}"
        return self.instruction(text, value.type, value.lanes, value.depth)

    def _passed(self, e: Load) -> Value:
        """The `other` of a masked load in the buffer's memory format, in each lane."""
        return self.wide(self.to_memory(self.other(e), e.buffer), self.lanes())

    def _gather(self, e: Load, index: Affine, mask: Value | None) -> Value:
        lanes, other = self.lanes(), self._passed(e)
        if mask is None or not mask.text.startswith("%") or not e.buffer.size:
            mask = mask or constant(True, "i1", lanes)
            return self._gather_from(e, self.addresses(e.buffer, index), mask, other)
        # Where processors have no good gather LLVM branches per lane on an unknown mask: read the
        # first element of the buffer there instead, and choose afterwards.
        number = self.sum_value(index, "i32" if fits32(*bounds(index, self.atoms)) else "i64")
        safe = self.integer(self.select(mask, self.wide(number, lanes), 0), "i64")
        p = self._step(self.pointers[e.buffer], e.buffer, safe)
        gathered = self._gather_from(e, p, constant(True, "i1", lanes), other)
        return self.select(mask, gathered, self.other(e))

    def _gather_from(self, e: Load, p: Value, mask: Value, other: Value) -> Value:
        lanes, kind, size = self.lanes(), memory_type(e.buffer), e.buffer.dtype.itemsize
        full = vector(kind, lanes)
        name = f"llvm.masked.gather.{suffix(other)}.v{lanes}p0"
        self.module.declare(full, name, [p.full, "i32", mask.full, full])
        text = f"call {full} @{name}({p.typed}, i32 {size}, {mask.typed}, {other.typed})"
        return self._fetch(e.buffer, text, lanes, p, mask, other)


def _conjuncts(e: Expr) -> list[Expr]:
    """The conditions of which `e` is the conjunction."""
    if isinstance(e, Call) and e.op == "and":
        return [part for operand in children(e) for part in _conjuncts(operand)]
    return [e]


def memory_type(buffer: KernelBuffer) -> str:
    """The LLVM type of an element in memory: i8 for a bool, i16 for a small float."""
    if is_small(buffer.dtype):
        return "i16"
    kind = type_of(buffer.dtype)
    return "i8" if kind == "i1" else kind


SPARE = KernelBuffer("spare", np.dtype("int64"), 1,
                     scratch=True)  # read in place of what must not be
