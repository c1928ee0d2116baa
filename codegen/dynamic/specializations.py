"""A graph with symbolic sizes: one program for all of them, and code of its own for a frequent one.

The second set of sizes that is met makes a program for any (see `anysize`), which is nearly as fast
as code for fixed sizes; a set that is met very often then gets such code as well. Where no program
can be for any size, the first meeting with a set runs op by op, in the time that eager takes and
about 1 ms more, and it gets code when it is met again; the more sets have code, the more often
another one must have been met, as making code takes far longer than a call without it. Counts
decide, not times, so that a run of a program gives the same bits as the last one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from ...capture.graph.bind_sizes import bind_sizes, dims_in, has_symbols
from ...capture.graph.graph import Graph
from ...capture.runtime.compile_queue import Job, Jobs, go_on
from ...capture.runtime.metrics import Costs, Memory, making
from ...capture.sizes.size_expr import Expr, Symbol
from ...capture.sizes.symbolic_dim import formula
from ...eager.errors import CodegenError, FusewireError, GraphError
from ...eager.fork_safety import held_while_forking
from ..partition.hybrid_executable import call_by_call
from .dynamic_program import DynamicProgram

__all__ = ["LIMIT", "DynamicExecutable", "has_symbols"]

LIMIT = 64  # sets of sizes that are kept; the least used one makes room
AGAIN = 2  # the meeting with a set of sizes at which it gets code, for the first
EACH = 4  # that do; for the next so many it is one later, and so on
OPENED = 8  # programs for any size, each for twice the size of the last one
OFTEN = 500  # the meeting at which it gets code of its own beside a program for any size

_LOCK = held_while_forking(threading.RLock())
_MAKING = held_while_forking(threading.RLock())


class Specialization(Protocol):
    """A graph of fixed sizes, ready to be called."""

    def __call__(self, arrays: list[Any]) -> list[Any]: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def explain(self) -> str: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def code(self) -> str: ...
    @property
    def assembly(self) -> str: ...


_Cost = tuple[float, Costs, int]  # seconds, their parts, and the peak memory of a call
Backend = Callable[[Graph], Specialization]
ForAny = Callable[[Graph, Mapping[str, int]], DynamicProgram]


class SizeBinding(NamedTuple):
    """Where a size is found: an input's axis has `scale` times it, plus `offset`."""

    input: int
    axis: int
    scale: int
    offset: int


class SpecializationState:
    """What is known of one set of sizes: how often it was met, and what runs it."""

    __slots__ = ("any", "compiled", "empty", "job", "look", "program", "sizes", "uses")

    def __init__(self, sizes: Mapping[str, int], empty: bool) -> None:
        """empty: it never gets code, as some of its values have no elements: eager refuses, say,
        their maximum."""
        self.sizes, self.empty = sizes, empty
        self.program: Specialization | None = None
        self.uses, self.compiled = 0, False  # compiled: for just these sizes
        self.look = math.inf if empty else 0  # from which use on there may be better code
        self.any: DynamicProgram | None = None
        self.job: Job[None] | None = None  # of another thread, which looks for better code

    @property
    def at(self) -> str:
        return in_words(self.sizes)

    @property
    def title(self) -> str:
        how = "specialized native code" if self.compiled else \
            "op by op" if self.any is None else \
            f"dynamic-shape program, capacity {in_words(self.any.capacity)}"
        later = ", until background compilation ends" if self.job and self.job.is_awaited else ""
        return f"{self.at}: {self.uses} call{'' if self.uses == 1 else 's'}, {how}{later}"


class SeenSizes(NamedTuple):
    """A set of sizes as it is kept elsewhere: shapes of inputs, and code for just these sizes."""

    shapes: tuple[Any, ...]
    sizes: dict[str, int]
    empty: bool
    uses: int
    program: Specialization | None


class DynamicExecutable:
    """Programs by sizes, made as they are met. Calls may come from several threads at once."""

    def __init__(self, graph: Graph, backend: Backend, for_any: ForAny | None = None,
                 checked: Callable[[Graph, Specialization], Specialization] | None = None) -> None:
        """backend(graph) compiles a graph of fixed sizes, for_any(graph, sizes) one for any sizes
        up to at least these, if that can be; checked(graph, program) puts a check around such a
        program. CodegenError where an input's shape does not tell what a size is."""
        self.graph, self._backend, self._for_any, self._checked = graph, backend, for_any, checked
        self.any: DynamicProgram | None = None
        self.refusal = "" if for_any is not None else "nobody can make one"  # of such a program
        self.compile_seconds, self._made, self._opened = 0.0, 0, 0
        # Is told what making code took, and the memory that a call of it takes.
        self.spent: Callable[[float, Costs, int], None] = _ignore
        self.jobs: Jobs | None = None  # where code is made that calls do not wait for
        self._places = find_places(graph)
        self._varying = [i for i, n in enumerate(graph.inputs)
                         if any(formula(size).number is None for size in n.type.shape)]
        self._variants: dict[tuple[Any, ...], SpecializationState] = {}
        self._least = {name: size.least for name, size in _names(graph).items()}
        self._lengths = {formula(n) for node in (*graph.inputs, *graph.nodes())
                         for n in node.type.shape}

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs. GraphError for shapes that the graph is not for."""
        key = tuple([arrays[i].shape for i in self._varying])
        variant = self._variants.get(key) or self._meet(key, arrays)
        variant.uses += 1
        if variant.uses >= variant.look:
            self._improve_later(variant, self.jobs) if self.jobs else self._improve_now(variant)
        return (variant.program or self._by_ops(variant))(arrays)

    def _meet(self, key: Any, arrays: list[Any]) -> SpecializationState:
        with _LOCK:
            if key not in self._variants:
                sizes = self.sizes_of(arrays)
                if len(self._variants) >= LIMIT:
                    least = min(self._variants, key=lambda k: self._variants[k].uses)
                    del self._variants[least]
                empty = any(length.value(sizes) == 0 for length in self._lengths)
                self._variants[key] = SpecializationState(sizes, empty)
            return self._variants[key]

    def _by_ops(self, variant: SpecializationState) -> Specialization:
        """A program that needs no code."""
        program: Specialization = call_by_call(bind_sizes(self.graph, variant.sizes))
        with _LOCK:
            variant.program = variant.program or program
            return variant.program

    def _improve_now(self, variant: SpecializationState) -> None:
        with _MAKING:
            made = self._improve(variant)
        self._tell(made)  # outside of the lock: who listens may hold locks too

    def _improve_later(self, variant: SpecializationState, jobs: Jobs) -> None:
        """The same by the other thread, if it is time. Raises what went wrong there."""
        job = variant.job
        if job is not None:
            job.look()
        if job is not None and job.is_awaited:
            go_on()
        elif self._is_time(variant):
            variant.job = jobs.begin(lambda: self._tell(self._improve(variant)))

    def _tell(self, made: list[_Cost]) -> None:
        for cost in made:
            self.compile_seconds += cost[0]
            self.spent(*cost)

    def _is_time(self, variant: SpecializationState) -> bool:
        """Whether there can be better code for a set of sizes now."""
        return self._opens(variant) or self._deserves_own(variant)

    def _opens(self, variant: SpecializationState) -> bool:
        several = len(self._variants) > 1 or self.any is not None
        return variant.any is None and several and self._may_open(variant)

    def _deserves_own(self, variant: SpecializationState) -> bool:
        again = AGAIN if variant.any is None else OFTEN
        return variant.uses >= again + self._made // EACH and not variant.compiled

    def _improve(self, variant: SpecializationState) -> list[_Cost]:
        """Makes code for a set of sizes that has none of its own, if it is time, and tells what
        that took."""
        made = []
        if self._opens(variant):
            made.append(self._open(variant))
        if self._deserves_own(variant):
            made.append(self._compile(variant))
        variant.look = math.inf if variant.compiled else 0 if variant.any is None else OFTEN
        return list(filter(None, made))

    def _may_open(self, variant: SpecializationState) -> bool:
        """Whether there is a program for any size with room for these, or one can be tried."""
        return (not self.refusal and self._opened < OPENED) or (
            self.any is not None and self.any.has_room(variant.sizes))

    def _open(self, variant: SpecializationState) -> _Cost | None:
        """Lets a set of sizes run the program for any size, and tells what making that took."""
        cost = None
        if self.any is None or not self.any.has_room(variant.sizes):
            cost = self._make_open(variant.sizes)
        if self.any is not None and self.any.has_room(variant.sizes):
            program: Specialization = self.any.at(variant.sizes)
            if self._checked is not None:
                program = self._checked(bind_sizes(self.graph, variant.sizes), program)
            with _LOCK:
                variant.any, variant.program = self.any, program
        return cost

    def _make_open(self, least: Mapping[str, int]) -> _Cost:
        assert self._for_any is not None
        self._opened += 1
        if self.any is not None:  # what grew once will grow again
            room = self.any.capacity
            least = {name: max(room[name], 2 * n if n > room[name] else 0)
                     for name, n in least.items()}
        start, costs = time.perf_counter(), Costs()
        try:
            with making(f"any {', '.join(least)}", costs):
                self.any = self._for_any(self.graph, least)
        except FusewireError as error:
            self.refusal = str(error).splitlines()[0]
        peak = 0 if self.any is None else self.any.program.memory.peak
        return time.perf_counter() - start, costs, peak

    def _compile(self, variant: SpecializationState) -> _Cost:
        """Makes code for just these sizes."""
        start, costs = time.perf_counter(), Costs()
        with making(variant.at, costs):
            program = self._backend(bind_sizes(self.graph, variant.sizes))
        with _LOCK:
            variant.program, variant.compiled = program, True
            self._made += 1
        return time.perf_counter() - start, costs, program.memory.peak

    def sizes_of(self, arrays: list[Any]) -> dict[str, int]:
        """The named sizes, read off the arrays' shapes."""
        sizes = {name: (arrays[at.input].shape[at.axis] - at.offset) // at.scale
                 for name, at in self._places.items()}
        for i in self._varying:
            wanted = tuple(formula(n).value(sizes) for n in self.graph.inputs[i].type.shape)
            if arrays[i].shape != wanted or any(n < self._least[name]
                                                for name, n in sizes.items()):
                raise GraphError(f"input {i} has shape {arrays[i].shape}, where the recording is "
                                 f"for {self.graph.inputs[i].type}")
        return sizes

    # ---- what is there, to be taken elsewhere
    def prepare(self) -> None:
        """Makes the program for any size, with room for all sizes met, if it is not there and can
        be."""
        met = [v.sizes for v in self._variants.values()]
        if met and not self.refusal:
            most = {name: max(sizes[name] for sizes in met) for name in met[0]}
            with _MAKING:
                cost = None if self.any is not None and self.any.has_room(most) \
                    else self._make_open(most)
            self._tell([] if cost is None else [cost])

    def met(self) -> tuple[str, int, list[SeenSizes]]:
        """Why there is no program for any size, how many have code of their own, and the sets of
        sizes met so far."""
        found = [SeenSizes(key, dict(v.sizes), v.empty, v.uses, v.program if v.compiled else None)
                 for key, v in self._variants.items()]
        return self.refusal, self._made, found

    def begin(self, sized: DynamicProgram | None, refusal: str, made: int,
              known: Iterable[SeenSizes]) -> None:
        """Begins with a program for any size, and with what `met` gave."""
        self.any, self.refusal, self._made = sized, refusal, made
        self._opened = int(sized is not None)
        for shapes, sizes, empty, uses, program in known:
            variant = self._variants[shapes] = SpecializationState(sizes, empty)
            variant.uses, variant.program, variant.compiled = uses, program, program is not None
            variant.look = math.inf if variant.compiled else variant.look

    # ---- insight
    @property
    def variants(self) -> list[SpecializationState]:
        """The sets of sizes met so far, most used first."""
        return sorted(self._variants.values(), key=lambda v: -v.uses)

    @property
    def _programs(self) -> list[tuple[dict[str, int], Specialization]]:
        """The programs that have code, and the sizes that each is for, or the largest ones."""
        found: dict[Any, tuple[dict[str, int], Specialization]] = {}
        for v in self.variants:
            if v.program is not None and (v.compiled or v.any is not None):
                sizes = v.sizes if v.compiled or v.any is None else \
                    v.any.capacity
                found.setdefault(v if v.compiled else v.any, (dict(sizes), v.program))
        return list(found.values())

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel of every program that has code, with its `sizes`: those of a program for
        any size are its largest."""
        return [{**row, "sizes": sizes} for sizes, program in self._programs
                for row in program.rows()]

    @property
    def memory(self) -> Memory:
        """What a call takes at the sizes, of those met so far, at which that is most."""
        nothing = Memory(0, 0, 0)
        found = [v.program.memory for v in self.variants if v.program is not None]
        return max(found, key=lambda m: m.peak, default=nothing)

    def explain(self) -> str:
        """The sets of sizes, with the kernels of each program that has code."""
        titles = [v.title for v in self.variants]
        if self.refusal and self._for_any is not None:
            titles.append(f"no dynamic-shape program: {self.refusal}")
        tables = [f"{in_words(sizes)}\n{program.explain()}" for sizes, program in self._programs]
        return "\n".join([*titles, *tables])

    @property
    def code(self) -> str:
        """The generated code of the most used set of sizes that has some."""
        return next((program.code for _, program in self._programs), "")

    @property
    def assembly(self) -> str:
        """The machine code of the most used set of sizes that has some, as text."""
        return next((program.assembly for _, program in self._programs), "")


def in_words(sizes: Mapping[str, int]) -> str:
    """`n = 3, m = 4`."""
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())


def _ignore(seconds: float, costs: Costs, peak: int) -> None:
    pass


# ---- where sizes are found
def find_places(graph: Graph) -> dict[str, SizeBinding]:
    """For each named size where it is found: an axis that it is, or else one it follows from."""
    axes = [(i, axis, _line(formula(size))) for i, node in enumerate(graph.inputs)
            for axis, size in enumerate(node.type.shape)]
    known = [(line[0], SizeBinding(i, axis, *line[1:])) for i, axis, line in axes
             if line is not None]
    plain = {name: at for name, at in reversed(known) if at[2:] == (1, 0)}
    found = {name: at for name, at in reversed(known)} | plain
    missing = _names(graph).keys() - found.keys()
    if missing:
        raise CodegenError(f"no input's shape determines the size {', '.join(sorted(missing))}")
    return found


def _line(size: Expr) -> tuple[str, int, int] | None:
    """(name, scale, offset) of a size scale * name + offset; None for any other formula."""
    offset = sum(c for monomial, c in size.terms if not monomial)
    rest = [term for term in size.terms if term[0]]
    if len(rest) != 1 or len(rest[0][0]) != 1:
        return None
    ((atom, power),), scale = rest[0]
    return (atom.name, scale, offset) if isinstance(atom, Symbol) and power == 1 else None


def _names(graph: Graph) -> dict[str, Symbol]:
    """The named sizes of a graph."""
    nodes = (*graph.inputs, *graph.nodes())
    return {s.name: s for n in nodes for dim in dims_in((n.type.shape, *n.params.values()))
            for s in dim.expr.named()}
