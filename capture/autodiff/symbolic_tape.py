"""Copies the tape of a traced call, with graph nodes in place of arrays.

Backward over this tape gives the backward program of a replay. The tape is cut where a gradient
must exist as a tensor that user code can see: at each result with a gradient, at each `Function`
with its own backward, and at hooks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...eager.autograd.function import Joint, ResultEntry
from ...eager.core.op import Op
from ...eager.core.tape import Entry, Leaf
from ...eager.core.tensor import Tensor
from ...eager.utils.checkpoint import RecomputedEntry
from ..control_flow.loop_gradients import CarriedGrad, LoopGradNode
from ..control_flow.merge_gradients import MergeGrad, MergeGradNode
from ..graph.graph import Node
from ..graph.graph_builder import as_tensor, on_tape
from ..heap.access_path import Path
from ..heap.object_recipes import Recipe
from ..trace.output_spec import OutputSpecBuilder
from ..trace.tracer import Tracer


class Bindings:
    """The objects of one call that the tape refers to: outside edges, arrays and tensors."""

    __slots__ = ("arrays", "outside", "parts", "read", "tensors")

    def __init__(self, outside: list[Any], arrays: list[Any], tensors: list[Tensor],
                 read: Any) -> None:
        self.outside, self.arrays, self.tensors, self.read = outside, arrays, tensors, read
        self.parts: dict[tuple[int, int], ResultEntry] = {}


class Boundary:
    """An end of the symbolic tape. `find` returns the edge that continues it in a call."""

    __slots__ = ("depth", "find")
    edges = ()

    def __init__(self, find: Callable[[Bindings], Any], depth: int = 0) -> None:
        self.find, self.depth = find, depth


class FreedTape(Boundary):
    """A boundary at a tape that was freed: backward raises an error here, as in eager."""

    __slots__ = ("end",)

    def __init__(self, op: Op) -> None:
        end = self.end = Entry(op, {}, (), (), None)
        end.arrays = None  # type: ignore[assignment]
        super().__init__(lambda bindings: end)


class CutPoint:
    """An entry of the tape whose gradient becomes a tensor."""

    def __init__(self, number: int, entry: Entry, node: Node, depth: int) -> None:
        self.number, self.entry, self.node, self.depth = number, entry, node, depth
        self.hooks: list[Recipe] = []
        self.retained: int | None = None  # number of the tensor that retains its gradient

    @property
    def is_watched(self) -> bool:
        """True if a hook or a retained gradient observes this point."""
        return bool(self.hooks) or self.retained is not None


class FunctionCall:
    """A call of a user's `Function`, whose backward runs as Python on each backward."""

    def __init__(self, joint: Joint, outputs: OutputSpecBuilder) -> None:
        ctx = joint.ctx
        self.joint = joint
        internal = {"needs_input_grad", "materialize_grads", "_to_save", "_saved",
                    "_dirty", "_constant", "_joint"}
        self.attributes = {k: outputs.recipe(v) for k, v in vars(ctx).items()
                           if k not in internal}
        self.saved = [None if array is None else outputs.node(Tensor(array))
                      for array, _ in ctx._saved or ()]

    def instantiate(self, bindings: Bindings, edges: tuple[Any, ...],
                    saved_edges: list[Any]) -> Joint:
        """The tape entry of the Function in one call, with the values that its forward saved."""
        recorded = self.joint
        joint = Joint(recorded.op, {}, (), edges, None)
        joint.function = recorded.function
        joint.argument_types, joint.result_types = recorded.argument_types, recorded.result_types
        joint.layers = recorded.layers
        joint.ctx = ctx = copy.copy(recorded.ctx)
        ctx._joint, ctx._dirty, ctx._constant = joint, (), ()
        ctx._saved = [(None, None) if i is None else (bindings.arrays[i], edge)
                      for i, edge in zip(self.saved, saved_edges)]
        for name, make in self.attributes.items():
            setattr(ctx, name, make(bindings.tensors, bindings.read))
        return joint


class SymbolicTape:
    """The tape of the results of a traced call."""

    def __init__(self, tracer: Tracer, outputs: OutputSpecBuilder) -> None:
        self._tracer, self._outputs = tracer, outputs
        self.paths: list[Path] = []  # tensors from outside that need gradients
        self.outside: list[Boundary] = []  # their boundaries, in the same order
        self.others: list[Boundary] = []
        self.points: list[CutPoint] = []
        # Calls of Functions: (call, depth, edges of its arguments, edges of its saved tensors).
        self.calls: list[tuple[FunctionCall, int, list[Any], list[Any]]] = []
        self.checkpointed: dict[Node, Any] = {}  # nodes computed in a checkpoint, by checkpoint
        self.entries: list[Entry] = []  # in topological order
        self.nodes: dict[Entry, Node] = {}
        self.edges: list[Any] = []  # for each tensor of the outputs
        self._mirrored: dict[int, Any] = {}  # id of a recorded edge -> its copy
        self._call_of: dict[int, tuple[int, int]] = {}  # id of a recorded joint -> (call, depth)
        self._depth: dict[Any, int] = {}
        self._outside_paths = paths_of_outside_edges(tracer)
        self._cut_edges = self._find_cuts()

    # ---- walking the recorded tape

    def _roots(self) -> Iterator[Any]:
        for _, tensor in self._outputs.tensors:
            if tensor.edge is not None:
                yield tensor.edge

    def _below(self, edge: Any) -> list[Any]:
        ends = id(edge) in self._outside_paths or isinstance(edge, Leaf) or edge.arrays is None
        return [] if ends else [e for e in edge.edges if e is not None]

    def _find_cuts(self) -> set[int]:
        """The ids of the recorded edges that become cut points."""
        edges = ordered(self._roots(), self._below)
        cuts = {id(e) for e in self._roots()}
        for e in edges:
            if isinstance(e, Joint) and self._below(e):
                cuts.update(map(id, self._below(e)))
            elif isinstance(e, Entry) and is_watched(e):
                cuts.add(id(e))
        return cuts

    def build(self) -> None:
        """Copies every edge of the recorded tape."""
        for edge in ordered(self._roots(), self._below):
            self._mirrored[id(edge)] = self._mirror(edge)
        for _, tensor in self._outputs.tensors:
            self.edges.append(self._edge_of(tensor))

    def forget(self) -> None:
        """Releases the traced call, whose arrays no replay uses."""
        del self._tracer, self._outputs
        self._mirrored, self._call_of, self._outside_paths = {}, {}, {}

    def _edge_of(self, tensor: Tensor) -> Any:
        """The edge of a result: None, an edge of the symbolic tape, or a leaf of its own."""
        edge = tensor.edge
        if isinstance(edge, Leaf) and id(edge) not in self._outside_paths:
            return edge
        if edge is not None and id(edge) not in self._mirrored:
            self._tracer.refuse("a Function keeps a tensor with a gradient as an attribute")
            return None
        return None if edge is None else self._mirrored[id(edge)]

    def _mirror(self, edge: Any) -> Any:
        path = self._outside_paths.get(id(edge))
        if path is not None:
            return self._outside_boundary(path)
        if isinstance(edge, Leaf):
            return self._leaf(edge)
        if edge.arrays is None:
            self.others.append(FreedTape(edge.op))
            return self.others[-1]
        if isinstance(edge, ResultEntry):
            return self._part(edge)
        if isinstance(edge, Joint):
            return self._call(edge)
        return self._entry(edge)

    def _outside_boundary(self, path: Path) -> Boundary:
        number = len(self.paths)
        self.paths.append(path)
        self.outside.append(Boundary(lambda bindings: bindings.outside[number]))
        return self.outside[-1]

    def _add_boundary(self, find: Callable[[Bindings], Any], depth: int = 0) -> Boundary:
        self.others.append(Boundary(find, depth))
        return self.others[-1]

    def _leaf(self, leaf: Leaf) -> Boundary | None:
        """The boundary of a leaf that the call created; None if no result is that leaf."""
        owner = leaf.tensor()
        if owner is None:
            return None
        if id(owner) in self._tracer.state.paths:
            self._tracer.refuse("a tensor made outside the function starts to require a gradient "
                                  "here, and the result depends on it")
        number = self._result_number(owner)
        if number is None:
            return None
        return self._add_boundary(lambda bindings: bindings.tensors[number].edge)

    def _result_number(self, tensor: Tensor | None) -> int | None:
        """The number of this tensor among the outputs; None if it is not an output."""
        return next((i for i, (_, t) in enumerate(self._outputs.tensors) if t is tensor), None)

    def _entry(self, edge: Any) -> Entry | None:
        if isinstance(edge, (LoopGradNode, CarriedGrad)):
            self._tracer.request_unrolling()
            return None
        if isinstance(edge, (MergeGradNode, MergeGrad)):
            self._tracer.forbid_merged_gradients()
            return None
        recorded = self._tracer.entries.get(id(edge))
        if recorded is None:
            self._tracer.refuse(f"the result needs the gradient of {edge.op.name}, which "
                                  "cannot be traced here")
            return None
        node = recorded[1]
        if isinstance(edge, RecomputedEntry):
            if edge.op.ordered:
                self._tracer.refuse(f"{edge.op.name} is called inside of a checkpoint, which "
                                    "issues it again in the backward")
            self.checkpointed[node] = edge.arrays[0]
            operands: Any = [as_tensor(n)._data for n in node.inputs]
        else:
            operands = [on_tape(x, n) for x, n in zip(edge.arrays, node.inputs)]
        edges = tuple(None if e is None else self._mirrored[id(e)] for e in edge.edges)
        entry = Entry(edge.op, dict(node.params), tuple(operands), edges, as_tensor(node)._data)
        self.entries.append(entry)
        self.nodes[entry] = node
        depth = max((self.depth(e) for e in edges), default=0)
        if id(edge) in self._cut_edges:
            depth += 1
            self._add_point(CutPoint(len(self.points), entry, node, depth), edge)
        self._depth[entry] = depth
        return entry

    def _add_point(self, point: CutPoint, edge: Any) -> None:
        self.points.append(point)
        point.hooks, point.retained = self._hooks(edge)

    def _hooks(self, edge: Any) -> tuple[list[Recipe], int | None]:
        if not is_watched(edge):
            return [], None
        owner = None if edge.extra.retained is None else edge.extra.retained()
        retained = self._result_number(owner)
        return [self._outputs.recipe(hook) for hook in edge.extra.hooks.values()], retained

    # ---- Functions

    def _call(self, joint: Joint) -> None:
        """Adds a call of a Function. Each of its results becomes a boundary (see `_part`)."""
        edges = [None if e is None else self._mirrored[id(e)] for e in joint.edges]
        saved_edges = []
        for _, saved_edge in joint.ctx._saved or ():
            if isinstance(saved_edge, (int, type(None))):
                saved_edges.append(saved_edge)
            elif id(saved_edge) in self._mirrored:
                saved_edges.append(self._mirrored[id(saved_edge)])
            else:
                self._tracer.refuse(f"{joint.op.name} saved a tensor that is not one of "
                                      "its arguments")
        if self._tracer.sizes.values:
            self._tracer.refuse(f"the Function {joint.op.name} is called with dynamic sizes")
        depth = max((self.depth(e) for e in edges), default=0)
        self._call_of[id(joint)] = len(self.calls), depth
        self.calls.append((FunctionCall(joint, self._outputs), depth, edges, saved_edges))

    def _part(self, part: ResultEntry) -> Boundary:
        number, depth = self._call_of[id(part.edges[0])]
        hooks, retained = self._hooks(part)
        if hooks or retained is not None:
            self._tracer.refuse(f"a result of {part.op.name} has a hook")
        return self._add_boundary(lambda bindings: bindings.parts[number, part.number], depth)

    # ---- queries

    def depth(self, edge: Any) -> int:
        """The number of cut points on the longest path below an edge."""
        return edge.depth if isinstance(edge, Boundary) else self._depth.get(edge, 0)


def paths_of_outside_edges(tracer: Tracer) -> dict[int, Path]:
    """The paths of tensors from outside, by the id of their edge at the start of the call."""
    paths: dict[int, Path] = {}
    for path, edge in tracer.state.edges.items():
        if edge is not None:
            paths.setdefault(id(edge), path)
    return paths


def is_watched(edge: Any) -> bool:
    """True if a hook or a retained gradient observes an edge."""
    extra = getattr(edge, "extra", None)
    return extra is not None and bool(
        extra.hooks or (extra.retained is not None and extra.retained() is not None))


def ordered(roots: Iterable[Any], below: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """Every edge reachable from `roots`, in topological order."""
    seen: set[int] = set()
    order: list[Any] = []
    stack: list[tuple[Any, bool]] = [(root, False) for root in roots]
    while stack:
        edge, ready = stack.pop()
        if ready:
            order.append(edge)
        elif id(edge) not in seen:
            seen.add(id(edge))
            stack.append((edge, True))
            stack.extend((e, False) for e in below(edge))
    return order
