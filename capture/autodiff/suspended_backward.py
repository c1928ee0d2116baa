"""The backward of results that depend on loops or merged branches.

A call of such a function ends at an exit of its control-flow graph. Its backward is a path of
blocks behind that exit: the trace of the call goes on through the backward of its results, without
running user code. A replay suspends the call at the exit. It resumes when the gradients arrive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...eager import interpreter
from ...eager.autograd.engine import freed_tape_error, gradients_between
from ...eager.autograd.function import ResultEntry
from ...eager.core.op import OPS
from ...eager.core.tape import MODE, Entry, Leaf
from ...eager.core.tensor import Tensor
from ...eager.ops import create
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.loop_gradients import LoopBackwardEvent, LoopGradNode, PhiGrad, pass_on
from ..control_flow.merge_gradients import (
    MergeGrad,
    MergeGradNode,
    collecting_optional,
    total,
)
from ..control_flow.merges import Merge, MergedBranch
from ..effects.effect_call import ClockRead
from ..graph.graph import Node
from ..heap.access_path import Path
from ..scalars.scalar_expr import ScalarExpr
from ..segments.segment import cone
from ..trace.output_spec import OutputSpecBuilder
from ..trace.tracer import Tracer
from .symbolic_tape import is_watched, ordered, paths_of_outside_edges

_OF_CONTROL_FLOW = (LoopGradNode, MergeGradNode, PhiGrad)


class GradientReturn(NamedTuple):
    """The last element of a backward path: returns the gradients `nodes` of these inputs. An input
    has no gradient if its number in `formulas` is 0."""

    inputs: tuple[int, ...]
    nodes: tuple[Node, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str = ""


class ResultGradient(NamedTuple):
    """A result that may receive a gradient: its number among the tensors of the outputs, its node,
    the node of its gradient, and the numbers of the results with which it shares entries of the
    tape."""

    tensor: int
    value: Node
    gradient: Node
    shares: frozenset[int]


class BackwardPath:
    """The backward of some results as the elements of a path, and as blocks from `root` on.
    `path_insertion` makes the blocks."""

    def __init__(self, given: tuple[int, ...], elements: Sequence[Any]) -> None:
        """given: the numbers of the results that receive gradients."""
        self.given, self.elements = given, elements
        self.root: Any = None


class SuspendedBackward:
    """The backward of a replayed call through blocks, which the call runs when it is resumed.

    There is a path for gradients of all results. If there are several, there is one for each as
    well: zeros for results without a gradient could make nan. `captures` are the values of the call
    that the blocks read; the planner sets them.
    """

    def __init__(self, variants: Sequence[BackwardPath], results: Sequence[ResultGradient],
                 paths: Sequence[Path], saved: Sequence[Node], location: str,
                 masks: Mapping[Node, tuple[bool, ...]]) -> None:
        """paths: of the inputs that receive gradients. saved: values of the exit's own segment that
        the blocks read. masks: which inputs of a node have gradients."""
        self.variants, self.results, self.paths = variants, results, list(paths)
        self.saved, self.location, self.masks = list(saved), location, dict(masks)
        self.captures: Any = None

    def incoming(self, variant: BackwardPath) -> list[Node]:
        """The gradients from which a variant starts."""
        return [self.results[i].gradient for i in variant.given]

    def same(self, other: Any) -> bool:
        """True if another backward is that of the same results, to the same inputs."""
        return isinstance(other, SuspendedBackward) and self.paths == other.paths \
            and list(self.results) == list(other.results)

    def absorb(self, other: SuspendedBackward) -> None:
        """Also saves what another backward reads, of the same results."""
        self.saved = list(dict.fromkeys([*self.saved, *other.saved]))
        add_masks(self.masks, other.masks)

    def prepare(self, fn: Any, backend: Any) -> None:
        """Does nothing: the planner compiles what the blocks read."""

    def covers(self, call: Any) -> bool:
        """True if the blocks have a trace of the path that a call took."""
        return bool(self.captures.covers(call))

    def begin(self, call: Any) -> Any:
        """The suspended call, and the edges of the inputs."""
        return self.captures.suspend(call, self.location)

    def save(self, begun: Any, nodes: Sequence[Node], arrays: Sequence[Any]) -> None:
        """Saves what the exit has computed: the arrays of these nodes."""
        begun[0].save(nodes, arrays)

    def attach(self, begun: Any, arrays: list[Any], results: list[Tensor], read: Any) -> None:
        """Attaches the results of a call to the tape."""
        call, edges = begun
        node = SuspendedNode(self, call, edges)
        for number, result in enumerate(self.results):
            results[result.tensor].edge = ResultEntry(node, number, None)


class SuspendedNode(Entry):
    """The autograd node of the results of a suspended call. Its edges are those of the inputs."""

    __slots__ = ("backward", "call", "freed")

    def __init__(self, backward: SuspendedBackward, call: Any, edges: Sequence[Any]) -> None:
        super().__init__(OPS["alias"], {}, (), tuple(edges), None)
        self.backward, self.call = backward, call
        self.freed: set[int] = set()  # numbers of results whose tape is freed

    @property
    def is_freed(self) -> bool:
        return self.call is None

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Any) -> None:
        results, variants = self.backward.results, self.backward.variants
        if self.call is None or any(self.freed & results[i].shares for i in g):
            raise freed_tape_error(self)
        if MODE.enabled:
            pass_on(self._on_tape(g), sums, useful)
        else:
            whole = [v for v in variants if v.given == tuple(sorted(g))]
            for variant in whole or [v for v in variants if len(v.given) == 1 and v.given[0] in g]:
                gradients = self.call.resume(variant.root, {
                    results[i].gradient: g[i]._data for i in variant.given})
                pass_on([(self.edges[i], Tensor(x)) for i, x in gradients.items()], sums, useful)
        if not keep:
            self.freed.update(g)
            if len(self.freed) == len(results):
                self.call = None

    def _on_tape(self, g: Mapping[int, Tensor]) -> list[tuple[Any, Tensor]]:
        """The gradients at the edges, with a tape of their own."""
        backward = self.backward
        tensors = self.call.again([r.value for r in backward.results],
                                  dict(zip(backward.paths, self.edges)))
        found = gradients_between([tensors[i] for i in g], list(g.values()), self.edges, True)
        return [(edge, x) for edge, x in zip(self.edges, found) if x is not None]


def add_masks(masks: dict[Node, tuple[bool, ...]], others: Mapping[Node, tuple[bool, ...]]) -> None:
    """Adds the masks of other traces. A node whose masks differ gets (): it is not known."""
    for node, mask in others.items():
        if masks.setdefault(node, mask) != mask:
            masks[node] = ()


def trace_backward(tracer: Tracer, outputs: OutputSpecBuilder) -> SuspendedBackward | None:
    """The backward of the results of a traced call, as a path. None if it needs no control flow, if
    Python code runs in it, or if it needs a value that a call cannot capture."""
    outside = paths_of_outside_edges(tracer)
    edges = _edges(_tensors(outputs), outside)
    if not any(isinstance(e, _OF_CONTROL_FLOW) for e in edges):
        return None
    if tracer.ordered or any(isinstance(e, (ClockRead, DataDependentSize)) for e in tracer.path) \
            or not all(_can_trace(tracer, edge, outside) for edge in edges):
        return None
    masks = _masks(tracer)
    if masks is None:
        return None
    ends = _ends(tracer, edges, outside)
    results = _results(tracer, outputs, outside)
    every = tuple(range(len(results)))
    subsets = [every, *((i,) for i in every if len(every) > 1)]
    variants = [BackwardPath(given, _trace_path(tracer, outputs, [results[i] for i in given], ends))
                for given in subsets]
    if tracer.refusal:
        return None
    elements = [e for variant in variants for e in variant.elements]
    return SuspendedBackward(variants, results, list(ends),
                             _read_by(elements, cone(outputs.nodes)), tracer.location, masks)


def _ends(tracer: Tracer, edges: Sequence[Any], outside: Mapping[int, Path]
          ) -> dict[Path, Any]:
    """The inputs that may receive gradients: their paths in an order that does not depend on the
    run, and their edges. An input to which only other runs give a gradient has none."""
    optional = {n for e in edges if isinstance(e, MergeGrad)
                for n in e.edges[0].tape.optional}
    paths = dict.fromkeys(tracer.names.paths[n] for n in optional)
    paths.update((outside[id(e)], e) for e in edges if id(e) in outside)
    return {path: paths[path] for path in sorted(paths, key=str)}


def _trace_path(tracer: Tracer, outputs: OutputSpecBuilder, results: Sequence[ResultGradient],
                ends: Mapping[Path, Any]) -> list[Any]:
    """The elements of the backward from these results to the ends."""
    edges = {end: edge for end, edge in ends.items() if edge is not None}
    with _recording_again(tracer) as path, collecting_optional(tracer) as optional:
        found = gradients_between([outputs.tensors[r.tensor][1] for r in results],
                                  [_gradient(tracer, outputs, r) for r in results],
                                  list(edges.values()), False)
        certain = dict(zip(edges, found))
        parts = {tracer.names.paths[n]: gradients for n, gradients in optional.items()}
        sums = {i: total(certain.get(end), parts.get(end, ())) for i, end in enumerate(ends)
                if certain.get(end) is not None or end in parts}
        nodes = tuple([tracer.node_of(x.tensor) for x in sums.values()])
    return [*path, GradientReturn(tuple(sums), nodes, tuple([x.present for x in sums.values()]))]


def _masks(tracer: Tracer) -> dict[Node, tuple[bool, ...]] | None:
    """For each node, which inputs have gradients on the tape. None if equal computations differ in
    that, for example since one of them uses a detached tensor."""
    masks: dict[Node, tuple[bool, ...]] = {}
    for entry, node in tracer.entries.values():
        mask = tuple(e is not None for e in entry.edges)
        if type(entry) is Entry and masks.setdefault(node, mask) != mask:
            return None
    if tracer.untaped & masks.keys():
        return None
    return masks | {n: (False,) * len(n.inputs) for n in tracer.untaped}


def _tensors(outputs: OutputSpecBuilder) -> list[Tensor]:
    return [tensor for _, tensor in outputs.tensors if tensor.edge is not None]


def _edges(tensors: Sequence[Tensor], outside: Collection[int]) -> list[Any]:
    """The tape of these tensors, down to edges from outside. The phis of a merge are apart."""
    def below(edge: Any) -> Sequence[Any]:
        if id(edge) in outside or isinstance(edge, Leaf) or edge.arrays is None:
            return ()
        if isinstance(edge, MergeGrad):
            return [edge.edges[0].edges[edge.slot]]
        return [e for e in edge.edges if e is not None]

    return ordered([t.edge for t in tensors], below)


def _can_trace(tracer: Tracer, edge: Any, outside: Collection[int]) -> bool:
    """True if the backward of an edge runs no user code, and if its tape is there."""
    if id(edge) in outside:
        return True
    if isinstance(edge, Leaf):  # made by the call: its gradient is lost with it
        return edge.tensor() is None and not is_watched(edge)
    if isinstance(edge, _OF_CONTROL_FLOW):
        return True
    return type(edge) is Entry and edge.arrays is not None and not is_watched(edge) \
        and id(edge) in tracer.entries


def _results(tracer: Tracer, outputs: OutputSpecBuilder, outside: Collection[int]
             ) -> list[ResultGradient]:
    """The results with gradients."""
    numbers = [i for i, (_, tensor) in enumerate(outputs.tensors) if tensor.edge is not None]
    tapes = [set(_edges([outputs.tensors[i][1]], outside)) for i in numbers]
    results = []
    for i, tape in zip(numbers, tapes):
        value = outputs.nodes[outputs.tensors[i][0]]
        gradient = tracer.names.phi(("gradient of result", i), value)
        shares = frozenset(k for k, other in enumerate(tapes)
                           if any(id(e) not in outside for e in tape & other))
        results.append(ResultGradient(i, value, gradient, shares))
    return results


def _gradient(tracer: Tracer, outputs: OutputSpecBuilder, result: ResultGradient) -> Tensor:
    """Some gradient of a result. The trace does not depend on its value."""
    before, interpreter.STATE.active = interpreter.STATE.active, None
    try:
        gradient = create.ones_like(outputs.tensors[result.tensor][1].detach())
    finally:
        interpreter.STATE.active = before
    tracer.bind(gradient._data, result.gradient)
    return gradient


@contextlib.contextmanager
def _recording_again(tracer: Tracer) -> Iterator[list[Any]]:
    """Records ops after the end of the run. Yields the list that gets the elements of their path,
    which the path of the run does not."""
    start, raising, path = len(tracer.path), list(tracer.raising), list[Any]()
    before, interpreter.STATE.active = interpreter.STATE.active, tracer
    tracer.listening = tracer.sizes.live = True
    try:
        yield path
    finally:
        interpreter.STATE.active, tracer.listening, tracer.sizes.live = before, False, False
        path += [_at(e, tracer.location) for e in tracer.path[start:]]
        del tracer.path[start:]
        tracer.raising = raising


def _at(element: Any, site: str) -> Any:
    """An element of a backward with the site of the function: no line of the user runs."""
    is_new = isinstance(element, (LoopBackwardEvent, MergedBranch))
    return element._replace(site=site) if is_new else element


def _read_by(path: Sequence[Any], forward: Sequence[Node]) -> list[Node]:
    """The values of the exit's own segment that the elements of a path read."""
    known = set(forward)
    operands = [n for element in path for n in _operands(element)]
    read = set(operands).union(i for n in cone(operands) if n not in known for i in n.inputs)
    return [n for n in forward if n in read and n.inputs]


def _operands(element: Any) -> Iterator[Node]:
    """The nodes that an element of a path reads."""
    if isinstance(element, GradientReturn):
        yield from element.nodes
    elif isinstance(element, LoopBackwardEvent):
        yield from (node for _, node in element.incoming)
    elif isinstance(element, Merge):
        yield from element.values
