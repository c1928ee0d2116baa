"""Transformations of control-flow graphs, as text before and after: paths are added and expanded,
branches merge, segments are planned."""

from __future__ import annotations

from typing import Any

import pytest

import fusewire as fw
from fusewire.capture.cfg.ir import Block, Element
from fusewire.capture.cfg.path_expansion import expand
from fusewire.capture.cfg.path_insertion import add_path
from fusewire.capture.cfg.segment_planner import SegmentPlanner
from fusewire.capture.cfg.text import to_text
from fusewire.capture.cfg.text_parser import parse
from fusewire.capture.cfg.trace_exit import TraceExit
from fusewire.capture.cfg.verify import verify
from fusewire.capture.trace.value_table import ValueTable
from fusewire.eager.errors import GraphError


def no_backend(graph: Any) -> Any:
    raise AssertionError("nothing runs here")


def graph_of(text: str, names: ValueTable) -> Block:
    return parse(text, names, no_backend)


def steps_of(text: str, names: ValueTable) -> tuple[list[tuple[Block, Element]], Block]:
    """The steps of a graph that is one path, and its exit."""
    at, steps = graph_of(text, names), list[tuple[Block, Element]]()
    while not at.exits:
        following = at.children()[0] if at.children() else at.successor(at.element_to(at))
        assert following is not None
        steps.append((at, at.element_to(following)))
        at = following
    return steps, at


def path_of(text: str, names: ValueTable) -> tuple[list[Element], TraceExit]:
    """The elements of a graph that is one path, and its exit."""
    steps, end = steps_of(text, names)
    trace_exit, = end.exits
    trace_exit.checks = [list(block.checks) for block, _ in steps]
    return [element for _, element in steps], trace_exit


def printed(root: Block, names: ValueTable, planned: bool = False) -> str:
    if planned:
        SegmentPlanner(names, None, no_backend).plan(root)  # type: ignore[arg-type]
    return to_text(verify(root, names, "the test", planned), names)


def check(text: str, expected: str) -> None:
    assert text.splitlines() == expected.strip().splitlines()


INPUT = "x0 = input()  # float32[2]  at args[0]\n"
POSITIVE = """
block0:
  v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
  v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): True -> block1  # f.py:2
block1:
  exit:
    v3 = multiply(x0, float32(2.0))  # float32[2]
    return v3
"""
NEGATIVE = """
block0:
  v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
  v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): False -> block1  # f.py:2
block1:
  v3 = less(v1, float32(-5.0))  # bool[]
  branch bool(v3): True -> block2  # f.py:4
block2:
  exit:
    v4 = add(x0, v1)  # float32[2]
    return v4
"""


def test_a_path_is_added() -> None:
    names = ValueTable()
    root, added = add_path(None, *path_of(INPUT + POSITIVE, names))
    root, also = add_path(root, *path_of(INPUT + NEGATIVE, names))
    assert added and also
    check(printed(root, names), INPUT + """\
block0:
  v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
  v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): True -> block1, False -> block2  # f.py:2
block1:
  exit:
    v3 = multiply(x0, float32(2.0))  # float32[2]
    return v3
block2:
  v4 = less(v1, float32(-5.0))  # bool[]
  branch bool(v4): True -> block3  # f.py:4
block3:
  exit:
    v5 = add(x0, v1)  # float32[2]
    return v5
""")


def test_a_path_that_departs_elsewhere_is_not_added() -> None:
    names = ValueTable()
    root, _ = add_path(None, *path_of(INPUT + POSITIVE, names))
    before = printed(root, names)
    other = INPUT + POSITIVE.replace("greater(v1, float32(0.0))", "greater(v1, float32(1.0))")
    assert add_path(root, *path_of(other, names)) == (root, False)
    assert printed(root, names) == before


def test_segments_are_planned() -> None:
    """v1 is computed once, in the first block, and stays in a register for the path that reads
    it."""
    names = ValueTable()
    root, _ = add_path(None, *path_of(INPUT + POSITIVE, names))
    root, _ = add_path(root, *path_of(INPUT + NEGATIVE, names))
    check(printed(root, names, planned=True), INPUT + """\
block0:
  segment(x0) -> v2, v1:
    v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
    v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): True -> block1, False -> block2  # f.py:2
block1:
  exit:
    segment(x0) -> v3:
      v3 = multiply(x0, float32(2.0))  # float32[2]
    return v3
block2:
  segment(; v1) -> v4:
    v4 = less(v1, float32(-5.0))  # bool[]
  branch bool(v4): True -> block3  # f.py:4
block3:
  exit:
    segment(x0; v1) -> v5:
      v5 = add(x0, v1)  # float32[2]
    return v5
""")


def merging(outcome: bool, value: str, number: int) -> str:
    """A path through a branch that merges, with the value of y and the number k on this path."""
    return INPUT + f"""\
block0:
  merge merge0 -> block1, block3
block1:
  v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
  v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): {outcome} -> block2  # f.py:2
block2:
  v3 = {value}  # float32[2]
  yield merge0  # f.py:6
    p1 = phi(v3)  # float32[2]
    s0 = phi({number})
block3:
  v4 = sum(p1, axis=(0,), keepdims=False)  # float32[]
  v5 = less(v4, float32(9.0))  # bool[]
  branch bool(v5): {outcome} -> block4  # f.py:6
block4:
  exit:
    s1 = add(s0, 1)
    n2 = input()  # float32[]  of s1
    v6 = multiply(p1, n2)  # float32[2]
    return v6; s1
"""


MERGED = INPUT + """\
block0:
  merge merge0 -> block1, block4
block1:
  v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
  v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): True -> block2, False -> block3  # f.py:2
block2:
  v3 = multiply(x0, float32(2.0))  # float32[2]
  yield merge0  # f.py:6
    p1 = phi(v3)  # float32[2]
    s0 = phi(1)
block3:
  v5 = add(x0, float32(1.0))  # float32[2]
  yield merge0  # f.py:6
    p1 = phi(v5)  # float32[2]
    s0 = phi(2)
block4:
  v6 = sum(p1, axis=(0,), keepdims=False)  # float32[]
  v7 = less(v6, float32(9.0))  # bool[]
  branch bool(v7): True -> block5, False -> block6  # f.py:6
block5:
  exit:
    s1 = add(s0, 1)
    n2 = input()  # float32[]  of s1
    v9 = multiply(p1, n2)  # float32[2]
    return v9; s1
block6:
  exit:
    s1 = add(s0, 1)
    n2 = input()  # float32[]  of s1
    v9 = multiply(p1, n2)  # float32[2]
    return v9; s1
"""


def merged(names: ValueTable) -> Block:
    root, _ = add_path(None, *path_of(merging(True, "multiply(x0, float32(2.0))", 1), names))
    root, added = add_path(root, *path_of(merging(False, "add(x0, float32(1.0))", 2), names),
                           one_exit=True)
    assert added
    return root


def test_paths_merge() -> None:
    """Two paths share the code behind the merge, which the second one has left at its branch."""
    names = ValueTable()
    check(printed(merged(names), names), MERGED)


def test_a_path_with_other_results_behind_a_merge_is_not_added() -> None:
    names = ValueTable()
    root, text = merged(names), merging(True, "add(x0, float32(1.0))", 3)
    other = text.replace("block2:", "block2:", 1).replace("return v6; s1", "return p1; s1")
    before = printed(root, names)
    assert not add_path(root, *path_of(other, names), one_exit=True)[1]
    assert printed(root, names) == before


def test_a_path_through_merges_is_expanded() -> None:
    """Each phi becomes its value on the path, in nodes, numbers, and operands that are numbers."""
    names = ValueTable()
    steps, end = steps_of(merging(False, "add(x0, float32(1.0))", 2), names)
    root, _ = add_path(None, *expand(steps, end, end.exits[0], names))
    check(printed(root, names), INPUT + """\
block0:
  v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
  v2 = greater(v1, float32(0.0))  # bool[]
  branch bool(v2): False -> block1  # f.py:2
block1:
  v3 = add(x0, float32(1.0))  # float32[2]
  v4 = sum(v3, axis=(0,), keepdims=False)  # float32[]
  v5 = less(v4, float32(9.0))  # bool[]
  branch bool(v5): False -> block2  # f.py:6
block2:
  exit:
    s0 = add(2, 1)
    n0 = input()  # float32[]  of s0
    v7 = multiply(v3, n0)  # float32[2]
    return v7; s0
""")


# ---- what functions become
def counted(x: fw.Tensor) -> Any:
    n = 0
    while x.sum() < 10:
        x = x * 2
        n = n + 1
    return x, n


def test_the_graph_of_a_loop() -> None:
    compiled = fw.compile(counted)
    for value in (20.0, 1.0, 3.0):
        compiled(fw.tensor([value]))
    program, = compiled.programs
    line = counted.__code__.co_firstlineno + 2
    check(to_text(program.root, program.names), f"""\
x0 = input()  # float32[1]  at args[0]
block0:
  segment(x0) -> v2:
    v1 = sum(x0, axis=(0,), keepdims=False)  # float32[]
    v2 = less(v1, float32(10.0))  # bool[]
  branch bool(v2): False -> block1, True -> block2  # test_cfg_text.py:{line}
block1:
  exit:
    segment() -> :
    return
block2:
  segment(x0) -> v3, v5:
    v3 = multiply(x0, float32(2.0))  # float32[1]
    v4 = sum(v3, axis=(0,), keepdims=False)  # float32[]
    v5 = less(v4, float32(10.0))  # bool[]
  loop loop0 -> block3  # test_cfg_text.py:{line}
    p1 = phi(v3)  # float32[1]
    p2 = phi(v5)  # bool[]
    s0 = phi(1)
block3:
  branch bool(p2): True -> block4, False -> block5  # test_cfg_text.py:{line}
block4:
  segment(; p1) -> v8, v10:
    v8 = multiply(p1, float32(2.0))  # float32[1]
    v9 = sum(v8, axis=(0,), keepdims=False)  # float32[]
    v10 = less(v9, float32(10.0))  # bool[]
  s1 = add(s0, 1)
  continue loop0  # test_cfg_text.py:{line}
    p1 = phi(v8)  # float32[1]
    p2 = phi(v10)  # bool[]
    s0 = phi(s1)
block5:
  exit:
    segment(; p1) -> p1:
    return p1; s0
""")


def loss_of(x: fw.Tensor, w: fw.Tensor) -> Any:
    x = x * w
    while x.sum() < 10:
        x = x * w + 1
    loss = x.sum()
    loss.backward()
    return loss


def mask_of(x: fw.Tensor) -> Any:
    y = x[x > 0]
    return y * 2 if y.shape[0] > 2 else y


def step_of(x: fw.Tensor) -> Any:
    if x.sum() > 0:
        STATE["calls"] = x.sum().item()
    return [10, 20, 30, 40][int((x > 0).sum())], x[0] + 1


STATE: dict[str, Any] = {}
FUNCTIONS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "a loop with gradients": (loss_of, [
        (fw.tensor([a]), fw.tensor([1.5], requires_grad=True)) for a in (1.0, 2.0, 0.5, 20.0)]),
    "data-dependent sizes": (mask_of, [
        (fw.tensor([a, 1.0, 2.0]),) for a in (1.0, -1.0, 3.0)]),
    "ints, effects and exact values": (step_of, [
        (fw.tensor([a, b, 1.0]),) for a in (1.0, -1.0) for b in (2.0, -3.0)]),
    "a number as a size": (lambda x, n: x[1:n] * 2, [(fw.ones(9), n) for n in (3, 4, -2, 12, 0)]),
    "a size": (lambda x: x / x.shape[0], [(fw.ones(n),) for n in (3, 4, 5)]),
    "a training step": (None, []),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_graphs_of_functions_parse_back(name: str) -> None:
    fn, calls = FUNCTIONS[name] if FUNCTIONS[name][0] else training()
    compiled = fw.compile(fn)
    for call in calls:
        compiled(*call)
    assert compiled.stats.recordings and not compiled.stats.fallbacks
    for program in compiled.programs:
        text, names = to_text(program.root, program.names), ValueTable()
        assert to_text(verify(parse(text, names, no_backend), names, "parsing"), names) == \
            "\n".join(line for line in text.splitlines() if not line.strip().startswith("# "))


def training() -> Any:
    layer = fw.nn.Linear(3, 2)
    optimizer = fw.optim.Adam(layer.parameters(), 0.1)

    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = (layer(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step, [(fw.ones(4, 3),)] * 3


# ---- texts that are no graph
@pytest.mark.parametrize(("text", "message"), [
    ("", "no block"),
    ("block0:\n  jump block1", "does not end in branch"),
    ("block0:\n  branch bool(v1): True -> block1", "no line before defines v1"),
    ("block0:\n  exit:\n    return s3", "no line before defines s3"),
    ("block0:\n  merge merge0 -> block1, none", "the text has no block1"),
    ("block0:\n  continue loop0", "no line before begins loop0"),
    ("x0 = input()  # float32[2]  at args[\nblock0:\n  exit:\n    return x0", "not an access path"),
    (INPUT + "block0:\n  branch value(x0): True -> block1, True -> block1\nblock1:\n  exit:\n"
     "    return x0", "leads twice to True"),
])
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message.replace("[", r"\[")):
        graph_of(text, ValueTable())


def test_blocks_that_resume_a_call() -> None:
    """Behind an exit: its results receive gradients, and a path with a branch goes on."""
    names, text = ValueTable(), INPUT + """block0:
  exit:
    segment(x0) -> v1, v2:
      v1 = tanh(x0)  # float32[2]
      v2 = exp(v1)  # float32[2]
    return v2, v1
    saves v1
    resume(p3) -> block1
      p3 = gradient(0)  # float32[2]
block1:
  segment(; p3, v1) -> v4, v6:
    v4 = multiply(p3, v1)  # float32[2]
    v5 = sum(v4, axis=(0,), keepdims=False)  # float32[]
    v6 = greater(v5, float32(0.0))  # bool[]
  branch bool(v6): True -> block2  # f.py:2
block2:
  gradients 0: v4"""
    check(to_text(verify(graph_of(text, names), names, "the test"), names), text)
