"""Writes the statements of a kernel as CUDA C: one function per kernel, in which a thread group
runs each task.

Lane loops run on the threads of a group: thread n runs the iterations n, n + threads, ... All
other statements are computed by all threads alike, and stored by the first.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..gpu.barriers import StatementPath, barrier_points
from ..gpu.thread_mapping import WARP, ThreadMapping
from ..ir.affine_index import Index
from ..ir.axis_coalescing import linear_form
from ..ir.loop_ir import (
    BOOL,
    Assign,
    Call,
    Expr,
    For,
    If,
    Kernel,
    KernelBuffer,
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
from .expressions import CudaExpressions, from_memory, is_raw_copy, to_memory
from .reduce import Reducer, identity
from .types import memory_type as type_in_memory
from .types import register_type, small_float_name
from .vector_access import VectorAccesses, vector_accesses

MAX_UNROLLED_ITERATIONS = 8  # of a thread


class CudaEmitter(CudaExpressions):
    """Writes the statements of a kernel."""

    def __init__(self, kernel: Kernel, mapping: ThreadMapping, reducer: Reducer,
                 aligned: frozenset[KernelBuffer]
                 ) -> None:
        super().__init__(kernel, mapping)
        self.reducer, self.aligned = reducer, aligned
        self._barriers = barrier_points(kernel, mapping.thread_local)
        self._lane: For | None = None

    def body(self) -> list[str]:
        """The lines of the function, after the declarations of its memory."""
        self.statements(self.kernel.body, ())
        return self.lines

    def statements(self, body: Iterable[Stmt], path: StatementPath) -> None:
        """Writes statements in order; the registers that they declare end with them."""
        before = dict(self.registers)
        for index, s in enumerate(body):
            statement_path = (*path, index)
            if statement_path in self._barriers and self.mapping.group_threads > 1:
                self.line("__syncwarp();"
                          if self.mapping.group_threads == WARP else "__syncthreads();")
            if isinstance(s, For):
                self._for(s, statement_path)
            elif isinstance(s, If):
                self._if(s, statement_path)
            elif not isinstance(s, Prefetch):
                self._simple_statement(s)
        self.registers = {r: name for r, name in self.registers.items() if r in before}

    def _simple_statement(self, s: Stmt) -> None:
        if isinstance(s, Assign):
            self._assign(s)
        elif isinstance(s, Update):
            self._update(s)
        elif isinstance(s, Store):
            self._store(s)
        elif isinstance(s, Transpose):
            self._transpose(s)
        elif isinstance(s, Mma):
            self._matrix_product(s)

    # ---- registers
    def _assign(self, s: Assign) -> None:
        value = scalar.convert(self.value(s.value), s.value.dtype, s.register.dtype)
        name = self.registers.get(s.register)
        if name is None:
            name = self.registers[s.register] = self.fresh(_c_identifier(s.register.name) + "_")
            self.line(f"{register_type(s.register.dtype)} {name} = {value};")
        else:
            self.line(f"{name} = {value};")
        self.invalidate([s.register])

    def _update(self, s: Update) -> None:
        name = self.registers[s.register]
        self.line(f"{name} = {self._combined(s, name)};")
        self.invalidate([s.register])

    def _combined(self, s: Update, old: str) -> str:
        """The register combined with a value; the sum with a product is a single fma."""
        e, dtype = s.value, s.register.dtype
        if s.op == "add" and dtype.kind == "f" and isinstance(e, Call) and e.op == "mul" \
                and dtype.itemsize >= 4 and all(x.dtype == dtype for x in (e, *e.args)):
            x, y = (self.value(a) for a in e.args)
            return f"{'fmaf' if dtype.itemsize == 4 else 'fma'}({x}, {y}, {old})"
        value = scalar.convert(self.declared_value(e), e.dtype, dtype)
        return scalar.apply(s.op, [old, value], [dtype, dtype], dtype)

    # ---- memory
    def local_index(self, buffer: KernelBuffer, index: Expr) -> Expr:
        if buffer not in self.mapping.thread_local or self._lane is None:
            return index
        terms, constant = linear_form(index)
        return Index({e: c for e, c in terms.items() if e is not self._lane.var}, constant).expr()

    def _value_in_memory(self, s: Store) -> str:
        """The text of a stored value in its memory representation."""
        if is_raw_copy(s.value, s.buffer.dtype):
            return self.raw_bits(s.value)
        value = scalar.convert(self.value(s.value), s.value.dtype, s.buffer.dtype)
        return to_memory(value, s.buffer)

    def _store(self, s: Store) -> None:
        value = self._value_in_memory(s)
        text = f"{self.element(s.buffer, s.index)} = {value};"
        first_lane_only = self._lane is None and self.mapping.group_threads > 1
        self.line(f"if (lane == 0) {text}" if first_lane_only else text)
        self.invalidate([s.buffer])

    def _transpose(self, s: Transpose) -> None:
        source = self._address_of(s.source, s.source_index)
        target = self._address_of(s.buffer, s.index)
        count, size = self.fresh("n"), s.size
        step = f"{count} += {self.mapping.group_threads}"
        self.line(f"for (int {count} = lane; {count} < {s.rows * size}; {step})")
        self.line(f"    {target}[{count} % {size} * {s.pitch} + {count} / {size}] = "
                  f"{source}[{count} / {size} * {s.source_pitch} + {count} % {size}];")
        self.invalidate([s.buffer])

    def _matrix_product(self, s: Mma) -> None:
        f, across = s.fragments, s.fragments.across
        first = f"lane % 32 / 4) * {f.pitch} + lane % 4 * 2"
        rows = f"{self.pointers[s.rows]} + (lane / 32 / {across} * {f.rows} + {first}"
        columns = f"{self.pointers[s.columns]} + (lane / 32 % {across} * {f.columns} + {first}"
        is_bf16 = str(small_float_name(s.rows.dtype) == "bf16").lower()
        form = f"{is_bf16}, {f.grid[0]}, {f.grid[1]}, {f.pitch}"
        self.line("#pragma unroll")
        self.open(f"for (int k = 0; k < {f.depth}; k += {DEPTH})")
        self.line(f"fw_multiply<{form}>({self.pointers[s.sums]}, {rows} + k, {columns} + k);")
        self.close()
        self.invalidate([s.sums])

    def _address_of(self, buffer: KernelBuffer, index: Expr) -> str:
        return f"({self.pointers[buffer]} + {self.value(index)})"

    # ---- branches and loops
    def _if(self, s: If, path: StatementPath) -> None:
        condition = scalar.convert(self.value(s.condition), s.condition.dtype, BOOL)
        self.open(f"if ({condition})")
        self.statements(s.body, path)
        self.close()
        self._invalidate_changes(s.body)

    def _invalidate_changes(self, body: Iterable[Stmt]) -> None:
        """Invalidates the values that depend on what these statements may change."""
        changed: list[Register | KernelBuffer] = list(stored(tuple(body)))
        changed += [x.register for x in walk(body) if isinstance(x, (Assign, Update))]
        self.invalidate(changed)

    def _for(self, s: For, path: StatementPath) -> None:
        start, stop = self.ranges.of(s.start), self.ranges.of(s.stop)
        self._invalidate_changes(s.body)
        first, last = self.value(s.start), self.value(s.stop)
        self.ranges.bind(s.var, start, stop)
        if s.lanes:
            self._lanes(s, path, first, last)
        elif accesses := vector_accesses(s, self.aligned) if self._lane else None:
            self._vectorized_loop(s, accesses)
        else:
            self._serial(s, path, first, last)
        self._invalidate_changes(s.body)

    def _serial(self, s: For, path: StatementPath, first: str, last: str) -> None:
        name = self._counter(s.var)
        if s.unroll > 1:
            self.line(f"#pragma unroll {s.unroll}")
        index_type = self.type_of(s.var)
        self.open(f"for ({index_type} {name} = {first}; {name} < {last}; ++{name})")
        self.statements(s.body, path)
        self.close()

    def _vectorized_loop(self, s: For, accesses: VectorAccesses) -> None:
        """Writes all iterations of a loop, with one vector access for each of its contiguous loads
        and stores."""
        self.open()
        loads = {e: self._vector_load(e, s.var, accesses.count) for e in accesses.loads}
        stores = {x: self._local_vector(x.buffer, accesses.count) for x in accesses.stores}
        for iteration in range(accesses.count):
            self._vectorized_iteration(s, iteration, loads, stores)
        for x, name in stores.items():
            size = accesses.count * x.buffer.dtype.itemsize
            self.line(f"fw_move<{size}>({self._vector_address(x.buffer, x.index, s.var)}, {name});")
        self.close()

    def _vectorized_iteration(self, s: For, iteration: int, loads: dict[Load, str],
                              stores: dict[Store, str]) -> None:
        self.open()
        self.invalidate([s.var])
        self.variables[s.var] = str(iteration)
        self.vector_elements = {e: f"{name}[{iteration}]" for e, name in loads.items()}
        for e, text in self.vector_elements.items():
            self.remember(e, from_memory(text, e.buffer))
        before = dict(self.registers)
        for x in s.body:
            if isinstance(x, Store) and x in stores:
                self.line(f"{stores[x]}[{iteration}] = {self._value_in_memory(x)};")
            else:
                self._simple_statement(x)
        self.registers, self.vector_elements = before, {}
        self.close()

    def _vector_load(self, e: Load, var: Var, count: int) -> str:
        """Loads the elements of all iterations into a local array and returns its name."""
        name, size = self._local_vector(e.buffer, count), count * e.buffer.dtype.itemsize
        guard = "" if e.mask is None else f"if ({self.value(e.mask)}) "
        address = self._vector_address(e.buffer, e.index, var)
        self.line(f"{guard}fw_move<{size}>({name}, {address});")
        if e.mask is not None and e.other is not None:
            other = to_memory(self.value(e.other), e.buffer)
            self.line(f"else for (int n = 0; n < {count}; ++n) {name}[n] = {other};")
        return name

    def _local_vector(self, buffer: KernelBuffer, count: int) -> str:
        name = self.fresh("vector")
        self.line(f"__align__(16) {type_in_memory(buffer.dtype)} {name}[{count}];")
        return name

    def _vector_address(self, buffer: KernelBuffer, index: Expr, var: Var) -> str:
        """The address of the element of the first iteration."""
        terms, constant = linear_form(index)
        first = Index({e: c for e, c in terms.items() if e is not var}, constant).expr()
        return f"&{self.element(buffer, first)}"

    def _counter(self, var: Var) -> str:
        name = self.fresh(_c_identifier(var.name) + "_")
        self.invalidate([var])
        self.variables[var] = name
        return name

    # ---- lanes
    def _lanes(self, s: For, path: StatementPath, first: str, last: str) -> None:
        reductions = self.reducer.reductions_of(s, self.registers)
        outer = {r: self.registers[r] for r in reductions}
        for r, op in reductions.items():
            self.registers[r] = self.fresh("part")
            self.line(f"{register_type(r.dtype)} {self.registers[r]} = {identity(op, r.dtype)};")
        self._lane = s
        self._thread_iterations(s, path, first, last)
        self._lane = None
        for r, op in reductions.items():
            total = self.reducer.call(op, r.dtype, self.registers[r])
            self.registers[r] = outer[r]
            value = scalar.apply(op, [outer[r], total], [r.dtype, r.dtype], r.dtype)
            self.line(f"{outer[r]} = {value};")

    def _thread_iterations(self, s: For, path: StatementPath, first: str, last: str) -> None:
        """Writes the iterations of a thread; a few are unrolled."""
        threads, name = self.mapping.group_threads, self._counter(s.var)
        index_type = self.type_of(s.var)
        count, is_exact = _iteration_count(s, threads)
        begin = "lane" if first == "0" else f"{first} + lane"
        if count is None or count > MAX_UNROLLED_ITERATIONS:
            self.open(f"for ({index_type} {name} = {begin}; {name} < {last}; {name} += {threads})")
            self.statements(s.body, path)
            self.close()
            return
        if count > 1:
            step = self.fresh("iteration")
            self.line("#pragma unroll")
            self.open(f"for (int {step} = 0; {step} < {count}; ++{step})")
            begin = f"{begin} + {step} * {threads}"
        else:
            self.open()
        self.line(f"const {index_type} {name} = {begin};")
        if not is_exact:
            self.open(f"if ({name} < {last})")
        self.statements(s.body, path)
        for _ in range(1 + (not is_exact)):
            self.close()


def _iteration_count(s: For, threads: int) -> tuple[int | None, bool]:
    """The largest number of iterations of a thread (None if unknown), and True if all threads run
    as many."""
    ends = [s.stop, *(s.stop.args if isinstance(s.stop, Call) and s.stop.op == "minimum" else ())]
    for end in ends:
        total = Index(*linear_form(end)) - Index(*linear_form(s.start))
        if not total.terms:
            is_exact = end is s.stop and total.const > 0 and total.const % threads == 0
            return max(0, -(-total.const // threads)), is_exact
    return None, False


def _c_identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
