"""Cuts a graph into sections; a repeated region is one section that is called many times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...capture.graph.graph import Graph, Node, Nodes, params_key
from ...eager.arrays.shapes import TensorType
from .concat_placement import is_contiguous_split_concat
from .repeated_regions import (
    RegionInstance,
    RegionOperand,
    find_repeated_regions,
    region_instance_of,
)
from .schedule import Scheduler


class SectionCall(NamedTuple):
    """One call of a section.

    `operands`: the values of the section's inputs; `outputs`: the nodes that its outputs stand for;
    `last`: for each output the number of the last call that reads it, or one past the last call
    where it is an output of the graph."""

    operands: list[RegionOperand]
    outputs: list[Node]
    last: list[int]


class Section(NamedTuple):
    """A graph, and its calls."""

    graph: Graph
    calls: list[SectionCall]


def cut_sections(graph: Graph) -> list[Section]:
    """The sections of a graph, in order; none where no region repeats."""
    scheduler = Scheduler(graph)
    repeats = find_repeated_regions(scheduler)
    if not repeats:
        return []
    groups = list(_with_rest(scheduler, repeats))
    calls = [number for number, instance in enumerate(inst for instances in groups
                                                      for inst in instances)
             for _ in instance.member_rows]  # the call in which each node is computed
    calls.append(calls[-1] + 1)
    return [_section(scheduler, instances, calls) for instances in groups]


def _with_rest(scheduler: Scheduler,
               repeats: Sequence[list[RegionInstance]]) -> Iterator[list[RegionInstance]]:
    """The instances of all repeated regions, and the nodes between them as regions of one instance.

    Nodes between are cut behind long concats, so that operands of a concat can be written in place.
    """
    done = 0
    for instances in repeats:
        first, last = instances[0].members[0], instances[-1].members[-1]
        yield from _rest(scheduler, done, scheduler.position[first])
        yield instances
        done = scheduler.position[last] + 1
    yield from _rest(scheduler, done, len(scheduler.nodes))


def _rest(scheduler: Scheduler, start: int, stop: int) -> Iterator[list[RegionInstance]]:
    """The nodes from position `start` to `stop` as regions of one instance, cut behind long
    concats."""
    ends = [i + 1 for i in range(start, stop) if is_contiguous_split_concat(scheduler.nodes[i])]
    for first, end in pairwise(sorted({start, *ends, stop})):
        yield [region_instance_of(scheduler, scheduler.nodes[first:end], move_slices=False)]


def _section(scheduler: Scheduler, instances: Sequence[RegionInstance],
             calls: Sequence[int]) -> Section:
    """Equal region instances as one graph. Its outputs are the members read outside any instance.
    """
    first = instances[0]
    output_members = [
        i
        for i in range(len(first.member_rows))
        if any(_is_read_outside(scheduler, t, i) for t in instances)
    ]
    # An output that overwrites an operand comes after its readers.
    overwriting = {row for row, _ in first.donated}
    output_members.sort(key=lambda i: first.member_rows[i] in overwriting)
    varying = _varying_numbers(instances)
    calls_of_section = []
    for k, instance in enumerate(instances):
        outputs = [instance.members[i] for i in output_members]
        operands = [*instance.operands, *(RegionOperand(values, k) for values in varying.values())]
        calls_of_section.append(SectionCall(operands, outputs, [calls[scheduler.last_use[n]]
                                                                for n in outputs]))
    input_numbers = {row: len(first.operands) + i for i, row in enumerate(varying)}
    return Section(_graph_of(first, [first.member_rows[i] for i in output_members], input_numbers),
                   calls_of_section)


def _is_read_outside(scheduler: Scheduler, instance: RegionInstance, number: int) -> bool:
    """True if a member of a region instance is read outside of it."""
    return scheduler.last_use[instance.members[number]] > scheduler.position[instance.members[-1]]


def _varying_numbers(instances: Sequence[RegionInstance]) -> dict[int, Node]:
    """The rows of constants that differ between the instances, each with all its values as one
    array."""
    numbers: dict[int, Node] = {}
    for i, row in enumerate(instances[0].rows):
        if row[0] == "number" and len({params_key(instance.nodes[i].params)
                                       for instance in instances}) > 1:
            values = tuple(instance.nodes[i].params["value"] for instance in instances)
            numbers[i] = Nodes().const(values, row[1].dtype, (len(instances),))
    return numbers


def _graph_of(instance: RegionInstance, output_rows: Sequence[int],
              numbers: Mapping[int, int]) -> Graph:
    """The nodes of a region instance as a graph.

    Its inputs stand for the operands, and for the constants that differ between instances."""
    nodes, new, inputs = Nodes(), list[Node](), dict[int, Node]()

    def graph_input(number: int, of: TensorType) -> Node:
        return inputs.setdefault(number, nodes.input(f"x{number}", of))

    for i, (node, row) in enumerate(zip(instance.nodes, instance.rows)):
        if i in numbers:
            number = graph_input(numbers[i], TensorType((), node.type.dtype))
            new.append(number if not node.type.shape else nodes.apply(
                "broadcast_to", (number,), {"shape": node.type.shape}, node.site))
        elif row[0] == "operand":
            new.append(graph_input(*row[1:]))
        elif row[0] == "part":
            new.append(_part(nodes, node, row[1], graph_input(*row[-2:])))
        else:
            inner = [new[i] for i in row[3]] if node.inputs else []
            new.append(nodes.make(node.op, inner, node.params, node.type, node.site))
    output_number = {row: j for j, row in reversed([*enumerate(output_rows)])}
    return Graph(tuple(inputs[i] for i in range(len(inputs))), tuple(new[i] for i in output_rows),
                 {output_number[row]: operand for row, operand in instance.donated})


def _part(nodes: Nodes, node: Node, axes: tuple[int, ...], source: Node) -> Node:
    """A slice of an operand whose start is already in the operand's offset; its axes may be
    permuted."""
    if axes != tuple(range(len(axes))):
        source = nodes.apply("permute_dims", (source,), {"axes": axes}, node.site)
    start = (0,) * len(axes)
    return nodes.make("slice", (source,), {**node.params, "start": start}, node.type, node.site)
