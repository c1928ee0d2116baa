"""What a library is made of: the recording of a function, and the programs for its sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...capture.graph.device_placement import without_transfers
from ...capture.graph.graph import Graph, Node, topological
from ...capture.sizes.symbolic_dim import ShapeEnv, SizeCondition, size_expr_of
from ...codegen.dynamic.prime_unification import SizeFormula
from ...codegen.runtime.target import Target
from ...eager.arrays.devices import host
from ...eager.core.op import OPS
from ...eager.errors import CodegenError, ExportError
from ..onnx.model.arguments import Arguments, arguments, further
from ..onnx.model.trace import check_fixed, conditions_of, explored, inference, plain, results_of
from .abi import MOST_SIZES
from .if_conversion import in_words, outputs_of
from .library_module import ArraySpec, Library
from .program import Compiler, LibraryProgram, Shape
from .weights import WeightPool

LARGEST = 64  # of a size, where nothing else is asked for
_TRIED = 1 << 20  # sets of sizes for which conditions are looked at


@dataclass(frozen=True)
class Recording:
    """A recording: its graph, whose last inputs are the weights, with their arrays. `ranges`: the
    least and the largest of each size that varies; `known`: those that are to have code of their
    own."""

    graph: Graph
    given: int  # inputs before the weights
    arrays: Sequence[Any]
    output_names: Sequence[str]
    ranges: Mapping[str, tuple[int, int]]
    known: Sequence[Mapping[str, int]]
    notes: Sequence[str]

    def library(self, name: str, target: Target, threads: int, inside: bool
                ) -> tuple[Library, list[str]]:
        """The library of it, and what is to be said of it."""
        weights, notes = WeightPool(), list(self.notes)
        compiler = Compiler(target, threads, self.given, self.arrays, weights)
        programs = self._programs(compiler, notes)
        names = [*(n.params["name"] for n in self.graph.inputs[:self.given]), *self.output_names]
        arrays = [ArraySpec(name, n.type.dtype, tuple(map(size_expr_of, n.type.shape)))
                  for name, n in zip(names, (*self.graph.inputs[:self.given], *self.graph.outputs))]
        block = b"" if weights.empty else weights.block()
        return Library(name, arrays[:self.given], arrays[self.given:], [*self.ranges], programs,
                       block, inside), notes

    def _programs(self, compiler: Compiler, notes: list[str]) -> list[LibraryProgram]:
        """The programs, those for just one set of sizes first."""
        try:
            programs = [compiler.fixed(self.graph, sizes) for sizes in self.known]
        except CodegenError as error:
            raise ExportError(f"aot.build: {error.message}", _HELP) from error
        if not self.ranges:
            return programs
        try:
            shapes = [self._shape(n.type.shape) for n in self.graph.inputs]
            return [*programs, compiler.any_size(self.graph, self.ranges, shapes)]
        except CodegenError as error:
            if not programs:
                raise ExportError(f"aot.build: there is no code for all sizes: {error.message}",
                                  "name the sizes that it is to be for, by examples of them: "
                                  "examples=[(x,), ...]") from error
            notes.append(f"only for the sizes of the examples: {error.message}")
            return programs

    def _shape(self, shape: Sequence[Any]) -> Shape:
        """The shape of an input, whose sizes are numbers or have a name."""
        names = [*self.ranges]
        return tuple([SizeFormula(n.number) if n.number is not None else
                      SizeFormula(1, (names.index(n.name or ""),))
                      for n in map(size_expr_of, shape)])


_HELP = "what runs without Python has to be native code: write it with ops that have some"


class Wanted(NamedTuple):
    """What is asked of a recording: names, axes that vary and how far, further examples."""

    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_shapes: Any
    max_sizes: Mapping[str, int]
    examples: Sequence[Any]


def record(fn: Callable[..., Any], args: Any, wanted: Wanted) -> Recording:
    """The recording of fn(*args)."""
    fn = plain(fn)
    call = arguments(fn, args, wanted.input_names, wanted.dynamic_shapes)
    with inference(fn):
        more = [further(call, a) for a in wanted.examples]
        sizes = ShapeEnv({})
        ways = explored([call, *more], sizes, training=False, meeting=False)
        check_fixed(sizes)
        results = results_of(ways, [], wanted.output_names, call.names)
    given = next(iter(ways.runs.values()))[0].inputs
    graph, arrays = _graph(given, outputs_of(ways, results.nodes), ways.names)
    conditions = conditions_of(sizes)
    ranges = _ranges(call, more, wanted.max_sizes, conditions)
    return Recording(graph, len(given), arrays, results.names, ranges,
                     _known(call, more, conditions), in_words(ways))


def _graph(given: Sequence[Node], outputs: Sequence[Node], names: Any) -> tuple[Graph, list[Any]]:
    """The graph of a function, and the arrays of its weights."""
    nodes = topological(outputs)
    reads = [n for n in nodes if n.op == "input" and n not in given]
    for node in nodes:
        if node.op in OPS and OPS[node.op].draws:
            raise _error_at(node, "random numbers would be the same in each call",
                            "take them as an argument")
    first = len(given)
    kept = frozenset(range(first, first + len(reads)))
    graph = without_transfers(Graph((*given, *reads), tuple(outputs), persistent=kept))
    return graph, [host(names.outside[n].array) for n in reads]


def _error_at(node: Node, why: str, help: str) -> ExportError:
    error = ExportError(f"aot.build: {why}", help)
    error.line = node.site
    return error


# ---- sizes
def _known(call: Arguments, examples: Iterable[Arguments], conditions: Iterable[SizeCondition]
           ) -> list[dict[str, int]]:
    """The sets of sizes that get code of their own: those of examples, or the only one."""
    if not call.sizes():
        return [{}]
    found = {tuple(e.sizes().items()): e.sizes() for e in examples}
    for sizes in found.values():
        for condition in conditions:
            if not condition.holds(sizes):
                raise ExportError(f"aot.build: the function was recorded for {condition}, which "
                                  f"the example with {_in_words(sizes)} is not",
                                  "leave it out, or build a library of its own for it")
    return [*found.values()]


def _ranges(call: Arguments, examples: Iterable[Arguments], wanted: Mapping[str, int],
            conditions: Sequence[SizeCondition]) -> dict[str, tuple[int, int]]:
    """The least and the largest values of the sizes that vary."""
    sizes = call.sizes()
    unknown = [name for name in wanted if name not in sizes]
    if unknown:
        raise ExportError(f"aot.build: max_sizes names {', '.join(unknown)}, and no axis that "
                          "varies is called so", f"such are {', '.join(sizes) or 'none'}")
    if len(sizes) > MOST_SIZES:
        raise ExportError(f"aot.build: {len(sizes)} sizes vary, and at most {MOST_SIZES} can")
    found = {}
    for name, size in sizes.items():
        largest = max(size, *[e.sizes()[name] for e in examples], wanted.get(name, LARGEST)) \
            if name not in wanted else wanted[name]
        own = [c for c in conditions if c.expr.symbols() == {name}]
        found[name] = _where(name, size, largest, own)
    _check_conditions(found, [c for c in conditions if len(c.expr.symbols()) > 1])
    return found


def _where(name: str, size: int, largest: int, conditions: Sequence[SizeCondition]
           ) -> tuple[int, int]:
    """The values of a size around that of the example for which all conditions hold."""
    def holds(n: int) -> bool:
        return all(c.holds({name: n}) for c in conditions)

    if not 1 <= size <= largest:
        raise ExportError(f"aot.build: the largest {name} is to be {largest}, and the example has "
                          f"{size}", "give an example with fewer elements")
    start = size if holds(size) else next((n for n in range(1, largest + 1) if holds(n)), 0)
    if not start:
        raise ExportError(f"aot.build: the function holds only where {conditions[0]}, which is no "
                          f"{name} up to {largest}", "give a larger one in max_sizes")
    least = next((n + 1 for n in range(start - 1, 0, -1) if not holds(n)), 1)
    most = next((n - 1 for n in range(start + 1, largest + 1) if not holds(n)), largest)
    return least, most


def _check_conditions(ranges: Mapping[str, tuple[int, int]], conditions: Sequence[SizeCondition]
                      ) -> None:
    """ExportError for a condition on several sizes that does not hold for all of them."""
    for condition in conditions:
        names = sorted(condition.expr.symbols())
        values = [range(ranges[n][0], ranges[n][1] + 1) for n in names]
        if math.prod(map(len, values)) > _TRIED or not all(
                condition.holds(dict(zip(names, each))) for each in itertools.product(*values)):
            raise ExportError(f"aot.build: the function holds only where {condition}, which not "
                              f"all sizes up to {_in_words({n: ranges[n][1] for n in names})} are",
                              "give smaller ones in max_sizes, or one name to sizes that are equal")


def _in_words(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())

