"""Statements of the loop IR as CUDA C: one function per kernel, which runs a task on each team.

Lane loops run on the threads of a team: thread n has the turns n, n + threads, ... All else is
computed by all threads alike, and stored by the first.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..gpu.barriers import Path, barrier_points
from ..gpu.thread_mapping import WARP, ThreadMapping
from ..ir.affine_index import Index
from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    BOOL,
    Assign,
    Buffer,
    Call,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Mma,
    Prefetch,
    Register,
    Stmt,
    Store,
    Transpose,
    Update,
    Var,
    walk,
)
from ..ir.mma_layout import DEPTH
from ..llvm.control_flow import stored
from . import scalar
from .expressions import CudaExpressions, from_memory, is_moved, to_memory
from .reduce import Reducer, identity
from .types import held, small
from .types import stored as type_in_memory
from .vector_access import Moved, moved_at_once

_FEW = 8  # turns of a thread that are written out


class CudaEmitter(CudaExpressions):
    """Writes the statements of a kernel."""

    def __init__(self, kernel: Kernel, team: ThreadMapping, reducing: Reducer,
                 aligned: frozenset[Buffer]
                 ) -> None:
        super().__init__(kernel, team)
        self.reducing, self.aligned = reducing, aligned
        self._meetings = barrier_points(kernel, team.own)
        self._lane: For | None = None

    def body(self) -> list[str]:
        """The lines of the function, after those that say where its memory is."""
        self.statements(self.kernel.body, ())
        return self.lines

    def statements(self, body: Iterable[Stmt], path: Path) -> None:
        """Writes statements one after the other; registers that they declare end with them."""
        before = dict(self.registers)
        for number, s in enumerate(body):
            here = (*path, number)
            if here in self._meetings and self.team.threads > 1:
                self.line("__syncwarp();" if self.team.threads == WARP else "__syncthreads();")
            if isinstance(s, For):
                self._for(s, here)
            elif isinstance(s, If):
                self._if(s, here)
            elif not isinstance(s, Prefetch):
                self._simple(s)
        self.registers = {r: name for r, name in self.registers.items() if r in before}

    def _simple(self, s: Stmt) -> None:
        if isinstance(s, Assign):
            self._assign(s)
        elif isinstance(s, Update):
            self._update(s)
        elif isinstance(s, Store):
            self._store(s)
        elif isinstance(s, Transpose):
            self._transpose(s)
        elif isinstance(s, Mma):
            self._multiply(s)

    # ---- registers
    def _assign(self, s: Assign) -> None:
        value = scalar.convert(self.value(s.value), s.value.dtype, s.register.dtype)
        name = self.registers.get(s.register)
        if name is None:
            name = self.registers[s.register] = self.fresh(_plain(s.register.name) + "_")
            self.line(f"{held(s.register.dtype)} {name} = {value};")
        else:
            self.line(f"{name} = {value};")
        self.forget([s.register])

    def _update(self, s: Update) -> None:
        name = self.registers[s.register]
        self.line(f"{name} = {self._combined(s, name)};")
        self.forget([s.register])

    def _combined(self, s: Update, old: str) -> str:
        """The register and the value put together, a product added in one instruction."""
        e, dtype = s.value, s.register.dtype
        if s.op == "add" and dtype.kind == "f" and isinstance(e, Call) and e.op == "mul" \
                and dtype.itemsize >= 4 and all(x.dtype == dtype for x in (e, *e.args)):
            x, y = (self.value(a) for a in e.args)
            return f"{'fmaf' if dtype.itemsize == 4 else 'fma'}({x}, {y}, {old})"
        value = scalar.convert(self.whole_value(e), e.dtype, dtype)
        return scalar.apply(s.op, [old, value], [dtype, dtype], dtype)

    # ---- memory
    def own_place(self, buffer: Buffer, index: Expr) -> Expr:
        if buffer not in self.team.own or self._lane is None:
            return index
        terms, constant = linear_form(index)
        return Index({e: c for e, c in terms.items() if e is not self._lane.var}, constant).expr()

    def _bits(self, s: Store) -> str:
        """What is stored, as it lies in memory."""
        if is_moved(s.value, s.buffer.dtype):
            return self.as_it_lies(s.value)
        value = scalar.convert(self.value(s.value), s.value.dtype, s.buffer.dtype)
        return to_memory(value, s.buffer)

    def _store(self, s: Store) -> None:
        value = self._bits(s)
        text = f"{self.element(s.buffer, s.index)} = {value};"
        alone = self._lane is None and self.team.threads > 1
        self.line(f"if (lane == 0) {text}" if alone else text)
        self.forget([s.buffer])

    def _transpose(self, s: Transpose) -> None:
        source = self._from(s.source, s.source_index)
        target = self._from(s.buffer, s.index)
        count, size = self.fresh("n"), s.size
        step = f"{count} += {self.team.threads}"
        self.line(f"for (int {count} = lane; {count} < {s.rows * size}; {step})")
        self.line(f"    {target}[{count} % {size} * {s.pitch} + {count} / {size}] = "
                  f"{source}[{count} / {size} * {s.source_pitch} + {count} % {size}];")
        self.forget([s.buffer])

    def _multiply(self, s: Mma) -> None:
        f, across = s.fragments, s.fragments.across
        first = f"lane % 32 / 4) * {f.pitch} + lane % 4 * 2"
        rows = f"{self.pointers[s.rows]} + (lane / 32 / {across} * {f.rows} + {first}"
        columns = f"{self.pointers[s.columns]} + (lane / 32 % {across} * {f.columns} + {first}"
        form = f"{str(small(s.rows.dtype) == 'bf16').lower()}, {f.grid[0]}, {f.grid[1]}, {f.pitch}"
        self.line("#pragma unroll")
        self.open(f"for (int k = 0; k < {f.depth}; k += {DEPTH})")
        self.line(f"fw_multiply<{form}>({self.pointers[s.sums]}, {rows} + k, {columns} + k);")
        self.close()
        self.forget([s.sums])

    def _from(self, buffer: Buffer, index: Expr) -> str:
        return f"({self.pointers[buffer]} + {self.value(index)})"

    # ---- branches and loops
    def _if(self, s: If, path: Path) -> None:
        condition = scalar.convert(self.value(s.condition), s.condition.dtype, BOOL)
        self.open(f"if ({condition})")
        self.statements(s.body, path)
        self.close()
        self._changed(s.body)

    def _changed(self, body: Iterable[Stmt]) -> None:
        """What was known of all that these statements may change is known no more."""
        changed: list[Register | Buffer] = list(stored(tuple(body)))
        changed += [x.register for x in walk(body) if isinstance(x, (Assign, Update))]
        self.forget(changed)

    def _for(self, s: For, path: Path) -> None:
        start, stop = self.ranges.of(s.start), self.ranges.of(s.stop)
        self._changed(s.body)
        first, last = self.value(s.start), self.value(s.stop)
        self.ranges.bind(s.var, start, stop)
        if s.lanes:
            self._lanes(s, path, first, last)
        elif moved := moved_at_once(s, self.aligned) if self._lane else None:
            self._in_pieces(s, moved)
        else:
            self._serial(s, path, first, last)
        self._changed(s.body)

    def _serial(self, s: For, path: Path, first: str, last: str) -> None:
        name = self._counter(s.var)
        if s.unroll > 1:
            self.line(f"#pragma unroll {s.unroll}")
        kind = self.type_of(s.var)
        self.open(f"for ({kind} {name} = {first}; {name} < {last}; ++{name})")
        self.statements(s.body, path)
        self.close()

    def _in_pieces(self, s: For, moved: Moved) -> None:
        """All turns of a loop, with what they read and write moved in one piece each."""
        self.open()
        read = {e: self._piece_read(e, s.var, moved.count) for e in moved.loads}
        written = {x: self._array(x.buffer, moved.count) for x in moved.stores}
        for turn in range(moved.count):
            self._turn_in_pieces(s, turn, read, written)
        for x, name in written.items():
            size = moved.count * x.buffer.dtype.itemsize
            self.line(f"fw_move<{size}>({self._first(x.buffer, x.index, s.var)}, {name});")
        self.close()

    def _turn_in_pieces(self, s: For, turn: int, read: dict[Load, str], written: dict[Store, str]
                        ) -> None:
        self.open()
        self.forget([s.var])
        self.variables[s.var] = str(turn)
        self.pieces = {e: f"{name}[{turn}]" for e, name in read.items()}
        for e, text in self.pieces.items():
            self.know(e, from_memory(text, e.buffer))
        before = dict(self.registers)
        for x in s.body:
            if isinstance(x, Store) and x in written:
                self.line(f"{written[x]}[{turn}] = {self._bits(x)};")
            else:
                self._simple(x)
        self.registers, self.pieces = before, {}
        self.close()

    def _piece_read(self, e: Load, var: Var, count: int) -> str:
        """The name of an array of a thread's own, with the elements of all turns."""
        name, size = self._array(e.buffer, count), count * e.buffer.dtype.itemsize
        guard = "" if e.mask is None else f"if ({self.value(e.mask)}) "
        self.line(f"{guard}fw_move<{size}>({name}, {self._first(e.buffer, e.index, var)});")
        if e.mask is not None and e.other is not None:
            other = to_memory(self.value(e.other), e.buffer)
            self.line(f"else for (int n = 0; n < {count}; ++n) {name}[n] = {other};")
        return name

    def _array(self, buffer: Buffer, count: int) -> str:
        name = self.fresh("piece")
        self.line(f"__align__(16) {type_in_memory(buffer.dtype)} {name}[{count}];")
        return name

    def _first(self, buffer: Buffer, index: Expr, var: Var) -> str:
        """Where the element of the first turn lies."""
        terms, constant = linear_form(index)
        first = Index({e: c for e, c in terms.items() if e is not var}, constant).expr()
        return f"&{self.element(buffer, first)}"

    def _counter(self, var: Var) -> str:
        name = self.fresh(_plain(var.name) + "_")
        self.forget([var])
        self.variables[var] = name
        return name

    # ---- lanes
    def _lanes(self, s: For, path: Path, first: str, last: str) -> None:
        reduced = self.reducing.found(s, self.registers)
        outer = {r: self.registers[r] for r in reduced}
        for r, op in reduced.items():
            self.registers[r] = self.fresh("part")
            self.line(f"{held(r.dtype)} {self.registers[r]} = {identity(op, r.dtype)};")
        self._lane = s
        self._turns(s, path, first, last)
        self._lane = None
        for r, op in reduced.items():
            total = self.reducing.call(op, r.dtype, self.registers[r])
            self.registers[r] = outer[r]
            value = scalar.apply(op, [outer[r], total], [r.dtype, r.dtype], r.dtype)
            self.line(f"{outer[r]} = {value};")

    def _turns(self, s: For, path: Path, first: str, last: str) -> None:
        """The turns of a thread: written out where they are few."""
        threads, name, kind = self.team.threads, self._counter(s.var), self.type_of(s.var)
        count, whole = _turns_of(s, threads)
        begin = "lane" if first == "0" else f"{first} + lane"
        if count is None or count > _FEW:
            self.open(f"for ({kind} {name} = {begin}; {name} < {last}; {name} += {threads})")
            self.statements(s.body, path)
            self.close()
            return
        if count > 1:
            turn = self.fresh("turn")
            self.line("#pragma unroll")
            self.open(f"for (int {turn} = 0; {turn} < {count}; ++{turn})")
            begin = f"{begin} + {turn} * {threads}"
        else:
            self.open()
        self.line(f"const {kind} {name} = {begin};")
        if not whole:
            self.open(f"if ({name} < {last})")
        self.statements(s.body, path)
        for _ in range(1 + (not whole)):
            self.close()


def _turns_of(s: For, threads: int) -> tuple[int | None, bool]:
    """How many turns a thread has at most, None if that is not known; and whether all have them."""
    ends = [s.stop, *(s.stop.args if isinstance(s.stop, Call) and s.stop.op == "minimum" else ())]
    for end in ends:
        total = Index(*linear_form(end)) - Index(*linear_form(s.start))
        if not total.terms:
            whole = end is s.stop and total.const > 0 and total.const % threads == 0
            return max(0, -(-total.const // threads)), whole
    return None, False


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
