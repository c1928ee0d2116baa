"""Connects a tracer with the merging of paths: events on one side, edits of the trace on the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.ordered_calls import next_turn
from ..control_flow.branch_merging import MERGE_FAILED, BranchMerger, MergeFailed
from ..control_flow.merge_gradients import OptionalGradient
from ..control_flow.merges import MergedBranch
from ..control_flow.possible_aliases import PossibleAliases
from ..graph.graph import Node
from ..heap.source_location import user_site
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import SymbolicScalar
from .value_table import ValueTable


class PathMerging:
    """The part of a tracer that merges paths, if it has a `merger`."""

    merger: BranchMerger | None = None
    merge_failed = False  # the merges that this run relied on do not hold
    aliases: PossibleAliases
    names: ValueTable
    loops: Any
    path: list[Any]
    ordered: list[Node]
    raising: list[tuple[int, Node]]
    refusal: str
    can_retry: bool
    is_recording: Any
    knows: Any
    _path_of: Any
    sizes: Any
    _nodes_by_id: dict[int, tuple[Any, Node]]
    _forgotten: dict[int, Any]  # by id of an array: the branch whose merge forgot it
    # While a backward of results is traced: the gradients that only some paths give.
    optional_gradients: dict[Node, list[OptionalGradient]] | None = None

    def refuse(self, why: str) -> None:
        """Marks the run as one that cannot be replayed."""
        raise NotImplementedError

    def bind(self, array: Any, node: Node) -> None:
        """Binds an array to a node."""
        raise NotImplementedError

    def _why_lost(self, tensor: Tensor) -> str:
        raise NotImplementedError

    def _joined(self, subject: Any) -> Any:
        """Merges paths here if they can. Returns `subject` or its phi."""
        if self.merger is None or self.refusal:
            return subject
        try:
            return self.merger.visit(subject)
        except MergeFailed as error:
            self._on_merge_failure(error)
            return subject

    def _note_branch(self, length: int) -> None:
        """Notes that a branch begins, if the path was of this length before its decision."""
        if self.merger is not None and len(self.path) > length and not self.refusal:
            self._tell_merger(self.merger.note_decision)

    def _observe(self, tensor: Tensor) -> None:
        """Refuses the run if an access to a tensor shows whether a merged variable is an input."""
        if self.merger is not None and self.aliases.observes(tensor):
            self._tell_merger(self.merger.note_observed)

    def note_identity_test(self) -> None:
        """Notes that code runs which compares the identities of objects."""
        if self.merger is not None:
            self._tell_merger(self.merger.note_identity_test)

    def identity_of(self, tensor: Tensor) -> SymbolicScalar | None:
        """For a tensor that may be an input: the number that tells which one. None for others."""
        return self.aliases.get(tensor)

    def end_branches(self) -> None:
        """Closes the branches whose paths have not merged at the end of the function."""
        self.aliases.copy_changes()
        if self.merger is not None and not self.refusal:
            self._tell_merger(partial(self.merger.end, whole=True))

    def _begin_ordered(self, params: dict[str, Any]) -> dict[str, Any]:
        """The params of an ordered op with its number. The loops around it are unrolled and the
        branches do not merge: else the op would have one number for several calls."""
        self.loops.unroll_open()
        if self.merger is not None:
            self._tell_merger(self.merger.leave_branches)
        turn = next_turn()
        return {**params, "turn": len(self.ordered) if turn is None else turn}

    def _tell_merger(self, event: Callable[[], None]) -> None:
        try:
            event()
        except MergeFailed as error:
            self._on_merge_failure(error)

    def _on_merge_failure(self, error: MergeFailed) -> None:
        """Refuses the run, since values that it has merged differ from those of other paths."""
        self.merger, self.merge_failed, self.can_retry = None, True, True
        self.refuse(MERGE_FAILED)

    # ---- gradients through merged paths
    @property
    def merges_gradients(self) -> bool:
        """True if a backward that runs now is recorded, and merges paths as the forward did."""
        return self.is_recording and self.merger is not None and not self.refusal

    def forbid_merged_gradients(self) -> None:
        """Refuses the run, since its results need gradients through merged paths that no backward
        of the run has computed. In the next run such paths do not merge."""
        if self.merger is not None:
            self.merger.hints.gradients = False
            self._on_merge_failure(MergeFailed())

    def forbid_uneven_gradients(self, location: Any) -> None:
        """Refuses the run if it records a backward: Python code sees which inputs have gradients.
        In the next run, the paths of the branch at this location do not merge."""
        if self.merges_gradients and self.merger is not None:
            self.merger.hints.uneven.add(location)
            self._on_merge_failure(MergeFailed())

    def begin_merged_backward(self, name: Any, outcomes: tuple[Any, ...]) -> Any:
        """Begins a branch for a backward through merged paths, the one with these outcomes. Returns
        its key."""
        assert self.merger is not None
        key = self.merger.begin_backward(name, outcomes)
        self.path.append(MergedBranch(key, user_site()))
        return key

    @contextlib.contextmanager
    def knowing(self, nodes: Mapping[int, tuple[Any, Node]]) -> Iterator[None]:
        """Knows the arrays of a merged path while its backward runs. Forgets what that computes."""
        before = dict(self._nodes_by_id)
        for key, bound in nodes.items():
            self._nodes_by_id.setdefault(key, bound)
        try:
            yield
        finally:
            for key, bound in list(self._nodes_by_id.items()):
                if before.get(key) is not bound:
                    del self._nodes_by_id[key]

    def end_merged_backward(self, key: Any, values: dict[Node, Node],
                            gradients: dict[Node, Tensor], formulas: tuple[ScalarExpr, ...]
                            ) -> tuple[ScalarExpr, ...]:
        """Merges the paths of a backward. `values` are the nodes of the `gradients`, which get
        arrays of their own, bound to phis. Returns the phis of `formulas`; () if it did not merge.
        """
        if self.merger is None:  # a backward inside of this one did not merge
            return ()
        try:
            with self.sizes.recording(False):
                phis, symbols = self.merger.end_backward(key, values, formulas)
        except MergeFailed as error:
            self._on_merge_failure(error)
            return ()
        for node, phi in phis.items():
            tensor = gradients[node] = Tensor(gradients[node]._data.view())
            self.bind(tensor._data, phi)
        return symbols

    def insert_element(self, index: int, element: Any) -> None:
        """Inserts an element of the path before others."""
        self.path.insert(index, element)
        self.raising = [(at + (at > index), node) for at, node in self.raising]

    def delete_element(self, index: int) -> None:
        """Deletes an element of the path."""
        del self.path[index]
        self.raising = [(at - (at > index), node) for at, node in self.raising]

    def on_merge(self, plan: Any) -> None:
        """Called when paths have merged."""

    def can_name(self, tensor: Tensor) -> bool:
        """True if a tensor's current value has a node or comes from outside."""
        return self.knows(tensor) or self._path_of(tensor._data) is not None

    def is_outside(self, node: Node) -> bool:
        """True for a value that the run did not compute: every path can read it."""
        return node in self.names.paths

    def forget_branch_values(self, branch: Any, is_gone: Callable[[Node], bool]) -> None:
        """Forgets the arrays of merged paths: code behind the merge must not use them."""
        for key, (_, node) in list(self._nodes_by_id.items()):
            if is_gone(node):
                del self._nodes_by_id[key]
                self._forgotten[key] = branch

    def _refuse_lost(self, tensor: Tensor) -> None:
        """Refuses the run, since a tensor has no path. If a merge forgot its array, a function of
        ours was running there and holds it: paths of this branch do not merge in further runs."""
        branch = self._forgotten.get(id(tensor._data))
        if branch is None or self.merger is None:
            self.refuse(self._why_lost(tensor))
        else:
            self.merger.hints.unmergeable.add(branch)
            self._on_merge_failure(MergeFailed())
