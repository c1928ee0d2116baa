"""Holds what a program knows about its merge points: their plans, and hints for further traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...eager.core.tape import is_grad_enabled
from ...eager.interpreter import STATE
from ..graph.graph import Node
from ..heap.operand_stack import calls_directly, depth_below
from ..scalars.scalar_expr import ScalarExpr
from .frame_state import GENERATORS, FrameState, Name
from .liveness import MergePoint, has_plain_counters, merge_point

MAX_FAILURES = 6  # of one function; then it is traced without merging


@dataclass
class MergeHints:
    """Facts about a function's branches, by their keys. They last from one attempt to the next."""

    numbers: bool = True  # Python numbers may differ at a merge point
    identities: bool = True  # a variable may name an input on some paths; not if code compares them
    gradients: bool = True  # tensors with gradients may differ; not if these leave the function
    failures: int = 0  # traces whose paths did not merge as expected
    unmergeable: set[Any] = field(default_factory=set)  # branches whose paths never merge
    varying: dict[Any, set[Any]] = field(default_factory=dict)  # by branch: values that need a phi
    at_line: dict[Any, set[Any]] = field(default_factory=dict)  # by location, in earlier attempts
    keys: dict[Any, int] = field(default_factory=dict)
    # Locations of branches whose paths give gradients to different tensors.
    uneven: set[Any] = field(default_factory=set)
    # By branch: the inputs that get gradients on some of its paths only.
    optional: dict[Any, tuple[Node, ...]] = field(default_factory=dict)

    def number(self, key: Any) -> int:
        return self.keys.setdefault(key, len(self.keys))

    def copy(self) -> MergeHints:
        """Hints that can learn more on their own; the numbers of the keys stay common."""
        return MergeHints(self.numbers, self.identities, self.gradients, self.failures,
                          set(self.unmergeable),
                          {key: set(values) for key, values in self.varying.items()},
                          {key: set(values) for key, values in self.at_line.items()},
                          self.keys, set(self.uneven), dict(self.optional))


@dataclass
class MergePlan:
    """The state of a path at a merge point, in a form that other runs can be compared with."""

    location: Any
    structure: Any  # of the frames and of changed objects
    nodes: list[Node]  # of the tensors
    numbers: dict[Name, ScalarExpr]
    kinds: dict[Name, type]  # of the numbers: int or float
    subject: Any
    modes: Any  # see `modes_of`
    followed: bool = False  # a run has continued behind the merge point
    # The values from before the branch to which the gradient of each tensor goes.
    boundaries: list[frozenset[Node]] = field(default_factory=list)

    def differences(self, other: MergePlan) -> set[Any] | None:
        """The tensors and numbers that differ; None if anything else differs."""
        same = self.modes == other.modes and self.structure == other.structure \
            and self.kinds == other.kinds \
            and _same_types([*self.nodes, self.subject], [*other.nodes, other.subject])
        if not same:
            return None
        differing: set[Any] = {i for i, (a, b) in enumerate(zip(self.nodes, other.nodes))
                               if a is not b}
        return differing.union(n for n, value in self.numbers.items() if value != other.numbers[n])


def _same_types(one: list[Any], two: list[Any]) -> bool:
    """True if nodes and formulas have the same types."""
    return len(one) == len(two) and all(
        type(a) is type(b) and (type(a) is ScalarExpr or a.type == b.type)
        for a, b in zip(one, two))


class Arrival(NamedTuple):
    """The state of the running path where its branch may merge."""

    state: FrameState
    plan: MergePlan


@dataclass
class OpenBranch:
    """A branch whose merge point is awaited, and the state of the trace at the branch."""

    key: Any
    frames: list[tuple[Any, int]]
    start: int  # index in the path
    decided: set[Any]
    nodes: set[Node]
    entries: int  # of the tape
    inputs: set[str]  # local variables that named an input before the branch, or might
    # Made objects that the variables of all frames held. A frame that has ended, or the stack of
    # an outer one, may hold them at the merge.
    objects: list[Any]
    loop_tokens: set[Any]
    visits: dict[Any, Any]

    @property
    def location(self) -> tuple[Any, ...]:
        """The code and the instruction of each frame at the branch."""
        return tuple((frame.f_code, at) for frame, at in self.frames)

    def moved_frame(self, frames: list[Any]) -> int | None:
        """The number of the frame that has moved since the branch. Frames around it have not moved,
        and frames that it had called at the branch have ended. None if one around it has moved."""
        same = 0
        for frame, (before, _) in zip(reversed(frames), reversed(self.frames)):
            if frame is not before:
                break
            same += 1
        moved = len(frames) - same
        around = zip(frames[moved + 1:], self.frames[len(self.frames) - same + 1:])
        return None if not same or any(f.f_lasti != at for f, (_, at) in around) else moved

    def merge_point(self, frames: list[Any], moved: int, tracked: frozenset[int]
                    ) -> MergePoint | None:
        """The state that paths from here to `frames` must agree in, where the frame with the number
        `moved` has moved; None if they cannot merge there."""
        ended = len(self.frames) - len(frames) + moved
        frame, (_, start) = frames[moved], self.frames[ended]
        if any(f.f_code.co_flags & GENERATORS for f in (
                *frames[:moved + 1], *(f for f, _ in self.frames[:ended]))):
            return None  # the state of a generator is hidden from the frame that iterates over it
        if any(depth_below(f.f_code, f.f_lasti) != 0 for f in frames[:moved]) \
                or not all(map(calls_directly, frames[1:moved + 1], frames[:moved])):
            return None  # the stack of a frame that has begun since holds values, or C code does
        point = merge_point(frame.f_code, start, frame.f_lasti, tracked, ended > 0)
        if point is None or (point.counters and not has_plain_counters(frame)):
            return None
        if not all(type(frame.f_locals.get(name)) is int for name in point.counters):
            return None
        return point._replace(frame=moved, called=ended > 0 or moved > 0)


@dataclass
class MergeTable:
    """The merges of one program: the hints and, by branch, the plan of its merge point; None if
    its paths do not merge. By key of a backward through merged paths: the values with gradients."""

    hints: MergeHints = field(default_factory=MergeHints)
    plans: dict[Any, MergePlan | None] = field(default_factory=dict)
    backwards: dict[Any, tuple[Node, ...]] = field(default_factory=dict)

    def copy(self) -> MergeTable:
        """A table that a further trace of the program can change."""
        return MergeTable(self.hints.copy(), dict(self.plans), dict(self.backwards))

    def learnt(self) -> MergeTable:
        """A table for a new program, with the same hints."""
        return MergeTable(self.hints.copy())


def modes_of(tracer: Any) -> Any:
    """The state of a run beside its frames and the contents of objects: modes of the interpreter,
    and the outside tensors whose gradients or tape edges the run has touched."""
    state = tracer.state
    touched = [{state.paths[i] for i in ids if i in state.paths}
               for ids in (tracer.grads_read, tracer.grads_set)]
    moved = {path for path, edge in state.edges.items() if state.values[path].edge is not edge}
    return is_grad_enabled(), STATE.casting, touched, moved
