"""Finds the blocks of a forward that the backward behind an exit repeats.

A backward through merged paths branches by the outcomes of the forward. On such a path, the values
that the forward has computed on its own path are still in the registers of the call.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..graph.graph import Node
from .ir import Block, Branch, IfMerge, LoopHeader, walk


class Twins:
    """For a block behind an exit: the block of the forward that a call has passed by the same
    outcomes."""

    def __init__(self, root: Block) -> None:
        self._twin: dict[Block, Block] = {}
        self._inside: set[Block] = set()
        self.backwards = [b for at in walk(root) if at.exits for b in at.children()]
        if self.backwards:
            self._find_all(root)

    def _find_all(self, root: Block) -> None:
        behind = {at for b in self.backwards for at in walk(b)}
        forward = [at for at in walk(root) if at not in behind]
        in_loops = {at for loop in forward if isinstance(loop, LoopHeader) for at in walk(loop)}
        self._inside = {at for merge in forward if isinstance(merge, IfMerge) and merge.body
                        for at in walk(merge.body)}
        branches: dict[Any, list[Branch]] = defaultdict(list)
        merges: dict[Any, list[IfMerge]] = defaultdict(list)
        for at in forward:
            if isinstance(at, Branch) and at not in in_loops:
                branches[at.subject, at.kind].append(at)
            elif isinstance(at, IfMerge) and at not in in_loops:
                merges[at.element.key].append(at)
        for at in (at for b in self.backwards for at in walk(b)):
            self._find(at, branches, merges)

    def _find(self, at: Block, branches: dict[Any, list[Branch]],
              merges: dict[Any, list[IfMerge]]) -> None:
        """Notes the twins of a block and of its children."""
        if isinstance(at, Branch) and len(same := branches[at.subject, at.kind]) == 1:
            twin = self._twin[at] = same[0]
            for outcome, child in at.outcomes.items():
                if outcome in twin.outcomes:
                    self._twin.setdefault(child, twin.outcomes[outcome])
        elif isinstance(at, IfMerge) and len(alike := merges[at.element.key]) == 1:
            merge = self._twin[at] = alike[0]
            for below, of_twin in ((at.body, merge.body), (at.continuation, merge.continuation)):
                if below is not None and of_twin is not None:
                    self._twin.setdefault(below, of_twin)

    def is_inside(self, at: Block) -> bool:
        """True for a block of the forward on one of several paths that merge."""
        return at in self._inside

    def available(self, at: Block, before: frozenset[Node]) -> frozenset[Node]:
        """The nodes that are available in a block: those before, and those of its twin."""
        twin = self._twin.get(at)
        return before if twin is None else before.union(
            n for segment in twin.segments for n in segment.outputs)
