"""Paths are added to a control-flow tree whole or not at all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fusewire.capture.cfg.ir import BackEdge, Block, Branch, Exit, LoopHeader
from fusewire.capture.cfg.path_insertion import add_path
from fusewire.capture.cfg.trace_exit import TraceExit
from fusewire.capture.control_flow.decision import Decision
from fusewire.capture.control_flow.loop_elements import LoopEntry, LoopRepeat
from fusewire.capture.scalars.scalar_expr import ScalarExpr, of_number
from fusewire.capture.trace.output_spec import TraceOutputs

SUBJECTS = [ScalarExpr("phi", ((("x",), i, 1),)) for i in range(3)]


def text_of(block: Block | None) -> Any:
    """The tree below a block, as nested tuples."""
    if isinstance(block, Branch):
        return (SUBJECTS.index(block.subject),
                {outcome: text_of(child) for outcome, child in block.outcomes.items()})
    if isinstance(block, LoopHeader):
        return block.element.token, text_of(block.body)
    if isinstance(block, BackEdge):
        return "repeat", block.element
    assert isinstance(block, Exit)
    return "exit"


def random_path(rng: random.Random) -> list[Any]:
    """A path of a program with two nested loops: decisions, loops, and back edges to any open loop.
    One element in 20 is not that of the program."""
    path: list[Any] = [LoopEntry(0, (), (), (), (), "")]
    depth, since_header = 1, [0]
    for _ in range(rng.randrange(2, 16)):
        choice = rng.random()
        wrong = rng.random() < 0.05
        if choice < 0.2 and depth < 2:
            path.append(LoopEntry(depth, (), (), (), (), "other" if wrong else ""))
            depth += 1
            since_header = [depth]
        elif choice < 0.5:
            depth = rng.randrange(1, depth + 1)  # the loops inside it end
            path.append(LoopRepeat(depth - 1, (), (of_number(int(wrong)),), ""))
            since_header = [depth]
        else:
            subject = (sum(since_header) + wrong) % len(SUBJECTS)
            outcome = rng.randrange(2)
            path.append(Decision(SUBJECTS[subject], "bool", outcome, ""))
            since_header.append(outcome + 1)
    return path


def follows(root: Block, path: list[Any]) -> bool:
    """True if a tree has a path."""
    at: Block | None = root
    for element in path:
        if at is None or not at.matches(element):
            return False
        at = at.successor(element)
    return isinstance(at, Exit)


@pytest.mark.parametrize("seed", range(10))
def test_a_path_is_added_whole_or_not_at_all(seed: int) -> None:
    """A path that has left the tree may return to it by a back edge, and then contradict it."""
    rng = random.Random(seed)
    for _ in range(200):
        check_additions([random_path(rng) for _ in range(25)])


def check_additions(paths: list[list[Any]]) -> None:
    """Adds paths to one tree, and compares the tree with itself before each."""
    root: Block | None = None
    for path in paths:
        before = None if root is None else text_of(root)
        trace_exit = TraceExit([], [], None, TraceOutputs([], [], [], {}))
        new_root, added = add_path(root, path, trace_exit)
        if added or root is not None:
            root = new_root
            assert added == follows(root, path)
            assert added or text_of(root) == before, path
