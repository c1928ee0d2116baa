"""A graph as sections that run one after the other: what repeats is one section with many calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...capture.graph.graph import Graph, Node, Nodes, params_key
from ...eager.arrays.shapes import TensorType
from .concat_placement import lies_in_pieces
from .repeated_regions import (
    RegionInstance,
    RegionOperand,
    find_repeated_regions,
    region_instance_of,
)
from .schedule import Scheduler


class SectionCall(NamedTuple):
    """What a section's inputs stand for in one call, its outputs, and for each of these the number
    of the call that reads it last; one past the last call where it is an output of the graph."""

    operands: list[RegionOperand]
    outputs: list[Node]
    last: list[int]


class Section(NamedTuple):
    """A graph and the calls of it."""

    graph: Graph
    calls: list[SectionCall]


def cut_sections(graph: Graph) -> list[Section]:
    """The sections of a graph, in order; none where nothing in it repeats."""
    order = Scheduler(graph)
    repeats = find_repeated_regions(order)
    if not repeats:
        return []
    groups = list(_with_rest(order, repeats))
    calls = [number for number, turn in enumerate(t for turns in groups for t in turns)
             for _ in turn.own]  # the call in which each node is computed
    calls.append(calls[-1] + 1)
    return [_section(order, turns, calls) for turns in groups]


def _with_rest(order: Scheduler,
               repeats: Sequence[list[RegionInstance]]) -> Iterator[list[RegionInstance]]:
    """The turns of all that repeats, and what lies between, each as one turn, or as several: what
    turns made is put together first, so that it may lie there already."""
    done = 0
    for turns in repeats:
        first, last = turns[0].members[0], turns[-1].members[-1]
        yield from _rest(order, done, order.at[first])
        yield turns
        done = order.at[last] + 1
    yield from _rest(order, done, len(order.nodes))


def _rest(order: Scheduler, start: int, stop: int) -> Iterator[list[RegionInstance]]:
    """The nodes from one number on before another, cut behind long concats."""
    ends = [i + 1 for i in range(start, stop) if lies_in_pieces(order.nodes[i])]
    for first, end in pairwise(sorted({start, *ends, stop})):
        yield [region_instance_of(order, order.nodes[first:end], moving=False)]


def _section(order: Scheduler, turns: Sequence[RegionInstance], calls: Sequence[int]) -> Section:
    """Equal turns as one graph; its outputs are what is read outside of any of them."""
    first = turns[0]
    wanted = [i for i in range(len(first.own)) if any(_leaves(order, t, i) for t in turns)]
    over = {row for row, _ in first.donated}  # who overwrites comes after those who read
    wanted.sort(key=lambda i: first.own[i] in over)
    numbers = _varying_numbers(turns)
    found = []
    for k, turn in enumerate(turns):
        outputs = [turn.members[i] for i in wanted]
        operands = [*turn.operands, *(RegionOperand(values, k) for values in numbers.values())]
        found.append(SectionCall(operands, outputs, [calls[order.last[n]] for n in outputs]))
    places = {row: len(first.operands) + i for i, row in enumerate(numbers)}
    return Section(_graph_of(first, [first.own[i] for i in wanted], places), found)


def _leaves(order: Scheduler, turn: RegionInstance, number: int) -> bool:
    """Whether a member of a turn is read outside of it."""
    return order.last[turn.members[number]] > order.at[turn.members[-1]]


def _varying_numbers(turns: Sequence[RegionInstance]) -> dict[int, Node]:
    """The rows of numbers that are not the same in all turns, and all their values as one array."""
    found: dict[int, Node] = {}
    for i, row in enumerate(turns[0].rows):
        if row[0] == "number" and len({params_key(t.nodes[i].params) for t in turns}) > 1:
            values = tuple(t.nodes[i].params["value"] for t in turns)
            found[i] = Nodes().const(values, row[1].dtype, (len(turns),))
    return found


def _graph_of(turn: RegionInstance, wanted: Sequence[int], numbers: Mapping[int, int]) -> Graph:
    """The nodes of a turn as a graph whose inputs stand for its operands, and for these numbers."""
    made, new, inputs = Nodes(), list[Node](), dict[int, Node]()

    def given(number: int, of: TensorType) -> Node:
        return inputs.setdefault(number, made.input(f"x{number}", of))

    for i, (node, row) in enumerate(zip(turn.nodes, turn.rows)):
        if i in numbers:
            number = given(numbers[i], TensorType((), node.type.dtype))
            new.append(number if not node.type.shape else made.apply(
                "broadcast_to", (number,), {"shape": node.type.shape}, node.site))
        elif row[0] == "operand":
            new.append(given(*row[1:]))
        elif row[0] == "part":
            new.append(_part(made, node, row[1], given(*row[-2:])))
        else:
            inner = [new[i] for i in row[3]] if node.inputs else []
            new.append(made.make(node.op, inner, node.params, node.type, node.site))
    place = {row: j for j, row in reversed([*enumerate(wanted)])}
    return Graph(tuple(inputs[i] for i in range(len(inputs))), tuple(new[i] for i in wanted),
                 {place[row]: operand for row, operand in turn.donated})


def _part(made: Nodes, node: Node, axes: tuple[int, ...], source: Node) -> Node:
    """A slice of an operand that begins where the slice did, its axes permuted before."""
    if axes != tuple(range(len(axes))):
        source = made.apply("permute_dims", (source,), {"axes": axes}, node.site)
    start = (0,) * len(axes)
    return made.make("slice", (source,), {**node.params, "start": start}, node.type, node.site)
