"""The tape that a recorded run leaves behind, over nodes in the place of arrays.

The way back of a replay follows from it. It is cut where gradients must be handed on as tensors, so
that all which eager lets one see is there: at each result with a gradient, where a `Function` with
a way back of its own stands, and where hooks wait.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...eager.autograd.function import Joint, Part
from ...eager.core.op import Op
from ...eager.core.tape import Entry, Leaf
from ...eager.core.tensor import Tensor
from ...eager.utils.checkpoint import Forgotten
from ..control_flow.loop_gradients import CarriedGrad, LoopGradNode
from ..graph.graph import Node
from ..graph.graph_builder import as_tensor, on_tape
from ..heap.access_path import Path
from ..heap.object_recipes import Make
from ..trace.output_spec import Outputs
from ..trace.tracer import Tracer


class Bindings:
    """What the tape of one call is tied to: edges from outside, and what the call has made."""

    __slots__ = ("arrays", "outside", "parts", "read", "tensors")

    def __init__(self, outside: list[Any], arrays: list[Any], tensors: list[Tensor],
                 read: Any) -> None:
        self.outside, self.arrays, self.tensors, self.read = outside, arrays, tensors, read
        self.parts: dict[tuple[int, int], Part] = {}


class Boundary:
    """Where the tape of a run ends: `find` gives the edge that a call goes on with from there."""

    __slots__ = ("depth", "find")
    edges = ()

    def __init__(self, find: Callable[[Bindings], Any], depth: int = 0) -> None:
        self.find, self.depth = find, depth


class FreedTape(Boundary):
    """The end of a tape that was given up: gradients are refused here, as in eager."""

    __slots__ = ("end",)

    def __init__(self, op: Op) -> None:
        end = self.end = Entry(op, {}, (), (), None)
        end.arrays = None  # type: ignore[assignment]
        super().__init__(lambda links: end)


class CutPoint:
    """A place on the tape whose gradient is handed on as a tensor."""

    def __init__(self, number: int, entry: Entry, node: Node, level: int) -> None:
        self.number, self.entry, self.node, self.level = number, entry, node, level
        self.hooks: list[Make] = []
        self.retained: int | None = None  # which tensor of the call keeps the gradient

    @property
    def is_watched(self) -> bool:
        """Whether hooks of the function wait here."""
        return bool(self.hooks) or self.retained is not None


class Call:
    """A call of a `Function` whose way back its user wrote: it really runs, on each way back."""

    def __init__(self, joint: Joint, outputs: Outputs) -> None:
        ctx = joint.ctx
        self.joint = joint
        own = {"needs_input_grad", "materialize_grads", "_given", "_saved", "_dirty", "_constant",
               "_joint"}
        self.attributes = {k: outputs.template(v) for k, v in vars(ctx).items() if k not in own}
        self.saved = [None if array is None else outputs.node(Tensor(array))
                      for array, _ in ctx._saved or ()]

    def made(self, links: Bindings, edges: tuple[Any, ...], places: list[Any]) -> Joint:
        """The call's entry: what forward left for backward, as values of this call."""
        old = self.joint
        joint = Joint(old.op, {}, (), edges, None)
        joint.function, joint.given, joint.made = old.function, old.given, old.made
        joint.layers = old.layers
        joint.ctx = ctx = copy.copy(old.ctx)
        ctx._joint, ctx._dirty, ctx._constant = joint, (), ()
        ctx._saved = [(None, None) if i is None else (links.arrays[i], place)
                      for i, place in zip(self.saved, places)]
        for name, make in self.attributes.items():
            setattr(ctx, name, make(links.tensors, links.read))
        return joint


class SymbolicTape:
    """The tape behind the results of a run."""

    def __init__(self, recorder: Tracer, outputs: Outputs) -> None:
        self._recorder, self._outputs = recorder, outputs
        self.paths: list[Path] = []  # tensors from outside to which gradients go
        self.outside: list[Boundary] = []  # and where the tape ends there
        self.others: list[Boundary] = []
        self.points: list[CutPoint] = []
        # calls of Functions: at which depth, edges of their arguments and of what they saved
        self.calls: list[tuple[Call, int, list[Any], list[Any]]] = []
        self.forgotten: dict[Node, Any] = {}  # computed inside of a checkpoint, and of which
        self.entries: list[Entry] = []  # users after what they use
        self.nodes: dict[Entry, Node] = {}
        self.edges: list[Any] = []  # for each tensor of the outputs
        self._of: dict[int, Any] = {}  # a recorded edge -> its shadow
        self._call_of: dict[int, tuple[int, int]] = {}  # a recorded joint -> its call, its depth
        self._depth: dict[Any, int] = {}
        self._from = _outside(recorder)
        self._wanted = self._cuts()

    # ---- walking the recorded tape

    def _roots(self) -> Iterator[Any]:
        for _, tensor in self._outputs.tensors:
            if tensor.edge is not None:
                yield tensor.edge

    def _below(self, edge: Any) -> list[Any]:
        ends = id(edge) in self._from or isinstance(edge, Leaf) or edge.arrays is None
        return [] if ends else [e for e in edge.edges if e is not None]

    def _cuts(self) -> set[int]:
        """The recorded edges that become points."""
        order = ordered(self._roots(), self._below)
        found = {id(e) for e in self._roots()}
        for e in order:
            if isinstance(e, Joint) and self._below(e):
                found.update(map(id, self._below(e)))
            elif isinstance(e, Entry) and _watched(e):
                found.add(id(e))
        return found

    def build(self) -> None:
        """Makes the shadow of every edge."""
        for edge in ordered(self._roots(), self._below):
            self._of[id(edge)] = self._shadow_of(edge)
        for _, tensor in self._outputs.tensors:
            self.edges.append(self._edge_of(tensor))

    def forget(self) -> None:
        """Lets go of the recorded run, whose arrays are not those of any replay."""
        del self._recorder, self._outputs
        self._of, self._call_of, self._from = {}, {}, {}

    def _edge_of(self, tensor: Tensor) -> Any:
        """The place of a result: none, an edge of the shadow, or a leaf of its own."""
        edge = tensor.edge
        if isinstance(edge, Leaf) and id(edge) not in self._from:
            return edge
        if edge is not None and id(edge) not in self._of:
            self._recorder.refuse("a Function keeps a tensor with a gradient as an attribute")
            return None
        return None if edge is None else self._of[id(edge)]

    def _shadow_of(self, edge: Any) -> Any:
        path = self._from.get(id(edge))
        if path is not None:
            return self._stop_outside(path)
        if isinstance(edge, Leaf):
            return self._leaf(edge)
        if edge.arrays is None:
            self.others.append(FreedTape(edge.op))
            return self.others[-1]
        if isinstance(edge, Part):
            return self._part(edge)
        if isinstance(edge, Joint):
            return self._call(edge)
        return self._entry(edge)

    def _stop_outside(self, path: Path) -> Boundary:
        number = len(self.paths)
        self.paths.append(path)
        self.outside.append(Boundary(lambda links: links.outside[number]))
        return self.outside[-1]

    def _other(self, find: Callable[[Bindings], Any], depth: int = 0) -> Boundary:
        self.others.append(Boundary(find, depth))
        return self.others[-1]

    def _leaf(self, leaf: Leaf) -> Boundary | None:
        """A leaf that was made in the run: of a result, or gone."""
        owner = leaf.tensor()
        if owner is None:
            return None
        if id(owner) in self._recorder.state.paths:
            self._recorder.refuse("a tensor made outside the function starts to require a gradient "
                                  "here, and the result depends on it")
        number = self._result(owner)
        return None if number is None else self._other(lambda links: links.tensors[number].edge)

    def _result(self, tensor: Tensor | None) -> int | None:
        """Which tensor of the outputs this one is."""
        return next((i for i, (_, t) in enumerate(self._outputs.tensors) if t is tensor), None)

    def _entry(self, edge: Any) -> Entry | None:
        if isinstance(edge, (LoopGradNode, CarriedGrad)):
            self._recorder.unrolls()
            return None
        found = self._recorder.entries.get(id(edge))
        if found is None:
            self._recorder.refuse(f"the gradient of the result goes through {edge.op.name}, whose "
                                  "backward cannot be recorded")
            return None
        node = found[1]
        if isinstance(edge, Forgotten):
            self.forgotten[node] = edge.arrays[0]
            operands: Any = [as_tensor(n)._data for n in node.inputs]
        else:
            operands = [on_tape(x, n) for x, n in zip(edge.arrays, node.inputs)]
        edges = tuple(None if e is None else self._of[id(e)] for e in edge.edges)
        entry = Entry(edge.op, dict(node.params), tuple(operands), edges, as_tensor(node)._data)
        self.entries.append(entry)
        self.nodes[entry] = node
        depth = max((self.depth(e) for e in edges), default=0)
        if id(edge) in self._wanted:
            depth += 1
            self._add_point(CutPoint(len(self.points), entry, node, depth), edge)
        self._depth[entry] = depth
        return entry

    def _add_point(self, point: CutPoint, edge: Any) -> None:
        self.points.append(point)
        point.hooks, point.retained = self._hooks(edge)

    def _hooks(self, edge: Any) -> tuple[list[Make], int | None]:
        if not _watched(edge):
            return [], None
        owner = None if edge.extra.retained is None else edge.extra.retained()
        kept = self._result(owner)
        return [self._outputs.template(hook) for hook in edge.extra.hooks.values()], kept

    # ---- Functions

    def _call(self, joint: Joint) -> None:
        """A call of a Function: what it is made of, and a stop for each result (see `_part`)."""
        edges = [None if e is None else self._of[id(e)] for e in joint.edges]
        places = []
        for _, place in joint.ctx._saved or ():
            if isinstance(place, (int, type(None))):
                places.append(place)
            elif id(place) in self._of:
                places.append(self._of[id(place)])
            else:
                self._recorder.refuse(f"{joint.op.name} saved a tensor that is not one of "
                                      "its arguments")
        if self._recorder.sizes.values:
            self._recorder.refuse(f"the Function {joint.op.name} is called with dynamic sizes")
        depth = max((self.depth(e) for e in edges), default=0)
        self._call_of[id(joint)] = len(self.calls), depth
        self.calls.append((Call(joint, self._outputs), depth, edges, places))

    def _part(self, part: Part) -> Boundary:
        number, depth = self._call_of[id(part.edges[0])]
        hooks, kept = self._hooks(part)
        if hooks or kept is not None:
            self._recorder.refuse(f"a gradient hook is registered on a result of {part.op.name}")
        return self._other(lambda links: links.parts[number, part.number], depth)

    # ---- what is asked of it

    def depth(self, edge: Any) -> int:
        """How many points follow each other from an edge on."""
        return edge.depth if isinstance(edge, Boundary) else self._depth.get(edge, 0)


def _outside(recorder: Tracer) -> dict[int, Path]:
    """Edges of tensors from outside, as they were when the run began."""
    found: dict[int, Path] = {}
    for path, edge in recorder.state.edges.items():
        if edge is not None:
            found.setdefault(id(edge), path)
    return found


def _watched(edge: Any) -> bool:
    extra = getattr(edge, "extra", None)
    return extra is not None and bool(
        extra.hooks or (extra.retained is not None and extra.retained() is not None))


def ordered(roots: Iterable[Any], below: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """Everything reachable from `roots`, what is used before its users."""
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
