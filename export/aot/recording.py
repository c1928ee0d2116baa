"""What a library is made of: the recording of a function, and the graphs of its programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...capture.dims import Sizes, formula
from ...capture.graph import Graph, Node, topological
from ...capture.polynomial import Expr
from ...capture.tree import Ends
from ...codegen.generalise import Formula
from ...codegen.llvm.target import Target
from ...eager.errors import ExportError
from ..onnx.arguments import arguments, further
from ..onnx.recording import check_fixed, conditions_of, explored, inference, plain, results_of
from .abi import MOST_SIZES
from .program import Compiler, Shape
from .tables import Library, Named
from .weights import Weights

LARGEST = 64  # of a size, where nothing else is asked for


@dataclass(frozen=True)
class Recorded:
    """A recording: its graph, whose last inputs are the weights, with their arrays."""

    graph: Graph
    given: int  # inputs before the weights
    arrays: Sequence[Any]
    output_names: Sequence[str]
    sizes: Mapping[str, int]  # the names of those that vary, and the largest of each
    notes: Sequence[str]

    @property
    def inputs(self) -> list[str]:
        """The inputs in words."""
        return [f"{n.params['name']}: {n.type}" for n in self.graph.inputs[:self.given]]

    @property
    def outputs(self) -> list[str]:
        """The outputs in words."""
        return [f"{name}: {n.type}" for name, n in zip(self.output_names, self.graph.outputs)]

    def library(self, name: str, target: Target, threads: int, inside: bool) -> Library:
        """The library of it. CodegenError where something has no native code."""
        weights = Weights()
        compiler = Compiler(target, threads, self.given, self.arrays, weights)
        shapes = [self._formulas(n.type.shape) for n in self.graph.inputs]
        if self.sizes:
            programs = [compiler.any_size(self.graph, self.sizes, shapes)]
        else:
            programs = [compiler.fixed(self.graph)]
        nodes = self.graph.inputs[:self.given]
        inputs = [Named(n.params["name"], n.type.dtype, s) for n, s in zip(nodes, shapes)]
        outputs = [Named(name, n.type.dtype, s) for name, n, s in
                   zip(self.output_names, self.graph.outputs, programs[-1].outputs)]
        return Library(name, inputs, outputs, [*self.sizes], programs,
                       b"" if weights.empty else weights.block(), inside)

    def _formulas(self, shape: Sequence[Any]) -> Shape:
        return tuple(self._formula(formula(n)) for n in shape)

    def _formula(self, size: Expr) -> Formula:
        """The size of an input, which is a number or has a name."""
        if size.number is not None:
            return Formula(size.number)
        assert size.name is not None, size
        return Formula(1, ([*self.sizes].index(size.name),))


def record(fn: Callable[..., Any], args: Any, dynamic: Any, largest: Mapping[str, int],
           examples: Sequence[Any]) -> Recorded:
    """The recording of fn(*args)."""
    fn = plain(fn)
    call = arguments(fn, args, None, dynamic)
    with inference(fn):
        more = [further(call, a) for a in examples]
        sizes = Sizes({})
        ways = explored([call, *more], sizes, training=False)
        check_fixed(sizes)
        results = results_of(ways, [], None, call.names)
        if not isinstance(ways.root, Ends):
            raise ExportError("aot.build: the function decides by the values of tensors, which is "
                              "not supported yet", "choose with fw.where(condition, x, y)")
        run = ways.runs[ways.root][0]
        sizes.closed = True
        outputs = results.nodes[ways.root]
        graph, arrays = _graph(run.inputs, outputs, ways.names)
        sizes.closed = False
    conditions = [f"only for {c}" for c in conditions_of(sizes)]
    return Recorded(graph, len(run.inputs), arrays, results.names,
                    _largest(call.sizes(), largest), conditions)


def _graph(given: Sequence[Node], outputs: Sequence[Node], names: Any) -> tuple[Graph, list[Any]]:
    """The graph of a function, and the arrays of its weights."""
    reads = [n for n in topological(outputs) if n.op == "input" and n not in given]
    numbers = [n for n in reads if n not in names.outside]
    if numbers:
        raise ExportError("aot.build: a number of Python that depends on tensors or sizes is "
                          "computed with, which is not supported yet", "compute with tensors")
    first = len(given)
    kept = frozenset(range(first, first + len(reads)))
    return Graph((*given, *reads), tuple(outputs), kept=kept), \
        [names.outside[n].array for n in reads]


def _largest(sizes: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The largest values of the sizes that vary."""
    unknown = [name for name in wanted if name not in sizes]
    if unknown:
        raise ExportError(f"aot.build: max_sizes names {', '.join(unknown)}, and no axis that "
                          "varies is called so", f"such are {', '.join(sizes) or 'none'}")
    if len(sizes) > MOST_SIZES:
        raise ExportError(f"aot.build: {len(sizes)} sizes vary, and at most {MOST_SIZES} can")
    return {name: max(wanted.get(name, LARGEST), size) for name, size in sizes.items()}
