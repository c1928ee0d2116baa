"""Computes gradients through branches whose paths have merged.

At a merge point each phi with a gradient gets a tape entry of its own, so that the tape behind the
merge is the same for all paths. When a backward pass reaches these entries, the trace branches
again by the decisions of the forward, records the backward of the path that the run took, and
merges the gradients. The backward of a path computes values of its forward again, from values that
existed before the branch: other paths have no such values that a merge could carry.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...eager.autograd.engine import gradients_between
from ...eager.core.op import OPS
from ...eager.core.tape import MODE, Entry, Leaf
from ...eager.core.tensor import Tensor
from ...eager.ops import create
from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr, of_number
from .decision import Decision
from .inner_phis import parts_below
from .loop_gradients import PhiGrad, pass_on
from .merges import Merge, MergedBranch

_REPEATABLE = (Decision, MergedBranch, Merge)  # elements of paths that a backward can take again


class PathTape(NamedTuple):
    """The tape of one path, from its branch to the merge point."""

    outputs: Sequence[Tensor]  # copies of the tensors that become phis with gradients
    # The edges at which the tape ends, by the nodes of their tensors. They are older than the
    # branch.
    boundaries: dict[Node, Any]
    nodes: dict[int, tuple[Any, Node]]  # the arrays on the tape by id, with their nodes
    reached: list[frozenset[Node]]  # the boundaries below each output
    # Inputs that get gradients on some paths only: of branches inside of this path, and in all.
    inner_optional: set[Node]
    optional: tuple[Node, ...] = ()


class MergeGradNode(Entry):
    """A tape entry for the merged paths of a branch: collects the gradients of the phis."""

    __slots__ = ("backwards", "elements", "location", "number", "tape", "tracer")

    def __init__(self, tracer: Any, number: int, location: Any, elements: Sequence[Any],
                 tape: PathTape) -> None:
        """number, location: of the branch. elements: of the path that the run took, without its
        merge."""
        super().__init__(OPS["alias"], {}, (), tuple([t.edge for t in tape.outputs]), None)
        self.tracer, self.number, self.location = tracer, number, location
        self.elements, self.tape = elements, tape
        self.backwards = 0  # backward passes of this run

    @property
    def is_freed(self) -> bool:
        return False

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        incoming: dict[int, Tensor] = dict(sorted(g.items()))
        if MODE.enabled and self.tracer.is_recording:  # these gradients have a tape of their own
            self.tracer.forbid_merged_gradients()
        if self.tape.optional and self.tracer.optional_gradients is None:
            self.tracer.forbid_uneven_gradients(self.location)
        if self.tracer.merges_gradients:
            gradients = [(self.tape.boundaries[node], x)
                         for node, x in self._branch_again(incoming).items()
                         if node in self.tape.boundaries]
        else:
            gradients = [(self.edges[slot], x) for slot, x in incoming.items()]
        pass_on(gradients, sums, useful)

    def _branch_again(self, incoming: dict[int, Tensor]) -> dict[Node, Tensor]:
        """Records the backward of the path as a path of another merged branch. Returns the
        gradients at the boundaries, by node."""
        tracer, self.backwards = self.tracer, self.backwards + 1
        key = tracer.begin_merged_backward((self.number, self.backwards),
                                           _unmerged_outcomes(self.elements))
        start = len(tracer.path)
        with tracer.knowing(self.tape.nodes), collecting_optional(tracer) as inner:
            found = gradients_between([self.tape.outputs[slot] for slot in incoming],
                                      list(incoming.values()),
                                      list(self.tape.boundaries.values()), False)
            by_node = {n: x for n, x in zip(self.tape.boundaries, found) if x is not None}
            optional = {n: total(by_node.get(n), inner.get(n, ()))
                        if n in by_node or n in inner else _absent(n) for n in self.tape.optional}
            by_node.update((n, x.tensor) for n, x in optional.items())
            values = {n: tracer.node_of(x) for n, x in by_node.items()}
        read = [*map(_read_by, tracer.path[start:]), values.values()]
        for element in reversed(_repeated(self.elements, itertools.chain(*read),
                                          tracer.names.numbers)):
            tracer.insert_element(start, element)
        presence = tracer.end_merged_backward(key, values, by_node,
                                              tuple([x.present for x in optional.values()]))
        for node, symbol in zip(optional, presence):
            collected = tracer.optional_gradients.setdefault(node, [])
            collected.append(OptionalGradient(by_node.pop(node), symbol))
        return by_node


class MergeGrad(PhiGrad):
    """A tape entry for a phi of a merge: passes its gradient on to the path before."""

    __slots__ = ()


# ---- inputs that get gradients on some paths only

class OptionalGradient(NamedTuple):
    """A gradient that is zeros on the paths that give none, and the number that tells them apart:
    0 if there is no gradient."""

    tensor: Tensor
    present: ScalarExpr


@contextlib.contextmanager
def collecting_optional(tracer: Any) -> Iterator[dict[Node, list[OptionalGradient]]]:
    """Collects the gradients of inputs that only some paths of a backward give."""
    before, tracer.optional_gradients = tracer.optional_gradients, {}
    try:
        yield tracer.optional_gradients
    finally:
        tracer.optional_gradients = before


def total(certain: Tensor | None, parts: Sequence[OptionalGradient]) -> OptionalGradient:
    """The sum of a `certain` gradient and of some that may be absent, at least one in all."""
    present = [of_number(1)] if certain is not None else [part.present for part in parts]
    tensors = [*([] if certain is None else [certain]), *(part.tensor for part in parts)]
    return OptionalGradient(functools.reduce(operator.add, tensors), functools.reduce(
        lambda a, b: ScalarExpr("add", (a, b)), present))


def _absent(node: Node) -> OptionalGradient:
    return OptionalGradient(create.zeros(node.type.shape, dtype=node.type.dtype), of_number(0))


# ---- the elements of a path

def can_repeat(elements: Iterable[Any]) -> bool:
    """True if a backward can take the path with these elements again."""
    return all(isinstance(element, _REPEATABLE) for element in elements)


def _repeated(elements: Sequence[Any], subjects: Iterable[Any],
              numbers: Mapping[Node, ScalarExpr]) -> Sequence[Any]:
    """The elements of a forward path that its backward repeats: all but the merged branches at its
    end whose phis `subjects` do not depend on, as in a chain of `elif`."""
    read, end = set(parts_below(subjects, numbers, set())), len(elements)
    while end and isinstance(last := elements[end - 1], Merge) \
            and read.isdisjoint([*last.phis, *last.symbols]):
        end = next(i for i, element in enumerate(elements)
                   if isinstance(element, MergedBranch) and element.key == last.key)
    return elements[:end]


def _unmerged_outcomes(elements: Sequence[Any]) -> tuple[Any, ...]:
    """The outcomes of the decisions of a path that lie in no merged branch."""
    outcomes: list[Any] = []
    before: dict[Any, int] = {}  # the number of outcomes before a branch
    for element in elements:
        if isinstance(element, Decision):
            outcomes.append(element.outcome)
        elif isinstance(element, MergedBranch):
            before[element.key] = len(outcomes)
        else:
            del outcomes[before[element.key]:]
    return tuple(outcomes)


def _read_by(element: Any) -> Sequence[Any]:
    """The nodes and numbers that an element of a path reads."""
    if isinstance(element, Decision):
        return [element.subject]
    return [*element.values, *element.formulas] if isinstance(element, Merge) else []


# ---- the tape of a path

def newer_on_tape(tracer: Any, entries: int, tensors: Sequence[Tensor]) -> set[int] | None:
    """The numbers of the tensors whose edges are newer than the first `entries` of the tape. None
    if a tensor from outside has another edge than before the call."""
    inner, found = _newer(tracer, entries), set[int]()
    for i, tensor in enumerate(tensors):
        path = tracer.state.paths.get(id(tensor))
        if path is not None and tensor.edge is not tracer.state.edges.get(path):
            return None
        if path is None and isinstance(tensor.edge, Entry) and (
                id(tensor.edge) in inner or not _is_known(tracer, tensor.edge)):
            found.add(i)
    return found


def path_tape(tracer: Any, entries: int, outputs: Sequence[Tensor],
              is_older: Callable[[Node], bool]) -> PathTape | None:
    """The tape of `outputs` down to its first `entries`. `is_older` tells if a node existed then.
    None if no graph can stand for the tape, for example since it has hooks."""
    tape = PathTape([Tensor(t._data, t.edge) for t in outputs], {}, {}, [], set())
    walk = _Walk(tracer, _newer(tracer, entries), is_older, tape)
    for tensor in outputs:
        node = tracer.node_of(tensor)
        tape.nodes[id(tensor._data)] = tensor._data, node
        reached = walk.boundaries(tensor.edge, node)
        if reached is None:
            return None
        tape.reached.append(reached)
    return tape


def uneven_boundaries(tape: PathTape, others: Sequence[frozenset[Node]]) -> set[Node] | None:
    """The values to which only some paths give gradients: this path and another one, whose
    boundaries are `others`. None if the paths have other outputs with gradients."""
    if len(tape.reached) != len(others):
        return None
    apart = {n for mine, theirs in zip(tape.reached, others) for n in mine ^ theirs}
    return apart | tape.inner_optional


def may_be_optional(tracer: Any, node: Node) -> bool:
    """True if a value may get a gradient on some paths only: an input of known shape. Zeros stand
    for its gradient on the other paths."""
    return tracer.is_outside(node) and all(type(size) is int for size in node.type.shape)


class _Walk(NamedTuple):
    """A walk down the tape of a path, to edges that are older than its branch."""

    tracer: Any
    newer: set[int]  # ids of entries
    is_older: Callable[[Node], bool]
    tape: PathTape

    def boundaries(self, edge: Any, node: Node) -> frozenset[Node] | None:
        """The nodes at which the tape below an edge ends. None if no graph can stand for it."""
        stack, seen, reached = [(edge, node)], set[int](), set[Node]()
        while stack:
            edge, node = stack.pop()
            if id(edge) not in self.newer:
                if not self._is_boundary(edge, node):
                    return None
                reached.add(node)
            elif type(edge) not in (Entry, MergeGrad) or edge.arrays is None:
                return None
            elif id(edge) not in seen:
                seen.add(id(edge))
                stack += [(e, n) for e, n in self._below(edge) if e is not None]
        return frozenset(reached)

    def _is_boundary(self, edge: Any, node: Node) -> bool:
        return self.is_older(node) and _is_known(self.tracer, edge) \
            and self.tape.boundaries.setdefault(node, edge) is edge

    def _below(self, edge: Any) -> Iterable[tuple[Any, Node]]:
        """The edges below an entry of the tape, with the nodes of their tensors."""
        nodes, tracer = self.tape.nodes, self.tracer
        nodes.update((id(x), (x, n)) for x in (*edge.arrays, edge.out)
                     if (n := tracer.node_of_array(x)) is not None)
        if isinstance(edge, MergeGrad):
            inner = edge.edges[0].tape
            nodes.update(inner.nodes)
            self.tape.inner_optional.update(inner.optional)
            return [(t.edge, inner.nodes[id(t._data)][1]) for t in inner.outputs]
        return zip(edge.edges, tracer.entries[id(edge)][1].inputs)


def _newer(tracer: Any, entries: int) -> set[int]:
    """The ids of the entries of the tape behind the first ones."""
    return set(itertools.islice(tracer.entries, entries, None))


def _is_known(tracer: Any, edge: Any) -> bool:
    """True for a leaf, for an edge from outside, and for the entry of an op of this run."""
    return isinstance(edge, Leaf) or id(edge) in tracer.entries or any(
        edge is other for other in tracer.state.edges.values())
