"""Emits branches and loops as basic blocks, with a phi for every register that they change."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.loop_ir import (
    Assign,
    KernelBuffer,
    Mma,
    Register,
    Stmt,
    Store,
    TileDot,
    Transpose,
    Update,
    walk,
)
from .affine import Affine, bounds, multiple, total
from .expressions import LlvmExpressions
from .ir_builder import LlvmModule, Value

Stored = frozenset[KernelBuffer]
LoopBody = Callable[[Affine, list[Value]],
                    list[Value]]  # index, registers before -> registers after


def stored(body: tuple[Stmt, ...]) -> Stored:
    """The buffers that a body stores to."""
    return frozenset(s.sums if isinstance(s, Mma) else s.buffer for s in walk(body)
                     if isinstance(s, (Store, Transpose, Mma, TileDot)))


class LlvmControlFlow(LlvmExpressions):
    """Control flow over registers that are SSA values."""

    def __init__(self, module: LlvmModule) -> None:
        super().__init__(module)
        self._alive: list[set[Register]] = []
        self._numbers = 0

    # Registers

    def set(self, r: Register, value: Value) -> None:
        """Gives a register a new value."""
        self.registers[r] = value
        self.changed(r)

    def set_all(self, registers: list[Register], values: list[Value]) -> None:
        """Gives several registers new values."""
        for r, value in zip(registers, values, strict=True):
            self.set(r, value)

    def get_all(self, registers: list[Register]) -> list[Value]:
        """The values of several registers, as vectors inside a lane loop."""
        values = [self.registers[r] for r in registers]
        return values if self.lane is None else [self.wide(v, self.lane.lanes) for v in values]

    def carried(self, body: tuple[Stmt, ...]) -> list[Register]:
        """The registers from outside that a body changes."""
        changes = (s.register for s in walk(body) if isinstance(s, (Assign, Update)))
        return [r for r in dict.fromkeys(changes) if r in self.registers]

    # Scopes

    def enter(self, stores: Stored, pinned: bool = False) -> None:
        """Opens a scope; registers that are first assigned in it end with it."""
        self.open(stores, pinned)
        self._alive.append(set(self.registers))
        for buffer in stores:
            self.changed(buffer)

    def leave(self) -> None:
        """Closes the innermost scope; registers from outside keep their last values."""
        stores = self.scopes[-1].stored
        self.close()
        alive = self._alive.pop()
        self.registers = {r: self.to_outer_level(v) for r, v in self.registers.items()
                          if r in alive}
        for buffer in stores:
            self.changed(buffer)

    def to_outer_level(self, v: Value) -> Value:
        """A value of a scope just closed, which now belongs to the enclosing scope."""
        return v._replace(depth=self.depth) if v.depth > self.depth else v

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # Blocks

    def branch(
        self, condition: Value, start: list[Value], stores: Stored, body: Callable[[], list[Value]]
    ) -> list[Value]:
        """Returns the values of `body` if a scalar condition holds, else `start`, merged by phis.
        """
        number = self._number()
        self.enter(stores, pinned=True)
        origin = self.label
        self.raw(f"br i1 {condition.text}, label %then{number}, label %join{number}")
        self.block(f"then{number}")
        ends = [self.wide(e, s.lanes) for s, e in zip(start, body(), strict=True)]
        self.raw(f"br label %join{number}")
        last = self.label
        self.leave()
        self.block(f"join{number}")
        return [self._phi(s, origin, e, last) for s, e in zip(start, ends, strict=True)]

    def _phi(self, a: Value, origin: str, b: Value, last: str) -> Value:
        name = self.fresh()
        self.raw(f"{name} = phi {a.full} [{a.text}, %{origin}], [{b.text}, %{last}]")
        return Value(name, a.type, a.lanes, self.depth)

    def round_down(self, start: Affine, stop: Affine, step: int) -> Affine:
        """The end of the last whole step from start to stop."""
        trips = total(stop, start, -1)
        if step == 1:
            return stop
        if not trips.terms:
            return total(start, Affine({}, max(trips.constant, 0) // step * step))
        count = self.intrinsic("smax", self.sum_value(trips), 0)
        whole = self.binary("mul", self.binary("udiv", count, step), step)
        most = max(bounds(trips, self.atoms)[1], 0)
        return total(start, self.atom(whole, 0, most, step))

    def counted_loop(
        self, low: Affine, high: Affine, step: int, start: list[Value], stores: Stored,
        body: LoopBody
    ) -> list[Value]:
        """Runs `body` for low, low + step, ... below high; emits a loop only for several
        iterations."""
        trips = total(high, low, -1)
        if trips.terms:
            some = self.compare("slt", self.sum_value(low), self.sum_value(high))
            return self.branch(
                some, start, stores, lambda: self._loop(low, high, step, start, stores, body)
            )
        if trips.constant <= 0:
            return start
        if trips.constant <= step:
            return body(low, start)
        return self._loop(low, high, step, start, stores, body)

    def _loop(
        self, low: Affine, high: Affine, step: int, start: list[Value], stores: Stored,
        body: LoopBody
    ) -> list[Value]:
        """A loop that runs at least once."""
        number = self._number()
        i, following, first = f"%i{number}", f"%n{number}", self.sum_value(low)
        last = self.sum_value(high)
        self.enter(stores)
        origin = self.label
        self.raw(f"br label %loop{number}")
        self.block(f"loop{number}")
        phis: list[str] = []  # written when the ends are known
        self.lines.append(phis)
        inner = [Value(self.fresh(), v.type, v.lanes, self.depth) for v in start]
        ends = body(self._induction_variable(i, low, high, step), inner)
        ends = [self.wide(e, v.lanes) for v, e in zip(start, ends, strict=True)]
        self.raw(f"{following} = add nsw i64 {i}, {step}")
        self.raw(f"%c{number} = icmp slt i64 {following}, {last.text}")
        self.raw(f"br i1 %c{number}, label %loop{number}, label %done{number}")
        latch = self.label
        phis.append(f"  {i} = phi i64 [{first.text}, %{origin}], [{following}, %{latch}]")
        for v, p, e in zip(start, inner, ends, strict=True):
            phis.append(f"  {p.text} = phi {v.full} [{v.text}, %{origin}], [{e.text}, %{latch}]")
        self.leave()
        self.block(f"done{number}")
        return [self.to_outer_level(e) for e in ends]

    def _induction_variable(self, name: str, low: Affine, high: Affine, step: int) -> Affine:
        """The induction variable of a loop, with the range that its bounds imply."""
        least, most = bounds(low, self.atoms)[0], bounds(high, self.atoms)[1] - step
        divisor = math.gcd(multiple(low, self.atoms), step)
        return self.atom(Value(name, "i64", 0, self.depth), least, most, divisor)
