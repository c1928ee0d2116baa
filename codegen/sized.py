"""A graph with symbolic sizes: code for each set of sizes that is met more than once.

Code for fixed sizes is the fastest to run, but takes far longer to make than a call without it: for
a network of 67 ops over 8 rows 0.4 s, where a call takes 0.9 ms op by op and 0.05 ms compiled. So a
set of sizes that is met for the first time runs op by op, in the time that eager takes and about 1
ms more, and gets code when it is met again; the more sets have code, the more often another one
must have been met. The batches of 1 to 64 examples that a model meets once cost no compilation, the
one size that it is trained with costs one. Counts decide, not times, so that a run of a program
gives the same bits as the last one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ..capture.costs import Costs, Memory, making
from ..capture.dims import formula
from ..capture.graph import Graph
from ..capture.passes.specialise import dims_in, has_symbols, specialise
from ..capture.polynomial import Expr, Symbol
from ..eager.errors import CodegenError, GraphError
from ..eager.forking import held_while_forking
from .mixed import call_by_call

__all__ = ["LIMIT", "SizedExecutable", "compile_sized", "has_symbols"]

LIMIT = 64  # sets of sizes that are kept; the least used one makes room
AGAIN = 2  # the meeting with a set of sizes at which it gets code, for the first
EACH = 4  # that do; for the next so many it is one later, and so on

_LOCK = held_while_forking(threading.RLock())


class Compiled(Protocol):
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


Backend = Callable[[Graph], Compiled]


class Place(NamedTuple):
    """Where a size is found: an input's axis has `scale` times it, plus `offset`."""

    input: int
    axis: int
    scale: int
    offset: int


class Variant:
    """What is known of one set of sizes: how often it was met, and what runs it."""

    __slots__ = ("compiled", "empty", "program", "sizes", "uses")

    def __init__(self, sizes: Mapping[str, int], program: Compiled, empty: bool) -> None:
        """empty: it never gets code, as some of its values have no elements: eager refuses, say,
        their maximum."""
        self.sizes, self.program, self.empty = sizes, program, empty
        self.uses, self.compiled = 0, False

    @property
    def at(self) -> str:
        return ", ".join(f"{name} = {n}" for name, n in self.sizes.items())

    @property
    def title(self) -> str:
        how = "as native code" if self.compiled else "op by op"
        return f"{self.at}: met {self.uses} times, runs {how}"


def compile_sized(graph: Graph, backend: Backend) -> SizedExecutable:
    """A callable for all sizes of a graph that holds symbolic ones. `backend` compiles a graph
    of fixed sizes. CodegenError where an input's shape does not tell what a size is."""
    return SizedExecutable(graph, backend)


class SizedExecutable:
    """Programs by sizes, made as they are met. Calls may come from several threads at once."""

    def __init__(self, graph: Graph, backend: Backend) -> None:
        self.graph, self.backend = graph, backend
        self.compile_seconds, self._made = 0.0, 0
        # Is told what making code took, and the memory that a call of it takes.
        self.spent: Callable[[float, Costs, int], None] = _ignore
        self._places = find_places(graph)
        self._varying = [i for i, n in enumerate(graph.inputs)
                         if any(formula(size).number is None for size in n.type.shape)]
        self._variants: dict[tuple[Any, ...], Variant] = {}
        self._least = {name: size.least for name, size in _names(graph).items()}

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs for these inputs. GraphError for shapes that the graph is not for."""
        key = tuple([arrays[i].shape for i in self._varying])
        variant = self._variants.get(key) or self._meet(key, arrays)
        variant.uses += 1
        often = variant.uses >= AGAIN + self._made // EACH
        if often and not variant.compiled and not variant.empty:
            self._compile(variant)
        return variant.program(arrays)

    def _meet(self, key: Any, arrays: list[Any]) -> Variant:
        with _LOCK:
            if key not in self._variants:
                sizes = self.sizes_of(arrays)
                if len(self._variants) >= LIMIT:
                    least = min(self._variants, key=lambda k: self._variants[k].uses)
                    del self._variants[least]
                graph = specialise(self.graph, sizes)
                self._variants[key] = Variant(sizes, call_by_call(graph), _is_empty(graph))
            return self._variants[key]

    def _compile(self, variant: Variant) -> None:
        with _LOCK:
            if variant.compiled:
                return
            start, costs = time.perf_counter(), Costs()
            with making(variant.at, costs):
                variant.program = self.backend(specialise(self.graph, variant.sizes))
            variant.compiled = True
            self._made += 1
            seconds = time.perf_counter() - start
            self.compile_seconds += seconds
        # Outside of the lock: who listens may hold locks of its own.
        self.spent(seconds, costs, variant.program.memory.peak)

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

    # ---- insight
    @property
    def variants(self) -> list[Variant]:
        """The sets of sizes met so far, most used first."""
        return sorted(self._variants.values(), key=lambda v: -v.uses)

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel of every set of sizes that has code, with these `sizes`."""
        return [{**row, "sizes": dict(v.sizes)} for v in self.variants if v.compiled
                for row in v.program.rows()]

    @property
    def memory(self) -> Memory:
        """What a call takes at the sizes, of those met so far, at which that is most."""
        nothing = Memory(0, 0, 0)
        return max([v.program.memory for v in self.variants], key=lambda m: m.peak, default=nothing)

    def explain(self) -> str:
        """The sets of sizes, with the kernels of each that has code."""
        return "\n".join(f"{v.title}\n{v.program.explain()}" if v.compiled else v.title
                         for v in self.variants)

    @property
    def code(self) -> str:
        """The generated code of the most used set of sizes that has some."""
        return next((v.program.code for v in self.variants if v.compiled), "")

    @property
    def assembly(self) -> str:
        """The machine code of the most used set of sizes that has some, as text."""
        return next((v.program.assembly for v in self.variants if v.compiled), "")


def _ignore(seconds: float, costs: Costs, peak: int) -> None:
    pass


def _is_empty(graph: Graph) -> bool:
    return any(0 in n.type.shape for n in (*graph.inputs, *graph.nodes()))


# ---- where sizes are found
def find_places(graph: Graph) -> dict[str, Place]:
    """For each named size where it is found: an axis that it is, or else one it follows from."""
    axes = [(i, axis, _line(formula(size))) for i, node in enumerate(graph.inputs)
            for axis, size in enumerate(node.type.shape)]
    known = [(line[0], Place(i, axis, *line[1:])) for i, axis, line in axes if line is not None]
    plain = {name: at for name, at in reversed(known) if at[2:] == (1, 0)}
    found = {name: at for name, at in reversed(known)} | plain
    missing = _names(graph).keys() - found.keys()
    if missing:
        raise CodegenError(f"no input's shape tells the size {', '.join(sorted(missing))}")
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
