"""Runs a graph with symbolic sizes: one dynamic-shape program, and specializations for frequent
sizes.

The second set of sizes triggers a dynamic-shape program (see `dynamic_program`), which is nearly as
fast as code for fixed sizes; a set that is used very often then gets its own program. If the graph
has no dynamic-shape program, the first call with new sizes runs op by op, in the time that eager
takes plus about 1 ms, and later calls get code. The threshold grows with the number of programs,
since compiling takes far longer than a call without code. Counts decide, not times, so that results
are reproducible bit by bit.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from ...capture.graph.bind_sizes import bind_sizes, dims_in, has_symbols
from ...capture.graph.graph import Graph
from ...capture.runtime.compile_queue import CompileJob, Jobs, go_on
from ...capture.runtime.metrics import Costs, Memory, making
from ...capture.runtime.specialization_cache import Specializations
from ...capture.sizes.size_expr import SizeExpr, SizeSymbol
from ...capture.sizes.symbolic_dim import size_expr_of
from ...eager.errors import CodegenError, FusewireError, GraphError
from ...eager.fork_safety import held_while_forking
from ..partition.hybrid_executable import op_by_op
from .dynamic_program import DynamicProgram

__all__ = ["DynamicExecutable", "has_symbols"]

MAX_DYNAMIC_PROGRAMS = 8  # dynamic-shape programs; each has twice the capacity of the last
# Further calls before sizes that run a dynamic-shape program get their own program.
SPECIALIZE_DYNAMIC_AFTER_CALLS = 500

_LOCK = held_while_forking(threading.RLock())
_COMPILE_LOCK = held_while_forking(threading.RLock())


class Specialization(Protocol):
    """A graph of fixed sizes, ready to be called."""

    def __call__(self, arrays: list[Any]) -> list[Any]: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def listings(self) -> list[dict[str, Any]]: ...
    def explain(self) -> str: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def code(self) -> str: ...
    @property
    def assembly(self) -> str: ...


_Cost = tuple[float, Costs, int]  # seconds, their parts, and the peak memory of a call
Backend = Callable[[Graph], Specialization]
CompileDynamic = Callable[[Graph, Mapping[str, int]], DynamicProgram]


class SizeBinding(NamedTuple):
    """The input axis that determines a size: its length is `scale` times the size plus `offset`."""

    input: int
    axis: int
    scale: int
    offset: int


class SpecializationState:
    """One set of sizes: how often it was used, and the program that runs it."""

    __slots__ = ("compiled", "dynamic_program", "empty", "job", "next_check", "program", "sizes",
                 "uses")

    def __init__(self, sizes: Mapping[str, int], empty: bool) -> None:
        """empty: some values have no elements, so it never gets code: eager raises for, say, their
        maximum."""
        self.sizes, self.empty = sizes, empty
        self.program: Specialization | None = None
        self.uses, self.compiled = 0, False  # compiled: for just these sizes
        self.next_check = math.inf if empty else 0  # use from which on there may be better code
        self.dynamic_program: DynamicProgram | None = None
        self.job: CompileJob[None] | None = None  # of the compile thread

    @property
    def sizes_text(self) -> str:
        return format_sizes(self.sizes)

    @property
    def title(self) -> str:
        how = "specialized program" if self.compiled else \
            "op by op" if self.dynamic_program is None else \
            f"dynamic-shape program, capacity {format_sizes(self.dynamic_program.capacity)}"
        later = " until another thread has compiled it" if self.job and self.job.is_awaited else ""
        calls = f"{self.uses} call{'' if self.uses == 1 else 's'}"
        return f"{self.sizes_text}: {calls}, {how}{later}"


class SeenSizes(NamedTuple):
    """A set of sizes for export: shapes of inputs, and the program for exactly these sizes."""

    shapes: tuple[Any, ...]
    sizes: dict[str, int]
    empty: bool
    uses: int
    program: Specialization | None


class DynamicExecutable:
    """Programs by sizes, compiled on demand. Several threads may call it at once."""

    def __init__(self, graph: Graph, backend: Backend, for_any: CompileDynamic | None = None,
                 checked: Callable[[Graph, Specialization], Specialization] | None = None) -> None:
        """backend(graph) compiles a graph of fixed sizes. for_any(graph, sizes) compiles a
        dynamic-shape program for sizes up to at least these. checked(graph, program) wraps such a
        program in a check. Raises CodegenError if no input's shape determines a size."""
        self.graph, self._backend = graph, backend
        self._compile_any, self._checked = for_any, checked
        self.dynamic_program: DynamicProgram | None = None
        self.refusal = "" if for_any is not None else "there is no compiler for one"
        self.compile_seconds, self._specialized_count, self._dynamic_count = 0.0, 0, 0
        # Is told what making code took, and the memory that a call of it takes.
        self.spent: Callable[[float, Costs, int], None] = _ignore
        self.jobs: Jobs | None = None  # where code is made that calls do not wait for
        self._bindings = find_size_bindings(graph)
        self._dynamic_inputs = [i for i, n in enumerate(graph.inputs)
                                if any(size_expr_of(size).number is None for size in n.type.shape)]
        self._states: Specializations[SpecializationState] = Specializations("sizes of a graph")
        self._min_sizes = {name: size.least for name, size in _named_sizes(graph).items()}
        self._axis_sizes = {size_expr_of(n) for node in (*graph.inputs, *graph.nodes())
                            for n in node.type.shape}

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs. Raises GraphError for shapes that do not fit the graph."""
        shapes = []
        for i in self._dynamic_inputs:  # a comprehension would cost a call
            shapes.append(arrays[i].shape)
        key = tuple(shapes)
        state = self._states.find(key) or self._first_use(key, arrays)
        uses = state.uses = state.uses + 1
        if uses >= state.next_check:
            self._improve_later(state, self.jobs) if self.jobs else self._improve_now(state)
        return (state.program or self._by_ops(state))(arrays)

    def _first_use(self, key: Any, arrays: list[Any]) -> SpecializationState:
        sizes = self.sizes_of(arrays)
        return self._states.add(key, SpecializationState(sizes, self._is_empty_at(sizes)))

    def _by_ops(self, state: SpecializationState) -> Specialization:
        """A program that runs op by op."""
        program: Specialization = op_by_op(bind_sizes(self.graph, state.sizes))
        with _LOCK:
            state.program = state.program or program
            return state.program

    def _improve_now(self, state: SpecializationState) -> None:
        with _COMPILE_LOCK:
            costs = self._improve(state)
        self._report_costs(costs)  # outside of the lock: who listens may hold locks too

    def _improve_later(self, state: SpecializationState, jobs: Jobs) -> None:
        """Improves a set of sizes on the compile thread, if it is time. Raises an error of that
        thread."""
        job = state.job
        if job is not None:
            job.look()
        if job is not None and job.is_awaited:
            go_on()
        elif self._should_improve(state):
            state.job = jobs.begin(lambda: self._report_costs(self._improve(state)))

    def _report_costs(self, costs: list[_Cost]) -> None:
        for cost in costs:
            self.compile_seconds += cost[0]
            self.spent(*cost)

    def _should_improve(self, state: SpecializationState) -> bool:
        """True if there can be better code for a set of sizes now."""
        return self._should_use_dynamic(state) or self._should_specialize(state)

    def _should_use_dynamic(self, state: SpecializationState) -> bool:
        several = len(self._states) > 1 or self.dynamic_program is not None
        return state.dynamic_program is None and several and self._can_use_dynamic(state)

    def _should_specialize(self, state: SpecializationState) -> bool:
        needed = self._states.policy.requests(self._specialized_count)
        if state.dynamic_program is not None:
            needed += SPECIALIZE_DYNAMIC_AFTER_CALLS
        return state.uses >= needed and not state.compiled

    def _improve(self, state: SpecializationState) -> list[_Cost]:
        """Compiles better code for a set of sizes, if it is time; returns the costs."""
        costs = []
        if self._should_use_dynamic(state):
            costs.append(self._use_dynamic(state))
        if self._should_specialize(state):
            costs.append(self._specialize(state))
        state.next_check = math.inf if state.compiled else \
            0 if state.dynamic_program is None else SPECIALIZE_DYNAMIC_AFTER_CALLS
        return list(filter(None, costs))

    def _can_use_dynamic(self, state: SpecializationState) -> bool:
        """True if a dynamic-shape program has room for these sizes, or one can be compiled."""
        return (not self.refusal and self._dynamic_count < MAX_DYNAMIC_PROGRAMS) or (
            self.dynamic_program is not None and self.dynamic_program.has_room(state.sizes))

    def _use_dynamic(self, state: SpecializationState) -> _Cost | None:
        """Switches a set of sizes to the dynamic-shape program; returns the cost of compiling it.
        """
        cost = None
        if self.dynamic_program is None or not self.dynamic_program.has_room(state.sizes):
            cost = self._compile_dynamic(state.sizes)
        if self.dynamic_program is not None and self.dynamic_program.has_room(state.sizes):
            program: Specialization = self.dynamic_program.bind(state.sizes)
            if self._checked is not None:
                program = self._checked(bind_sizes(self.graph, state.sizes), program)
            with _LOCK:
                state.dynamic_program, state.program = self.dynamic_program, program
        return cost

    def _compile_dynamic(self, least: Mapping[str, int]) -> _Cost:
        assert self._compile_any is not None
        self._dynamic_count += 1
        if self.dynamic_program is not None:  # what grew once will grow again
            room = self.dynamic_program.capacity
            least = {name: max(room[name], 2 * n if n > room[name] else 0)
                     for name, n in least.items()}
        start, costs = time.perf_counter(), Costs()
        try:
            with making(f"any {', '.join(least)}", costs):
                self.dynamic_program = self._compile_any(self.graph, least)
        except FusewireError as error:
            self.refusal = str(error).splitlines()[0]
        peak = 0 if self.dynamic_program is None else self.dynamic_program.program.memory.peak
        return time.perf_counter() - start, costs, peak

    def _specialize(self, state: SpecializationState) -> _Cost:
        """Compiles a program for exactly these sizes."""
        start, costs = time.perf_counter(), Costs()
        with making(state.sizes_text, costs):
            program = self._backend(bind_sizes(self.graph, state.sizes))
        with _LOCK:
            state.program, state.compiled = program, True
            self._specialized_count += 1
        return time.perf_counter() - start, costs, program.memory.peak

    def sizes_of(self, arrays: list[Any]) -> dict[str, int]:
        """The named sizes, read off the arrays' shapes."""
        sizes = {name: (arrays[at.input].shape[at.axis] - at.offset) // at.scale
                 for name, at in self._bindings.items()}
        for i in self._dynamic_inputs:
            expected = tuple(size_expr_of(n).value(sizes) for n in self.graph.inputs[i].type.shape)
            if arrays[i].shape != expected or any(n < self._min_sizes[name]
                                                  for name, n in sizes.items()):
                raise GraphError(f"input {i} has shape {arrays[i].shape}, where the recording is "
                                 f"for {self.graph.inputs[i].type}")
        return sizes

    def program_for_all(self) -> DynamicProgram | None:
        """The dynamic-shape program, with room for all sizes seen; None if there is none, or if
        calls are checked or wait for no code."""
        if self._checked is not None or self.jobs is not None:
            return None
        self.prepare()
        return self.dynamic_program

    def has_code_for(self, sizes: Mapping[str, int]) -> bool:
        """True if no value is empty at these sizes, which eager code may raise for."""
        return all(sizes[name] >= least for name, least in self._min_sizes.items()) \
            and not self._is_empty_at(sizes)

    def _is_empty_at(self, sizes: Mapping[str, int]) -> bool:
        """True if a value has no elements at these sizes."""
        return any(length.value(sizes) == 0 for length in self._axis_sizes)

    # ---- the programs, for other callers
    def prepare(self) -> None:
        """Compiles the dynamic-shape program, with room for all sizes seen, if it is missing and
        possible."""
        seen = [state.sizes for state in self._states.values()]
        if seen and not self.refusal:
            largest = {name: max(sizes[name] for sizes in seen) for name in seen[0]}
            with _COMPILE_LOCK:
                cost = None if self.dynamic_program is not None \
                    and self.dynamic_program.has_room(largest) \
                    else self._compile_dynamic(largest)
            self._report_costs([] if cost is None else [cost])

    def seen_sizes(self) -> tuple[str, int, list[SeenSizes]]:
        """The reason why there is no dynamic-shape program, the number of specializations, and the
        sets of sizes seen so far."""
        seen = [SeenSizes(key, dict(state.sizes), state.empty, state.uses,
                          state.program if state.compiled else None)
                for key, state in self._states.items()]
        return self.refusal, self._specialized_count, seen

    def restore(self, sized: DynamicProgram | None, refusal: str, specialized: int,
                seen: Iterable[SeenSizes]) -> None:
        """Starts with a dynamic-shape program, and with the result of `seen_sizes`."""
        self.dynamic_program, self.refusal, self._specialized_count = sized, refusal, specialized
        self._dynamic_count = int(sized is not None)
        for shapes, sizes, empty, uses, program in seen:
            state = self._states.add(shapes, SpecializationState(sizes, empty))
            state.uses, state.program, state.compiled = uses, program, program is not None
            state.next_check = math.inf if state.compiled else state.next_check

    # ---- insight
    @property
    def specializations(self) -> list[SpecializationState]:
        """The sets of sizes seen so far, most used first."""
        return sorted(self._states.values(), key=lambda state: -state.uses)

    @property
    def _compiled_programs(self) -> list[tuple[dict[str, int], Specialization]]:
        """The compiled programs, each with its sizes or its capacity."""
        programs: dict[Any, tuple[dict[str, int], Specialization]] = {}
        for state in self.specializations:
            if state.program is not None and (state.compiled or state.dynamic_program is not None):
                sizes = state.sizes if state.compiled or state.dynamic_program is None else \
                    state.dynamic_program.capacity
                programs.setdefault(state if state.compiled else state.dynamic_program,
                                    (dict(sizes), state.program))
        return list(programs.values())

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel of every compiled program, with its `sizes`: the capacity of a
        dynamic-shape program."""
        return [{**row, "sizes": sizes} for sizes, program in self._compiled_programs
                for row in program.rows()]

    def listings(self) -> list[dict[str, Any]]:
        """Every compiled program as plain data, with its `sizes` in the title and in each row."""
        return [{**of, "title": f"{format_sizes(sizes)} {of['title']}".strip(),
                 "kernels": [{**row, "sizes": sizes} for row in of["kernels"]]}
                for sizes, program in self._compiled_programs for of in program.listings()]

    @property
    def memory(self) -> Memory:
        """The memory of a call at those sizes, of all seen so far, that take most."""
        nothing = Memory(0, 0, 0)
        memories = [state.program.memory for state in self.specializations
                    if state.program is not None]
        return max(memories, key=lambda m: m.peak, default=nothing)

    def explain(self) -> str:
        """The sets of sizes, with the kernels of each program that has code."""
        titles = [state.title for state in self.specializations]
        if self.refusal and self._compile_any is not None:
            titles.append(f"no dynamic-shape program: {self.refusal}")
        tables = [f"{format_sizes(sizes)}\n{program.explain()}"
                  for sizes, program in self._compiled_programs]
        return "\n".join([*titles, *tables])

    @property
    def code(self) -> str:
        """The generated code of the most used set of sizes that has some."""
        return next((program.code for _, program in self._compiled_programs), "")

    @property
    def assembly(self) -> str:
        """The machine code of the most used set of sizes that has some, as text."""
        return next((program.assembly for _, program in self._compiled_programs), "")


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Formats sizes as `n = 3, m = 4`."""
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())


def _ignore(seconds: float, costs: Costs, peak: int) -> None:
    pass


# ---- where sizes are found
def find_size_bindings(graph: Graph) -> dict[str, SizeBinding]:
    """The binding of each named size: an axis of that length, or else one it follows from."""
    axes = [(i, axis, _linear_size(size_expr_of(size))) for i, node in enumerate(graph.inputs)
            for axis, size in enumerate(node.type.shape)]
    candidates = [(line[0], SizeBinding(i, axis, *line[1:])) for i, axis, line in axes
                  if line is not None]
    plain = {name: at for name, at in reversed(candidates) if at[2:] == (1, 0)}
    bindings = {name: at for name, at in reversed(candidates)} | plain
    missing = _named_sizes(graph).keys() - bindings.keys()
    if missing:
        raise CodegenError(f"no input's shape determines the size {', '.join(sorted(missing))}")
    return bindings


def _linear_size(size: SizeExpr) -> tuple[str, int, int] | None:
    """(name, scale, offset) of a size scale * name + offset; None for any other formula."""
    offset = sum(c for monomial, c in size.terms if not monomial)
    rest = [term for term in size.terms if term[0]]
    if len(rest) != 1 or len(rest[0][0]) != 1:
        return None
    ((atom, power),), scale = rest[0]
    return (atom.name, scale, offset) if isinstance(atom, SizeSymbol) and power == 1 else None


def _named_sizes(graph: Graph) -> dict[str, SizeSymbol]:
    """The named sizes of a graph."""
    nodes = (*graph.inputs, *graph.nodes())
    return {s.name: s for n in nodes for dim in dims_in((n.type.shape, *n.params.values()))
            for s in dim.expr.named()}
