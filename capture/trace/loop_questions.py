"""Answers the questions that loops over dynamic sizes ask: is there another iteration, and which?
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..control_flow.frame_state import can_recur
from ..control_flow.loop_detection import LoopDetector
from ..control_flow.loop_elements import LoopEntry
from ..heap.code_tracker import followed
from ..heap.source_location import user_site
from ..scalars.symbolic_scalar import SymbolicScalar
from ..sizes.symbolic_dim import Dim, ShapeEnv
from .value_table import ValueTable

if TYPE_CHECKING:
    from ..control_flow.symbolic_range import SymbolicIterator


class LoopQuestions:
    """The part of a tracer that loops over dynamic sizes ask."""

    counts: bool  # loops over dynamic sizes are traced as loops
    can_retry: bool
    loops: LoopDetector
    names: ValueTable
    path: list[Any]
    sizes: ShapeEnv

    def symbol(self, number: Any) -> Any:
        """A size as a symbolic number that loops may carry; other numbers unchanged."""
        return self._size(number) if type(number) is Dim else number

    def is_stale(self, number: SymbolicScalar) -> bool:
        """True for a number of an earlier iteration of a loop, which no longer has a value."""
        return self.loops.is_stale(number)

    def loop_continues(self, iterator: SymbolicIterator) -> bool:
        """True if a `for` has another iteration."""
        with self.sizes.recording(False):
            outcome = iterator.condition()[1]
            subject = self._visit_for(iterator)
        if subject is None:
            return True
        length = len(self.path)
        outcome = bool(self._record_decision(subject, "bool", outcome))
        self._note_branch(length)
        return outcome

    def _visit_for(self, iterator: SymbolicIterator) -> Any:
        """The subject of the condition of a `for`; None if it holds for all sizes."""
        return self.loops.visit_for(iterator, user_site())

    def is_loop_test(self, frame: Any) -> bool:
        """True if a frame of user code tests the condition of a loop."""
        return self.counts and followed(frame.f_code) and can_recur(
            [frame], self.loops.tracked_iterators(frame))

    def unroll_sizes(self) -> None:
        """Unrolls loops over dynamic sizes in further traces, since they may be why this one is
        refused. Not if further traces know better for another reason."""
        if self.counts and not self.can_retry and self.sizes.values \
                and any(type(e) is LoopEntry for e in self.path):
            self.names.rolls_sizes, self.can_retry = False, True

    def _size(self, size: Any) -> SymbolicScalar:
        raise NotImplementedError

    def tensor_of(self, number: SymbolicScalar, dtype: Any) -> Any:
        """The tensor of a number; None if the dtype cannot hold it."""
        raise NotImplementedError

    def _record_decision(self, subject: Any, kind: str, outcome: Any) -> Any:
        raise NotImplementedError

    def _note_branch(self, length: int) -> None:
        raise NotImplementedError
