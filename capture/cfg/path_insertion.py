"""Adds the paths of traces to the control-flow tree of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..control_flow.data_dependent_sizes import DataDependentSize
from ..control_flow.decision import Decision
from ..control_flow.loop_detection import LoopEntry, LoopRepeat
from ..control_flow.loop_gradients import LoopBackwardEvent
from ..control_flow.merges import Merge, MergedBranch
from ..effects.effect_call import ClockRead, EffectCall
from .ir import (
    BackEdge,
    Block,
    Branch,
    Element,
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
    targets: dict[Any, LoopHeader | IfMerge] = {}  # of jumps
    previous: tuple[Block, Element] | None = None
    attached: list[tuple[Block, Element]] = []  # the parents of all new blocks
    at, first = root, root
    blocks: list[Block] = []
    for element in path:
        if at is None:
            at = _block_of(element, targets)
            first = _attach(previous, at) or first
            attached += [previous] if previous is not None else []
        elif not at.matches(element):
            _detach(attached)
            return first or at, False
        if isinstance(at, LoopHeader):
            targets[at.element.token] = at
        elif isinstance(at, IfMerge):
            targets[at.element.key] = at
        blocks.append(at)
        previous, at = (at, element), at.successor(element)
    if trace_exit is None:
        assert first is not None
        return first, True
    if at is not None and (not isinstance(at, Exit) or (
            one_exit and not at.exits[0].same_outputs(trace_exit))):
        _detach(attached)
        return first or at, False
    for block, checks in zip(blocks, trace_exit.checks):
        block.checks.update(dict.fromkeys(checks))
    if at is None:
        end: Block = Exit(trace_exit)
        return _attach(previous, end) or first or end, True
    if not one_exit:
        at.exits.insert(0, trace_exit)
    assert first is not None
    return first, True


_BLOCKS: dict[type, Callable[[Any], Block]] = {
    Decision: Branch, MergedBranch: IfMerge, LoopEntry: LoopHeader,
    LoopBackwardEvent: LoopBackward, DataDependentSize: SizeDefinition,
    EffectCall: HostCall, ClockRead: HostCall,
}


def _block_of(element: Element, targets: dict[Any, Any]) -> Block:
    """A new block for an element of a path. A jump leads to its loop or merge in `targets`."""
    if isinstance(element, Merge):
        return Yield(element, targets[element.key])
    if isinstance(element, LoopRepeat):
        return BackEdge(element, targets[element.token])
    return _BLOCKS[type(element)](element)


def _attach(previous: tuple[Block, Element] | None, block: Block) -> Block | None:
    """Adds a block below `previous`. Returns the block if it is the root, else None."""
    if previous is None:
        return block
    parent, element = previous
    assert parent.successor(element) is None
    parent.set_successor(element, block)
    return None


def _detach(parents: Sequence[tuple[Block, Element]]) -> None:
    """Removes the blocks that were added below these, which have no segments yet. A path that
    returns to the tree by a back edge may have left it again."""
    for parent, element in parents:
        parent.set_successor(element, None)
