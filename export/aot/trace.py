"""Records a function and compiles the programs of its library, for ranges or sets of sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...capture.graph.device_placement import without_transfers
from ...capture.graph.graph import Graph, Node, topological
from ...capture.sizes.size_condition import SizeCondition
from ...capture.sizes.symbolic_dim import ShapeEnv, size_expr_of
from ...codegen.dynamic.prime_unification import SizeFormula
from ...codegen.runtime.target import Target
from ...eager.arrays.devices import host
from ...eager.core.op import OPS
from ...eager.errors import CodegenError, ExportError
from ..onnx.model.arguments import ExportArguments, arguments, further
from ..onnx.model.trace import check_fixed, conditions_of, explored, inference, plain, results_of
from .abi import MAX_SIZES
from .if_conversion import decision_notes, outputs_of
from .library_module import ArraySignature, Library
from .program import Compiler, NativeVariant, Shape
from .weights import Weights

DEFAULT_MAX_SIZE = 64  # the maximum of a dynamic size without an entry in `max_sizes`
_MAX_CHECKED_SIZE_SETS = 1 << 20  # conditions are evaluated for at most so many sets of sizes


@dataclass(frozen=True)
class Recording:
    """A recording of a function. The last inputs of the graph are the weights.

    `arrays`: the values of the weights
    `ranges`: the least and the largest value of each dynamic size
    `specialized`: the sets of sizes that get a program of their own
    """

    graph: Graph
    input_count: int  # inputs before the weights
    arrays: Sequence[Any]
    output_names: Sequence[str]
    ranges: Mapping[str, tuple[int, int]]
    specialized: Sequence[Mapping[str, int]]
    notes: Sequence[str]

    def library(self, name: str, target: Target, threads: int, embed: bool
                ) -> tuple[Library, list[str]]:
        """The library, and notes for its report."""
        weights, notes = Weights(), list(self.notes)
        compiler = Compiler(target, threads, self.input_count, self.arrays, weights)
        programs = self._programs(compiler, notes)
        names = [*(n.params["name"] for n in self.graph.inputs[:self.input_count]),
                 *self.output_names]
        arrays = [ArraySignature(name, n.type.dtype, tuple(map(size_expr_of, n.type.shape)))
                  for name, n in zip(names, (*self.graph.inputs[:self.input_count],
                                             *self.graph.outputs))]
        block = b"" if weights.empty else weights.block()
        return Library(name, arrays[:self.input_count], arrays[self.input_count:], [*self.ranges],
                       programs, block, embed), notes

    def _programs(self, compiler: Compiler, notes: list[str]) -> list[NativeVariant]:
        """The programs; those for one set of sizes come first."""
        try:
            programs = [compiler.fixed(self.graph, sizes) for sizes in self.specialized]
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
                                  "give examples of the sizes to build for: "
                                  "examples=[(x,), ...]") from error
            notes.append(f"built only for the sizes of the examples: {error.message}")
            return programs

    def _shape(self, shape: Sequence[Any]) -> Shape:
        """The shape of an input as formulas. Each of its sizes is a number or has a name."""
        names = [*self.ranges]
        return tuple([SizeFormula(n.number) if n.number is not None else
                      SizeFormula(1, (names.index(n.name or ""),))
                      for n in map(size_expr_of, shape)])


_HELP = "a library runs without Python: use ops that have native code"


class RecordingOptions(NamedTuple):
    """Options of a recording: names, dynamic axes with their maxima, further examples."""

    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_shapes: Any
    max_sizes: Mapping[str, int]
    examples: Sequence[Any]


def record(fn: Callable[..., Any], args: Any, options: RecordingOptions) -> Recording:
    """The recording of fn(*args)."""
    fn = plain(fn)
    example = arguments(fn, args, options.input_names, options.dynamic_shapes)
    with inference(fn):
        examples = [further(example, a) for a in options.examples]
        sizes = ShapeEnv({})
        paths = explored([example, *examples], sizes, training=False, merging=False)
        check_fixed(sizes)
        results = results_of(paths, [], options.output_names, example.names)
    inputs = next(iter(paths.runs.values()))[0].inputs
    graph, arrays = _graph(inputs, outputs_of(paths, results.nodes), paths.names)
    conditions = conditions_of(sizes)
    ranges = _ranges(example, examples, options.max_sizes, conditions)
    return Recording(graph, len(inputs), arrays, results.names, ranges,
                     _specialized_sizes(example, examples, conditions), decision_notes(paths))


def _graph(inputs: Sequence[Node], outputs: Sequence[Node], names: Any) -> tuple[Graph, list[Any]]:
    """The graph of a function, and the arrays of its weights. ExportError for random numbers."""
    nodes = topological(outputs)
    reads = [n for n in nodes if n.op == "input" and n not in inputs]
    for node in nodes:
        if node.op in OPS and OPS[node.op].draws:
            raise _error_at(node, "random numbers would be the same in each call",
                            "pass them as an argument")
    first = len(inputs)
    persistent = frozenset(range(first, first + len(reads)))
    graph = without_transfers(Graph((*inputs, *reads), tuple(outputs), persistent=persistent))
    return graph, [host(names.outside[n].array) for n in reads]


def _error_at(node: Node, why: str, help: str) -> ExportError:
    error = ExportError(f"aot.build: {why}", help)
    error.line = node.site
    return error


# ---- sizes
def _specialized_sizes(example: ExportArguments, examples: Iterable[ExportArguments],
                       conditions: Iterable[SizeCondition]) -> list[dict[str, int]]:
    """The sets of sizes that get a program of their own: those of `examples`, or, if no size is
    dynamic, the only one."""
    if not example.sizes():
        return [{}]
    distinct = {tuple(e.sizes().items()): e.sizes() for e in examples}
    for sizes in distinct.values():
        for condition in conditions:
            if not condition.holds(sizes):
                raise ExportError(f"aot.build: the function was recorded for {condition}, and the "
                                  f"example with {_sizes_text(sizes)} does not satisfy this",
                                  "remove the example, or build a separate library for it")
    return [*distinct.values()]


def _ranges(example: ExportArguments, examples: Iterable[ExportArguments],
            max_sizes: Mapping[str, int],
            conditions: Sequence[SizeCondition]) -> dict[str, tuple[int, int]]:
    """The least and the largest value of each dynamic size."""
    sizes = example.sizes()
    unknown = [name for name in max_sizes if name not in sizes]
    if unknown:
        raise ExportError(f"aot.build: max_sizes names {', '.join(unknown)}, and no dynamic axis "
                          "has this name", f"the names are {', '.join(sizes) or 'none'}")
    if len(sizes) > MAX_SIZES:
        raise ExportError(f"aot.build: {len(sizes)} sizes are dynamic, at most {MAX_SIZES} are "
                          "supported", "give sizes that are equal one name, or fix some of them")
    ranges = {}
    for name, size in sizes.items():
        largest = max(size, *[e.sizes()[name] for e in examples],
                      max_sizes.get(name, DEFAULT_MAX_SIZE)) \
            if name not in max_sizes else max_sizes[name]
        conditions_on_one = [c for c in conditions if c.expr.symbols() == {name}]
        ranges[name] = _range_around(name, size, largest, conditions_on_one)
    _check_conditions(ranges, [c for c in conditions if len(c.expr.symbols()) > 1])
    return ranges


def _range_around(name: str, size: int, largest: int, conditions: Sequence[SizeCondition]
                  ) -> tuple[int, int]:
    """The least and the largest value around the example's size for which all conditions hold."""
    def holds(n: int) -> bool:
        return all(c.holds({name: n}) for c in conditions)

    if not 1 <= size <= largest:
        raise ExportError(f"aot.build: the maximum of {name} is {largest}, and the example has "
                          f"{size}", "give an example with fewer elements")
    anchor = size if holds(size) else next((n for n in range(1, largest + 1) if holds(n)), 0)
    if not anchor:
        raise ExportError(f"aot.build: the recording is valid only for {conditions[0]}, and no "
                          f"{name} up to {largest} satisfies this",
                          "give a larger one in max_sizes")
    least = next((n + 1 for n in range(anchor - 1, 0, -1) if not holds(n)), 1)
    most = next((n - 1 for n in range(anchor + 1, largest + 1) if not holds(n)), largest)
    return least, most


def _check_conditions(ranges: Mapping[str, tuple[int, int]], conditions: Sequence[SizeCondition]
                      ) -> None:
    """Raises ExportError if a condition on several sizes fails for some sizes in the ranges."""
    for condition in conditions:
        names = sorted(condition.expr.symbols())
        values = [range(ranges[n][0], ranges[n][1] + 1) for n in names]
        if math.prod(map(len, values)) > _MAX_CHECKED_SIZE_SETS or not all(
                condition.holds(dict(zip(names, each))) for each in itertools.product(*values)):
            raise ExportError(
                f"aot.build: the recording is valid only for {condition}, and some sizes up to "
                f"{_sizes_text({n: ranges[n][1] for n in names})} do not satisfy this",
                "give smaller ones in max_sizes, or one name to sizes that are equal")


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())

