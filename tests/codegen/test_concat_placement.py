"""Results that the steps of a loop concatenate are computed in their place of the result; slices of
one array are equal operands, in whatever form they were written."""

from typing import Any

import numpy as np
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.passes.simplify import merge_slices
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.fusion.fusion import fuse
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.outline.fill_slices import fold_fill_slices
from fusewire.codegen.outline.outline import cut_sections

RNG = np.random.default_rng(3)
ARRAYS = [RNG.standard_normal(s).astype("f4") * 0.1 for s in ((12, 4, 40), (40, 40), (4, 40))]


def agrees(run: Any, arrays: list[Any]) -> Graph:
    """The graph of a function whose compiled results are those of Python in float64."""
    graph, given = recorded(run, *map(fw.from_numpy, arrays))
    wanted = run(*[fw.from_numpy(a.astype("f8")) for a in arrays])
    for found in (compile_graph(graph)([a.copy() for a in given]), interpreted(graph, given)):
        for got, want in zip(found, wanted):
            assert abs(got - want.numpy()).max() <= 1e-6
    return graph


def copies_of(graph: Graph) -> int:
    """How many kernels only copy a piece of a concat."""
    return sum("concat" in x.kernel.name for x in lower_graph(graph, Machine())[1])


def states(x: fw.Tensor, w: fw.Tensor, h: fw.Tensor) -> list[fw.Tensor]:
    found = []
    for t in range(12):
        h = fw.tanh(x[t] + h @ w)
        found.append(h)
    return found


# ---- concats
def test_results_of_turns_lie_where_a_concat_has_them() -> None:
    graph = agrees(lambda x, w, h: [fw.concat(states(x, w, h))], ARRAYS)
    assert cut_sections(graph)
    assert copies_of(graph) == 0


def test_they_lie_there_where_the_concat_is_only_read() -> None:
    def run(x: fw.Tensor, w: fw.Tensor, h: fw.Tensor) -> list[fw.Tensor]:
        return [fw.permute_dims(fw.stack(states(x, w, h)), (1, 0, 2)) * 2]

    assert copies_of(agrees(run, ARRAYS)) == 0


def test_one_of_several_concats_has_no_copies() -> None:
    def run(x: fw.Tensor, w: fw.Tensor, h: fw.Tensor) -> list[fw.Tensor]:
        after = states(x, w, h)
        return [fw.concat(after), fw.concat([h, *after[:0:-1]]), fw.concat([*after, *after])]

    assert copies_of(agrees(run, ARRAYS)) == 12 + 24


def test_a_result_of_its_own_is_copied() -> None:
    """Users change what they get: it must not be a part of another result."""
    def run(x: fw.Tensor, w: fw.Tensor, h: fw.Tensor) -> list[fw.Tensor]:
        after = states(x, w, h)
        return [fw.concat(after), after[5]]

    assert copies_of(agrees(run, ARRAYS)) == 1


def test_pieces_that_lie_apart_are_copied() -> None:
    graph = agrees(lambda x, w, h: [fw.concat(states(x, w, h), 1)], ARRAYS)
    assert copies_of(graph) == 12


# ---- slices
def halves(x: fw.Tensor, parts: int) -> list[fw.Tensor]:
    """Rows of `x`, as they are cut in two again and again."""
    if parts == 1:
        return [x]
    middle = x.shape[0] // 2
    return [*halves(x[:middle], parts // 2), *halves(x[middle:], parts // 2)]


def test_slices_of_slices_are_slices() -> None:
    graph, _ = recorded(lambda x: fw.exp(x[2:8][1:5:2][1]), fw.ones((9, 3)))
    (cut,) = [n for n in merge_slices(graph).nodes() if n.op == "slice"]
    assert cut.inputs[0].op == "input" and cut.params["start"] == (5, 0)


def test_turns_are_found_however_their_parts_were_cut() -> None:
    def run(x: fw.Tensor, w: fw.Tensor, h: fw.Tensor) -> list[fw.Tensor]:
        for part in halves(x, 8):
            h = fw.tanh(part + h @ w)
        return [h]

    graph = agrees(run, [RNG.standard_normal(s).astype("f4") * 0.1
                         for s in ((32, 40), (40, 40), (4, 40))])
    assert not cut_sections(graph)
    assert [len(s.calls) for s in cut_sections(merge_slices(graph))] == [8]


def test_what_lies_beside_a_part_is_a_number() -> None:
    """As the way back of x[:, -1] is read step by step."""
    def run(x: fw.Tensor) -> list[fw.Tensor]:
        leaf = x.detach().requires_grad_()
        fw.exp(leaf[:, -1]).sum().backward()
        rows = fw.reshape(fw.permute_dims(leaf.grad, (1, 0, 2)), (24, 3))
        return [rows[4 * t:4 * t + 4] + 1 for t in range(6)]

    graph, given = recorded(run, fw.asarray(RNG.standard_normal((4, 6, 3))))
    after = fold_fill_slices(merge_slices(graph))
    assert [sum(n.op == "slice" for n in g.nodes()) for g in (graph, after)] == [7, 2]
    for got, want in zip(compile_graph(after)(given), run(fw.asarray(given[0]))):
        assert abs(got - want.numpy()).max() <= 1e-14


# ---- parts of a value
def test_parts_of_a_value_are_computed_where_they_are_read() -> None:
    """As two gates are: no element is computed twice. What is read as a whole too has a home."""
    def gates(x: fw.Tensor) -> list[fw.Tensor]:
        both = fw.sigmoid(x)
        return [both[:, :8] * 2 + both[:, 8:]]

    def more(x: fw.Tensor) -> list[fw.Tensor]:
        both = fw.sigmoid(x)
        return [both[:, :8] * 2 + both[:, 8:], both[:, 4:12] * 3]

    for run, count in ((gates, 1), (more, 2)):
        graph, _ = recorded(run, fw.ones((4, 16)))
        assert len(fuse(graph)) == count
