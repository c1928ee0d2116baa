"""Adds the paths of traces to the control-flow tree of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autodiff.suspended_backward import GradientReturn, SuspendedBackward
from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.decision import Decision
from ..control_flow.loop_elements import LoopEntry, LoopRepeat
from ..control_flow.loop_gradients import LoopBackwardEvent
from ..control_flow.merges import Merge, MergedBranch
from ..effects.effect_call import ClockRead, EffectCall
from .ir import (
    BackEdge,
    Block,
    Branch,
    Element,
    EndOfBackward,
    Exit,
    HostCall,
    IfMerge,
    LoopBackward,
    LoopHeader,
    SizeDefinition,
    Yield,
)
from .trace_exit import TraceExit


def add_path(root: Block | None, path: Sequence[Element], trace_exit: TraceExit | None,
             one_exit: bool = False) -> tuple[Block, bool]:
    """(root, added): the tree after another path was added to it.

    `added` is False, and the tree unchanged, if the path departs from the tree elsewhere than at an
    outcome that a branch did not have. A path without an exit ends at a back edge. With `one_exit`,
    all traces that end in one block must have the same outputs, and share the first one's exit.
    """
    insertion = _Insertion(root)
    added = insertion.follow(path)
    if added and trace_exit is not None:
        added = _add_exit(insertion, trace_exit, one_exit)
    if not added:
        insertion.undo()
    assert insertion.first is not None
    return insertion.first, added


def _add_exit(insertion: _Insertion, trace_exit: TraceExit, one_exit: bool) -> bool:
    """Ends a path at an exit. Returns False, without a change, if it cannot end here."""
    at = insertion.at
    if at is not None and not isinstance(at, Exit):
        return False
    others = [] if at is None else at.exits
    if others and (others[0].is_suspended != trace_exit.is_suspended or (
            one_exit and not others[0].same_outputs(trace_exit))):
        return False
    if not (one_exit and any(_add_to(other, trace_exit) for other in others)):
        if (one_exit and others and not trace_exit.is_suspended) \
                or not _add_backward(trace_exit, trace_exit):
            return False
        if at is None:
            insertion.attach(Exit(trace_exit))
        else:
            others.insert(0, trace_exit)
    for block, checks in zip(insertion.blocks, trace_exit.checks):
        block.checks.update(dict.fromkeys(checks))
    return True


def _add_to(end: TraceExit, trace_exit: TraceExit) -> bool:
    """Lets a trace end at an exit of earlier traces. Returns False, without a change, if its
    backward differs from theirs."""
    if not end.same_backward(trace_exit) or not _add_backward(end, trace_exit):
        return False
    end.absorb(trace_exit)
    return True


def _add_backward(end: TraceExit, trace_exit: TraceExit) -> bool:
    """Adds the backward of a trace to the blocks behind the exit `end`. Returns False, without a
    change, if its path departs from theirs."""
    behind, backward = end.backward, trace_exit.backward
    if not isinstance(behind, SuspendedBackward) or not isinstance(backward, SuspendedBackward):
        return True
    insertions = [_Insertion(variant.root) for variant in behind.variants]
    fits = [i.follow(v.elements) for i, v in zip(insertions, backward.variants, strict=True)]
    for insertion, variant in zip(insertions, behind.variants):
        if all(fits):
            variant.root = insertion.first
        else:
            insertion.undo()
    return all(fits)


class _Insertion:
    """Follows a path from a block, and attaches blocks where there are none yet."""

    def __init__(self, root: Block | None) -> None:
        self.first = self.at = root
        self.blocks: list[Block] = []  # of the elements
        self._targets: dict[Any, LoopHeader | IfMerge] = {}  # of jumps
        self._previous: tuple[Block, Element] | None = None
        self._attached: list[tuple[Block, Element]] = []  # the parents of all new blocks

    def follow(self, path: Sequence[Element]) -> bool:
        """Follows the elements. Returns False at a block that does not match one."""
        for element in path:
            at = self.at
            if at is None:
                at = self.attach(_block_of(element, self._targets))
            elif not at.matches(element):
                return False
            if isinstance(at, LoopHeader):
                self._targets[at.element.token] = at
            elif isinstance(at, IfMerge):
                self._targets[at.element.key] = at
            self.blocks.append(at)
            self._previous, self.at = (at, element), at.successor(element)
        return True

    def attach(self, block: Block) -> Block:
        """Adds a block at the end of the path so far."""
        if self._previous is None:
            self.first = block
            return block
        parent, element = self._previous
        assert parent.successor(element) is None
        parent.set_successor(element, block)
        self._attached.append(self._previous)
        return block

    def undo(self) -> None:
        """Removes the new blocks, which have no segments yet. A path that returns to the tree by a
        back edge may have left it again."""
        for parent, element in self._attached:
            parent.set_successor(element, None)


_BLOCKS: dict[type, Callable[[Any], Block]] = {
    Decision: Branch, MergedBranch: IfMerge, LoopEntry: LoopHeader,
    LoopBackwardEvent: LoopBackward, DataDependentSize: SizeDefinition,
    EffectCall: HostCall, ClockRead: HostCall, GradientReturn: EndOfBackward,
}


def _block_of(element: Element, targets: dict[Any, Any]) -> Block:
    """A new block for an element of a path. A jump leads to its loop or merge in `targets`."""
    if isinstance(element, Merge):
        return Yield(element, targets[element.key])
    if isinstance(element, LoopRepeat):
        return BackEdge(element, targets[element.token])
    return _BLOCKS[type(element)](element)
