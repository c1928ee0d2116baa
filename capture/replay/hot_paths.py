"""Compiles the paths that calls often take through merges as a whole.

Values are materialized where paths merge, and the code behind a merge cannot be fused with the code
before it. For small arrays this costs nothing. For large ones, a path that calls repeat gets code
of its own. All other paths run the code with the merges.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...eager.arrays.shapes import TensorType
from ..cfg.ir import Block, Element, Yield
from ..cfg.path_expansion import EXPANDABLE, NotExpandable, Step, expand
from ..cfg.path_insertion import add_path
from ..cfg.segment_planner import SegmentPlanner
from ..cfg.trace_exit import TraceExit
from ..control_flow.decision import Decision
from ..control_flow.merges import Merge
from ..segments.segment import Backend
from .replay import MAX_NOTED_BLOCKS, Replay

MAX_HOT_PATHS = 64  # of one program
_MAX_WATCHED_CALLS = 400  # calls whose path is noted, before no more paths are compiled
_REPEATS = 2  # calls on a path before it is compiled as a whole
SMALLEST_BYTES = 1 << 15  # at the merges of a path: less stays in the nearest cache


class HotPaths(Replay):
    """The paths of a program with merges that have code of their own."""

    def __init__(self, program: Replay, backend: Backend) -> None:
        super().__init__(program.fn, program.names, program.varying, program.guards,
                         program.grad_enabled, program.casting)
        self._program = program
        self._planner = SegmentPlanner(program.names, program.fn, backend)
        self._merged: list[tuple[TraceExit, TraceExit, list[Yield]]] = []  # see `collect_uses`
        self._seen: Counter[tuple[Any, ...]] = Counter()
        self._added: set[tuple[Any, ...]] = set()
        self._watched = 0
        self._changing = threading.Lock()

    @property
    def counter(self) -> Replay:
        return self._program

    @property
    def count(self) -> int:
        """The number of hot paths."""
        return len(self._merged)

    def has_changed(self, version: int) -> bool:
        return self._program.has_changed(version)

    @property
    def watches(self) -> bool:
        """True if more paths may get code."""
        return self._watched < _MAX_WATCHED_CALLS and self.count < MAX_HOT_PATHS

    def note(self, blocks: Sequence[Block], is_hot: bool = False) -> None:
        """Notes that a call took the path of these blocks. Compiles the path if it is hot."""
        self._watched += 1
        steps = _steps(blocks)
        key = tuple([e.outcome for _, e in steps if isinstance(e, Decision)])
        self._seen[key] += _REPEATS if is_hot else 1
        if self._seen[key] >= _REPEATS and key not in self._added \
                and bytes_at_merges(e for _, e in steps) >= SMALLEST_BYTES:
            self._added.add(key)
            self._add(steps, blocks[-1])

    def _add(self, steps: Sequence[Step], end: Block) -> None:
        """Compiles a path, unless another thread adds one now."""
        if not self._changing.acquire(blocking=False):
            return
        self._tree_version += 1
        try:
            path, trace_exit = expand(steps, end, end.exits[0], self.names)
            self._drop_fast_path()
            trace_exit.set_guards([], self._source())
            root, added = add_path(self.root if self._merged else None, path, trace_exit)
            if added:
                self._planner.plan(root)
                self.root = root
                yields = [block for block, _ in steps if isinstance(block, Yield)]
                self._merged.append((trace_exit, end.exits[0], yields))
        except NotExpandable:
            self._watched = _MAX_WATCHED_CALLS
        finally:
            self._slow_calls = 0
            self._tree_version += 1
            self._changing.release()

    def collect_uses(self) -> None:
        """Adds the calls of hot paths to the counts of the blocks that they stand for."""
        for hot, trace_exit, yields in self._merged:
            uses, hot.uses = hot.uses, 0
            trace_exit.uses += uses
            for block in yields:
                block.count(uses)


def _steps(blocks: Sequence[Block]) -> list[Step]:
    """The blocks of a path, without its exit, with their elements. Empty for a long path, and one
    with other blocks than branches and merges."""
    *inner, end = blocks
    if len(blocks) >= MAX_NOTED_BLOCKS or not end.exits \
            or not all(isinstance(block, EXPANDABLE) for block in inner):
        return []
    return [(block, block.element_to(after)) for block, after in zip(inner, [*inner[1:], end])]


def bytes_at_merges(path: Iterable[Element]) -> int:
    """The bytes of the values that a path materializes at its merges."""
    return sum(_bytes(phi.type) for e in path if isinstance(e, Merge) for phi in e.phis)


def _bytes(type: TensorType) -> int:
    """The size of an array; that of one with dynamic sizes counts as large."""
    size = type.dtype.itemsize
    for n in type.shape:
        size *= n if isinstance(n, int) else SMALLEST_BYTES
    return int(size)
