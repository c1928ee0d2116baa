"""Defines the autograd node of a replayed call, whose backward is a compiled program.

The node collects the gradients of all its results and runs the program once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...eager import interpreter
from ...eager.autograd.engine import freed_tape_error
from ...eager.core.op import Op
from ...eager.core.tape import MODE, Entry
from ...eager.ops.elementwise import pointwise


class SavedArrays:
    """The arrays that one call saves for backward, and the parts of its tape that were freed."""

    __slots__ = ("arrays", "freed")

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays: list[Any] | None = arrays
        # (backward run, entries that it has freed)
        self.freed: list[tuple[object, frozenset[Entry]]] = []

    def check_not_freed(self, run: object, passed: frozenset[Entry]) -> None:
        """Raises GradientError if an earlier backward has freed an entry of `passed`."""
        for other, freed_entries in self.freed:
            both = freed_entries & passed if other is not run else None
            if both:
                raise freed_tape_error(next(iter(both)))

    def free(self, run: object, passed: frozenset[Entry], entries: int) -> None:
        """Marks entries as freed. Releases the arrays once all `entries` are freed."""
        self.freed.append((run, passed))
        if len(passed) == entries or len(frozenset().union(*[p for _, p in self.freed])) == entries:
            self.arrays = None


class CompiledBackward(Entry):
    """The autograd node of the results of one segment, which do not depend on each other.

    Its edges are the boundaries of its `segment`, in order, followed by the node of the segment
    below.
    """

    __slots__ = ("below", "saved", "segment")

    def __init__(self, op: Op, segment: Any, saved: SavedArrays, edges: tuple[Any, ...],
                 below: CompiledBackward | None) -> None:
        super().__init__(op, {}, (), edges if below is None else (*edges, below), None)
        self.segment, self.saved, self.below = segment, saved, below

    @property
    def is_freed(self) -> bool:
        return self.saved.arrays is None

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        if self.is_freed:
            raise freed_tape_error(self)
        compiled = not MODE.enabled and interpreter.STATE.active is None
        if compiled and useful is None and self.below is not None and self._is_unseen():
            sums.setdefault(self.below, {}).update(g)  # nothing observes the gradients in between
            return
        segment, run = self.segment, sums.setdefault(self.saved, object())
        numbers = tuple(sorted(g))
        needed_boundaries = None if useful is None else \
            frozenset([i for i in range(len(segment.boundaries)) if self.edges[i] in useful])
        variant = segment.variant(numbers, needed_boundaries)
        self.saved.check_not_freed(run, variant.passed)
        gradients = [g[i] for i in numbers]
        input_gradients = variant.run(self.saved.arrays, gradients) if compiled else None
        if input_gradients is None:
            input_gradients = segment.eagerly(self, numbers, needed_boundaries, gradients,
                                              MODE.enabled)
        for i, gx in input_gradients:
            before = sums.get(self.edges[i])
            sums[self.edges[i]] = gx if before is None else pointwise.add(before, gx)
        if not keep:
            self.saved.free(run, variant.passed, segment.entries)

    def _is_unseen(self) -> bool:
        """True if no hook and no Function observes gradients between this segment and the next."""
        return self.segment.fuses and not any(
            hasattr(edge, "extra") for edge in self.edges[:self.segment.lower])

