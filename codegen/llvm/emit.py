"""Emits statements of the loop IR as LLVM IR: one function per kernel, `task(buffers, task
number)`.

Registers are SSA values. The emitter creates the phis itself, since no LLVM pass runs. A lane loop
runs as vectors of exactly `lanes` elements: whole vectors first, `unroll` at a time, then one
masked vector for the remainder.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..ir.loop_ir import (
    Assign,
    Call,
    For,
    If,
    Kernel,
    KernelBuffer,
    Prefetch,
    Register,
    Stmt,
    Store,
    TileDot,
    TileShape,
    Transpose,
    Update,
    walk,
)
from . import dot_products, masked_stores, scalar
from .affine import LANE, Affine, Atom, multiple, total
from .control_flow import LlvmControlFlow, LoopBody, stored
from .expressions import MAX_STRIDE_ELEMENTS, SPARE, memory_type
from .index_values import Lane
from .ir_builder import LlvmModule, Value, constant, lane_numbers, listed
from .transpose import transpose_function

_BOOL = np.dtype(bool)
_DOTS = {"dot2": dot_products.plus_dot, "dot16": dot_products.plus_dot16,
         "dot8": dot_products.plus_dot8}
_CACHE_LINE_BYTES = 64
_MASKED_BYTES = 64  # of vectors with fast masked stores, those of AVX-512
_MIN_STREAMED_BYTES = 32  # of a vector, for a non-temporal store
_NEAR_BYTES = 1 << 14  # prefetches less far ahead go to the innermost cache; half its size
_SPARE_LINE = "@fw.spare = internal constant [2 x i64] zeroinitializer, align 16"


def task_function(kernel: Kernel, name: str, module: LlvmModule) -> str:
    """The text of the function that runs one task of `kernel`."""
    return LlvmEmitter(module).function(kernel, name)


class LlvmEmitter(LlvmControlFlow):
    """Writes statements at the current point of the function."""

    def function(self, kernel: Kernel, name: str) -> str:
        """The whole function."""
        self.module.declarations[_SPARE_LINE] = None
        self._streamed = kernel.streamed
        self.pointers[SPARE] = Value("@fw.spare", "ptr")
        for number, buffer in enumerate(kernel.arguments):
            self.raw(f"%p{number} = getelementptr ptr, ptr %buffers, i64 {number}")
            self.raw(f"%a{number} = load ptr, ptr %p{number}")
            self.pointers[buffer] = Value(f"%a{number}", "ptr")
        for number, buffer in enumerate(kernel.scratch):
            size = max(buffer.size * buffer.dtype.itemsize, 1)
            self.raw(f"%s{number} = alloca [{size} x i8], align 64")
            self.pointers[buffer] = Value(f"%s{number}", "ptr")
        task = self.atom(Value("%task", "i64"), 0, kernel.tasks - 1)
        self.bind(kernel.task, task if kernel.tasks > 1 else Affine({}))
        self.statements(kernel.body)
        if self._streamed:  # such stores are not in order with those that say that a task is done
            self.module.declare("void", "llvm.x86.sse.sfence", ())
            self.raw("call void @llvm.x86.sse.sfence()")
        if any(isinstance(s, TileShape) for s in walk(kernel.body)):
            dot_products.release_tiles(self)
        head = f"define internal void @{name}(ptr %buffers, i64 %task) #0 {{"
        return f"{head}\nentry:\n{self.body()}\n  ret void\n}}\n"

    def statements(self, body: Iterable[Stmt]) -> None:
        """Writes statements one after the other."""
        for s in body:
            if isinstance(s, Assign):
                self._assign(s)
            elif isinstance(s, Update):
                self._update(s)
            elif isinstance(s, Store):
                self._store(s)
            elif isinstance(s, Transpose):
                self._transpose(s)
            elif isinstance(s, Prefetch):
                self._prefetch(s)
            elif isinstance(s, TileShape):
                dot_products.set_tile_shape(self, s)
            elif isinstance(s, TileDot):
                dot_products.multiply_tiles(self, s)
            elif isinstance(s, If):
                self._if(s)
            else:
                assert isinstance(s, For), s
                (self._lane_loop if s.lanes else self._serial_loop)(s)

    # Registers

    def _assign(self, s: Assign) -> None:
        value = scalar.convert(self, self.value(s.value), s.value.dtype, s.register.dtype)
        self.set(s.register, self._merged(s.register, value))

    def _merged(self, r: Register, value: Value) -> Value:
        """The new value of a register in the lanes under the guard, the old one in the others."""
        if self.lane is None or self.lane.guard is None or r not in self.registers:
            return value
        return self.select(self.lane.guard, value, self.registers[r])

    def _update(self, s: Update) -> None:
        r, lane = s.register, self.lane
        new = self._combined(s, self.register(r))
        if lane is None or r not in lane.outer:
            self.set(r, self._merged(r, new))
            return
        mask = self.mask()
        self.set(r, new if mask is None else self.select(mask, new, self.registers[r]))

    def _combined(self, s: Update, old: Value) -> Value:
        """The reduction of a register and a value; a product is added in one instruction."""
        e, dtype = s.value, s.register.dtype
        if s.op == "add" and dtype.kind == "f" and isinstance(e, Call) and e.op == "mul":
            if all(x.dtype == dtype for x in (e, *e.args)):
                x, y = (self.value(a) for a in e.args)
                return self.intrinsic("fmuladd", x, y, old)
        if s.op == "add" and isinstance(e, Call) and e.dtype == dtype and e.op in _DOTS:
            return _DOTS[e.op](self, old, *(self.value(a) for a in e.args))
        value = scalar.convert(self, self.value(e), e.dtype, dtype)
        return scalar.apply(self, s.op, [old, value], [dtype, dtype], dtype)

    # Stores

    def _store(self, s: Store) -> None:
        buffer, size = s.buffer, s.buffer.dtype.itemsize
        value = scalar.convert(self, self.value(s.value), s.value.dtype, buffer.dtype)
        value = self.to_memory(value, buffer)
        index = self.affine(s.index)
        if self.lane is None:
            self.raw(f"store {value.typed}, {self.pointer(buffer, index).typed}, align {size}")
        else:
            uniform, varying = self.parts(index)
            value = self.wide(value, self.lane.lanes)
            if self._is_nontemporal(buffer, uniform, varying):
                address = self.pointer(buffer, uniform).typed
                self.raw(f"store {value.typed}, {address}, align {self._best_alignment(size)}, "
                         "!nontemporal !{i32 1}")
            elif varying == {LANE: 1}:
                self._store_row(value, self.pointer(buffer, uniform), size)
            elif self._can_store_strided(value, varying, size):
                p = self.pointer(buffer, uniform)
                masked_stores.strided(self, value, p, size, varying[LANE])
            else:
                mask = self.mask() or constant(True, "i1", value.lanes)
                at = self.addresses(buffer, index)
                masked_stores.by_intrinsic(self, "scatter", value, at, size, mask)
        self.changed(buffer)

    def _can_store_strided(self, value: Value, varying: dict[str, int], size: int) -> bool:
        """True if all lanes are stored a small constant distance apart, by a processor whose masked
        stores are as fast as others."""
        return varying.keys() == {LANE} and 1 < varying[LANE] <= MAX_STRIDE_ELEMENTS \
            and self.mask() is None and size in (4, 8) and value.lanes * size >= _MASKED_BYTES \
            and self.module.target.x86 and self.module.target.vector_bytes >= _MASKED_BYTES

    def _is_nontemporal(self, buffer: KernelBuffer, uniform: Affine,
                        varying: dict[str, int]) -> bool:
        """True if a vector store bypasses the caches: it must be unmasked and aligned."""
        if buffer not in self._streamed or varying != {LANE: 1} or self.mask() is not None:
            return False
        size = buffer.dtype.itemsize
        alignment, first = self._best_alignment(size), multiple(uniform, self.atoms) * size
        return alignment >= _MIN_STREAMED_BYTES and first % alignment == 0

    def _best_alignment(self, size: int) -> int:
        """The alignment in bytes that a vector of elements of this size can have at best."""
        return min(self.lanes() * size, _CACHE_LINE_BYTES)

    def _store_row(self, value: Value, p: Value, size: int) -> None:
        mask = self.mask()
        if mask is None:
            self.raw(f"store {value.typed}, {p.typed}, align {size}")
            return
        assert self.lane is not None
        if self.lane.guard is not None:
            mask = masked_stores.unknown(self, mask, size)
        masked_stores.store(self, value, p, size, mask)

    # Hints

    def _prefetch(self, s: Prefetch) -> None:
        """Prefetches every cache line of a vector of contiguous elements; ignores other vectors."""
        if self.mask() is not None:
            return
        uniform, varying = self.parts(self.affine(s.index))
        if self.lane is None or varying != {LANE: 1}:
            return
        if s.writes and self._is_nontemporal(s.buffer, uniform, varying):
            return
        self.module.declare("void", "llvm.prefetch.p0", ("ptr", "i32", "i32", "i32"))
        row, size = self.pointer(s.buffer, uniform), s.buffer.dtype.itemsize
        cache = 3 if s.ahead * size <= _NEAR_BYTES else 2  # 3 is the innermost
        for line in range(0, self.lane.lanes * size, _CACHE_LINE_BYTES):
            text = f"getelementptr i8, {row.typed}, i64 {s.ahead * size + line}"
            p = self.instruction(text, "ptr", 0, row.depth)
            numbers = f"i32 {s.writes:d}, i32 {cache}, i32 1"
            self.raw(f"call void @llvm.prefetch.p0({p.typed}, {numbers})")

    # Transposed square blocks

    def _transpose(self, s: Transpose) -> None:
        if self.lane is not None:
            raise ValueError("a block cannot be transposed inside a lane loop")
        size = s.buffer.dtype.itemsize
        name = transpose_function(self.module, memory_type(s.buffer), s.size, s.rows, size)
        source = self.pointer(s.source, self.affine(s.source_index))
        target = self.pointer(s.buffer, self.affine(s.index))
        self.raw(f"call void @{name}({source.typed}, i64 {s.source_pitch * size}, "
                 f"{target.typed}, i64 {s.pitch * size}, i64 {s.rows})")
        self.changed(s.buffer)

    # Branches

    def _if(self, s: If) -> None:
        condition = scalar.convert(self, self.value(s.condition), s.condition.dtype, _BOOL)
        if condition.text == "false":
            return
        if condition.text == "true":
            self._inline(s.body)
        elif condition.lanes:
            self._predicated(s, condition)
        else:
            carried = self.carried(s.body)

            def body() -> list[Value]:
                self.statements(s.body)
                return self.get_all(carried)

            ends = self.branch(condition, self.get_all(carried), stored(s.body), body)
            self.set_all(carried, ends)

    def _inline(self, body: tuple[Stmt, ...]) -> None:
        self.enter(stored(body))
        self.statements(body)
        self.leave()

    def _predicated(self, s: If, condition: Value) -> None:
        """Runs a body in the lanes where the condition holds."""
        assert self.lane is not None
        before = self.lane.guard
        self.enter(stored(s.body), pinned=True)
        self.lane.guard = self.both(before, condition)
        self.statements(s.body)
        self.lane.guard = before
        self.leave()

    # Loops

    def _bounds_of(self, s: For) -> tuple[Affine, Affine]:
        start, stop = self.affine(s.start), self.affine(s.stop)
        if self.varies(start) or self.varies(stop):
            raise ValueError(f"the bounds of the loop over {s.var.name} differ between lanes")
        return start, stop

    def _iteration(self, s: For, index: Affine) -> None:
        """Writes one iteration of a loop's body."""
        self.enter(stored(s.body))
        self.bind(s.var, index)
        self.statements(s.body)
        self.leave()

    def _serial_loop(self, s: For) -> None:
        start, stop = self._bounds_of(s)
        carried, stores = self.carried(s.body), stored(s.body)

        def run(low: Affine, high: Affine, copies: int) -> None:
            def iterations(index: Affine, values: list[Value]) -> list[Value]:
                self.set_all(carried, values)
                for copy in range(copies):
                    self._iteration(s, total(index, Affine({}, copy)))
                return self.get_all(carried)

            values = self.get_all(carried)
            self.set_all(carried, self.counted_loop(low, high, copies, values, stores, iterations))

        middle = self.round_down(start, stop, s.unroll)
        run(start, middle, s.unroll)
        if s.unroll > 1:
            run(middle, stop, 1)

    def _lane_loop(self, s: For) -> None:
        if self.lane is not None:
            raise ValueError(f"the lane loop over {s.var.name} stands inside another lane loop")
        start, stop = self._bounds_of(s)
        reduced = _reductions(s, self.carried(s.body))
        before = self.get_all(list(reduced))
        neutral = [scalar.identity(op, r.dtype) for r, op in reduced.items()]
        self.lane = Lane(s.lanes, frozenset(reduced), None)
        self.atoms[LANE] = Atom(Value(LANE, "i64", s.lanes), 0, s.lanes - 1)
        ends = self._lanes(s, start, stop, [self.wide(v, s.lanes) for v in neutral], reduced)
        self.lane = None
        for (r, op), old, v in zip(reduced.items(), before, ends, strict=True):
            one = scalar.across(self, op, r.dtype, v)
            self.set(r, scalar.apply(self, op, [old, one], [r.dtype, r.dtype], r.dtype))

    def _lanes(
        self, s: For, start: Affine, stop: Affine, values: list[Value], reduced: dict[Register, str]
    ) -> list[Value]:
        """Writes all iterations of a lane loop; returns the reduced registers, one value per lane.
        """
        trips, stores = total(stop, start, -1), stored(s.body)
        unroll = s.unroll if trips.terms or trips.constant >= s.unroll * s.lanes else 1
        if unroll > 1:
            middle = self.round_down(start, stop, unroll * s.lanes)
            body = self._vectors(s, unroll, list(reduced))
            parts = self.counted_loop(start, middle, unroll * s.lanes, values * unroll, stores,
                                      body)
            values, start = self._combined_copies(parts, unroll, reduced), middle
        whole = self.round_down(start, stop, s.lanes)
        body = self._vectors(s, 1, list(reduced))
        values = self.counted_loop(start, whole, s.lanes, values, stores, body)
        return self._remainder(s, whole, stop, values, list(reduced))

    def _vectors(self, s: For, copies: int, reduced: list[Register]) -> LoopBody:
        """Returns the body of a loop over `copies` vectors, each with its own reduced registers."""
        count = len(reduced)

        def iterations(index: Affine, values: list[Value]) -> list[Value]:
            ends = []
            for copy in range(copies):
                self.set_all(reduced, values[copy * count : (copy + 1) * count])
                self._iteration(s, total(index, Affine({LANE: 1}, copy * s.lanes)))
                ends += self.get_all(reduced)
            return ends

        return iterations

    def _combined_copies(self, parts: list[Value], copies: int,
                         reduced: dict[Register, str]) -> list[Value]:
        """The reduced registers of several copies, combined as a tree."""
        count = len(reduced)
        rows = [parts[c * count : (c + 1) * count] for c in range(copies)]
        while len(rows) > 1:
            pairs = zip(rows[::2], rows[1::2], strict=False)
            odd = rows[-1:] if len(rows) % 2 else []
            rows = [self._pair(a, b, reduced) for a, b in pairs] + odd
        return rows[0]

    def _pair(self, a: list[Value], b: list[Value], reduced: dict[Register, str]) -> list[Value]:
        return [
            scalar.apply(self, op, [x, y], [r.dtype, r.dtype], r.dtype)
            for (r, op), x, y in zip(reduced.items(), a, b, strict=True)
        ]

    def _remainder(
        self, s: For, start: Affine, stop: Affine, values: list[Value], reduced: list[Register]
    ) -> list[Value]:
        """Writes the last iterations, which do not fill a vector, under a mask."""
        assert self.lane is not None
        lane, rest = self.lane, total(stop, start, -1)

        def body() -> list[Value]:
            self.set_all(reduced, values)
            lane.tail = self._first_lanes(rest)
            self._iteration(s, total(start, Affine({LANE: 1})))
            lane.tail = None
            return self.get_all(reduced)

        if not rest.terms:
            self.atoms[LANE] = self.atoms[LANE]._replace(high=rest.constant - 1)
            return body() if rest.constant > 0 else values
        some = self.compare("sgt", self.sum_value(rest), 0)
        return self.branch(some, values, stored(s.body), body)

    def _first_lanes(self, count: Affine) -> Value:
        """The mask of the first `count` lanes."""
        lanes = self.lanes()
        if not count.terms:
            return listed([n < count.constant for n in range(lanes)], "i1")
        opaque_count = masked_stores.opaque(self, self.integer(self.sum_value(count), "i32"))
        return self.compare("ult", lane_numbers(lanes), opaque_count)


def _reductions(s: For, registers: list[Register]) -> dict[Register, str]:
    """register -> operation, for the outer registers that a lane loop changes."""
    operations: dict[Register, str] = {}
    for x in walk(s.body):
        if isinstance(x, (Assign, Update)) and x.register in registers:
            op = x.op if isinstance(x, Update) else "Assign"
            if operations.setdefault(x.register, op) != op or op == "Assign":
                raise ValueError(
                    f"register {x.register.name} from outside is changed in the lane loop over "
                    f"{s.var.name}: there it can only be reduced, by Updates with one operation"
                )
    return operations
