"""The verifier finds each defect that is planted in a control-flow graph, and names the block and
the value."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_cfgs import Builder, draw

import fusewire as fw
from fusewire.capture.cfg import verify as verifier
from fusewire.capture.cfg.ir import (
    BackEdge,
    Block,
    Branch,
    Exit,
    IfMerge,
    LoopBackward,
    LoopHeader,
    SizeDefinition,
    Yield,
    walk,
)
from fusewire.capture.cfg.segment_planner import SegmentPlanner
from fusewire.capture.cfg.text import to_text
from fusewire.capture.cfg.text_parser import parse
from fusewire.capture.cfg.verify import verify
from fusewire.capture.graph.graph import Node
from fusewire.capture.scalars.scalar_expr import ScalarExpr
from fusewire.capture.trace.output_spec import OutputTensor
from fusewire.capture.trace.value_table import ValueTable
from fusewire.eager.errors import GraphError

WHOLE = """\
x0 = input()  # float32[2]  at args[0]
block0:
  merge merge0 -> block1, block4  # f.py:2
block1:
  segment(x0) -> v2:
    v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
    v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): True -> block2, False -> block3  # f.py:2
block2:
  segment(x0) -> v3:
    v3 = multiply(x0, float32(2.0))  # float32[2]
  yield merge0  # f.py:3
    p1 = phi(v3)  # float32[2]
    s0 = phi(1)
block3:
  segment(x0) -> v5:
    v5 = add(x0, float32(1.0))  # float32[2]
  yield merge0  # f.py:5
    p1 = phi(v5)  # float32[2]
    s0 = phi(2)
block4:
  loop loop0 -> block5  # f.py:6
    p2 = phi(p1)  # float32[2]
    s1 = phi(s0)
block5:
  s2 = lt(s1, 9)
  branch bool(s2): True -> block6, False -> block7  # f.py:6
block6:
  segment(; p2) -> v7:
    v7 = multiply(p2, p2)  # float32[2]
  s3 = add(s1, 1)
  continue loop0  # f.py:7
    p2 = phi(v7)  # float32[2]
    s1 = phi(s3)
block7:
  exit:
    segment(; p2) -> v8:
      v8 = negative(p2)  # float32[2]
    return v8; s1
"""


def verified(text: str) -> Block:
    names = ValueTable()
    root = parse(text, names, None)  # type: ignore[arg-type]
    return verify(root, names, "the test")


def test_the_graph_without_defects() -> None:
    names = ValueTable()
    root = parse(WHOLE, names, None)  # type: ignore[arg-type]
    assert to_text(verify(root, names, "the test"), names) + "\n" == WHOLE


# what is replaced, what by, and the message
TEXTS: dict[str, tuple[str, str, str]] = {
    "a value of another path": (
        "p1 = phi(v5)", "p1 = phi(v3)", "block3 at f.py:5: it reads v3, which no segment before"),
    "a value that a segment does not put out": (
        "segment(x0) -> v2:", "segment(x0) -> v1:", "block1 at f.py:2: it reads v2, which no seg"),
    "a register before it is defined": (
        "segment(x0) -> v5:", "segment(x0; v3) -> v5:", "block3 at f.py:5: a segment reads v3"),
    "a register of a loop behind another path": (
        "segment(; p2) -> v8:", "segment(; v7) -> v8:", "block7: a segment reads v7"),
    "a phi outside of its merge": (
        "segment(x0) -> v5:", "segment(x0; p1) -> v5:", "block3 at f.py:5: a segment reads p1"),
    "no value for a phi": (
        "    p1 = phi(v5)  # float32[2]\n", "", "block4 at f.py:6: it reads p1, which no"),
    "no number for a phi": (
        "    s0 = phi(2)\n", "", "block4 at f.py:6: it reads s0, which no block"),
    "other phis of a merge": (
        "    p1 = phi(v3)", "    p9 = phi(v3)", "block2 at f.py:3: it assigns other phis"),
    "a value of another type": (
        "    p2 = phi(p1)  # float32[2]", "    p2 = phi(p1)  # float32[3]",
        r"block4 at f.py:6: p1 is float32\[2\], and the phi p2 is float32\[3\]"),
    "no value for a phi of a loop": (
        "    p2 = phi(v7)  # float32[2]\n", "",
        "block6 at f.py:7: it has 0 tensors and 1 numbers for 1 and 1 phis"),
    "a phi that is defined twice": (
        "    p2 = phi(p1)  # float32[2]\n", "    p2 = phi(p1)  # float32[2]\n    p1 = phi(p1)  # "
        "float32[2]\n", "block4 at f.py:6: it defines p1, which is defined already"),
    "a back edge to a loop that it is not in": (
        "  yield merge0  # f.py:5\n    p1 = phi(v5)  # float32[2]\n    s0 = phi(2)",
        "  continue loop0  # f.py:5\n    p2 = phi(v5)  # float32[2]\n    s1 = phi(2)",
        "no line before begins loop0"),
    "a yield behind its merge": (
        "  continue loop0  # f.py:7\n    p2 = phi(v7)  # float32[2]\n    s1 = phi(s3)",
        "  yield merge0  # f.py:7\n    p1 = phi(v7)  # float32[2]\n    s0 = phi(s3)",
        "block6 at f.py:7: it leads to a merge that it is not in"),
    "a block with two parents": (
        "True -> block2, False -> block3", "True -> block2, False -> block2",
        "block2 at f.py:3: two blocks lead to it"),
    "a loop in the tree": (
        "True -> block6, False -> block7", "True -> block6, False -> block4",
        "block4 at f.py:6: two blocks lead to it"),
    "no continuation": ("-> block1, block4", "-> block1, none", "block0 at f.py:2: no block foll"),
    "no body": ("loop loop0 -> block5", "loop loop0 -> none", "block4 at f.py:6: no block follows"),
    "no outcome": ("True -> block6, False -> block7", "True -> none",
                   "block5 at f.py:6: it has no outcome"),
    "an outcome that is no bool": (
        "True -> block6, False -> block7", "True -> block6, 2 -> block7",
        "block5 at f.py:6: its outcomes are True, 2 for a bool"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_defect_in_a_text(name: str) -> None:
    old, new, message = TEXTS[name]
    assert old in WHOLE
    with pytest.raises(GraphError, match=message):
        verified(WHOLE.replace(old, new))


# ---- defects in the graphs of functions and of random programs
def looped(x: fw.Tensor, w: fw.Tensor) -> Any:
    x = x * w
    while x.sum() < 10:
        x = x * w + 1
    loss = x.sum()
    loss.backward()
    return loss


def masked(x: fw.Tensor) -> Any:
    y = x[x > 0]
    return y * 2 if y.shape[0] > 2 else y


def compiled_graph(fn: Any, calls: list[tuple[Any, ...]]) -> tuple[Block, ValueTable]:
    compiled = fw.compile(fn)
    for call in calls:
        compiled(*call)
    program = compiled.programs[-1]
    return program.root, program.names


def with_gradients() -> tuple[Block, ValueTable]:
    weight = fw.tensor([1.5], requires_grad=True)
    return compiled_graph(looped, [(fw.tensor([1.0]), weight)] * 3)


def with_sizes() -> tuple[Block, ValueTable]:
    return compiled_graph(masked, [(fw.tensor([a, 1.0, 2.0]),) for a in (1.0, -1.0)])


def of_random_program() -> tuple[Block, ValueTable]:
    names = ValueTable()
    root = Builder(names).whole(draw(1004))
    SegmentPlanner(names, None, None).plan(root)  # type: ignore[arg-type]
    return root, names


def first(root: Block, kind: type[Any], holds: Callable[[Any], Any] = lambda block: True) -> Any:
    return next(b for b in walk(root) if type(b) is kind and holds(b))


def other_type(names: ValueTable) -> Node:
    return names.nodes.const((1, 2, 3), np.dtype("int8"), (3,))


def set_element(block: Any, field: str, value: Any) -> None:
    block.element = block.element._replace(**{field: value})


def drop_vjp_segments(block: Any) -> None:
    slots, (vjp, _) = next(iter(block.vjps.items()))
    block.vjps[slots] = vjp, []


Defect = tuple[Callable[[], tuple[Block, ValueTable]], Callable[[Block, ValueTable], Any], str]
DEFECTS: dict[str, Defect] = {
    "the vjp of an iteration has no segments": (
        with_gradients, lambda root, names: drop_vjp_segments(
            first(root, BackEdge, lambda b: b.vjps)), "it reads v"),
    "the backward of a loop that has not begun": (
        with_gradients, lambda root, names: set_element(
            first(root, LoopBackward), "token", "another"), "backward of a loop that no block"),
    "the backward of a loop with too few phis": (
        with_gradients, lambda root, names: set_element(
            first(root, LoopBackward), "phis", ()), "it has 0 phis for"),
    "the gradient of a phi that does not exist": (
        with_gradients, lambda root, names: set_element(
            first(root, LoopBackward), "incoming",
            ((7, first(root, LoopBackward).element.incoming[0][1]),)), "of phi 7 of"),
    "a size that no op defines": (
        with_sizes, lambda root, names: names.data_dependent.clear(),
        "has no data-dependent size"),
    "a size definition without a successor": (
        with_sizes, lambda root, names: setattr(first(root, SizeDefinition), "body", None),
        "no block follows it"),
    "a segment without its outputs": (
        of_random_program, lambda root, names: first(
            root, Branch, lambda b: b.segments).segments.clear(), "it reads v"),
    "a segment with another input": (
        of_random_program, lambda root, names: first(
            root, Branch, lambda b: b.segments).segments[0].inputs.registers.append(
                other_type(names)), "which no segment before it computes|other numbers of values"),
    "a tensor that is no input": (
        of_random_program, lambda root, names: names.paths.clear(), "which is no tensor"),
    "an exit with a result that it does not compute": (
        of_random_program, lambda root, names: first(root, Exit).exits[0].outputs.append(
            other_type(names)), "which no segment before it computes"),
    "an exit that makes a tensor of an output that it has not": (
        of_random_program, lambda root, names: first(root, Exit).exits[0].tensors.append(
            OutputTensor(99, None, fw.Tensor)),
        "uses output 99 of"),
    "an exit with a number of a loop that it is not in": (
        of_random_program, lambda root, names: first(root, Exit).exits[0].formulas.append(
            ScalarExpr("phi", (("of another graph",),))), "which no block before it defines"),
    "a merge that no path reaches": (
        of_random_program, lambda root, names: setattr(
            first(root, Yield), "target", IfMerge(first(root, IfMerge).element)),
        "a merge that it is not in|no path reaches its merge"),
    "a back edge to another loop": (
        of_random_program, lambda root, names: setattr(
            first(root, BackEdge), "target", LoopHeader(first(root, LoopHeader).element)),
        "a loop that it is not in"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_in_a_graph(name: str) -> None:
    made, damage, message = DEFECTS[name]
    root, names = made()
    verify(root, names, "the test")
    damage(root, names)
    with pytest.raises(GraphError, match=rf"after the test: block\d+.*({message})"):
        verify(root, names, "the test")


@pytest.mark.parametrize("seed", range(60))
def test_values_that_are_exchanged_in_random_graphs(seed: int) -> None:
    """An operand in place of another: each value that is not defined on the path is found."""
    rng, names = random.Random(seed), ValueTable()
    root = Builder(names).whole(draw(2000 + seed))
    SegmentPlanner(names, None, None).plan(root)  # type: ignore[arg-type]
    blocks = list(walk(root))
    values = [n for b in blocks for s in b.segments for n in s.outputs]
    carriers = [b for b in blocks if isinstance(b, (Yield, BackEdge, LoopHeader)) and b.values]
    if not carriers or not values:
        return
    block, value = rng.choice(carriers), rng.choice(values)
    is_right = value in defined_before(root, block) and value.type == block.values[0].type
    set_element(block, "values", (value, *block.values[1:]))
    if is_right:
        verify(root, names, "the test")
    else:
        with pytest.raises(GraphError, match=r"it reads [vxp]\d|and the phi"):
            verify(root, names, "the test")


def defined_before(root: Block, target: Block) -> list[Node]:
    """The values that are defined on the path to a block, its own segments included."""
    def search(block: Block, defined: list[Node]) -> list[Node] | None:
        defined = [*defined, *[n for s in block.segments for n in s.outputs]]
        if block is target:
            return defined
        inside = (search(child, [*defined, *block.definitions(child)])
                  for child in block.children())
        return next((found for found in inside if found is not None), None)

    found = search(root, [])
    assert found is not None
    return found


def test_each_added_path_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect in the graph of a compiled function is found when the next path is added."""
    compiled = fw.compile(lambda x: x * 2 if x.sum() > 0 else x - 1)
    compiled(fw.ones(2))
    program, = compiled.programs
    program.root.kind = "bool"  # type: ignore[attr-defined]
    program.root.outcomes[1.5] = program.root.outcomes.pop(True)  # type: ignore[attr-defined]
    with pytest.raises(GraphError, match=re.escape("its outcomes are 1.5, False for a bool")):
        compiled(-fw.ones(2))
    assert verifier.verify is verify
