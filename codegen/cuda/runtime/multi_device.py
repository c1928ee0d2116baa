"""Graphs with values on GPUs: each part is compiled for the device that it is on.

What belongs to a device is told by the graph (see `capture/places.py`); between devices nothing
goes but by `transfer`. What is made of nothing is made on the device that it is wanted on.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....capture.graph.bind_sizes import has_symbols
from ....capture.graph.device_placement import Placement, placement_of, without_transfers
from ....capture.graph.graph import Graph, Node, Nodes
from ....eager.arrays.devices import CPU
from ....eager.errors import CodegenError
from ... import compile as native
from ...dynamic.dynamic_program import DynamicProgram
from ...dynamic.specializations import DynamicExecutable
from ...partition.hybrid_executable import HybridExecutable, NativePart, compile_hybrid
from ...partition.partition import GraphPart
from ..program import LOWERED
from .device import gpu
from .executable import compile_for_any, compile_on
from .protocol import Device


def compile_per_device(graph: Graph) -> HybridExecutable | DynamicExecutable:
    """A callable that takes the graph's inputs, each on its device, and gives its outputs, each on
    its own."""
    if has_symbols(graph):
        return DynamicExecutable(graph, compile_per_device, compile_open)
    return compile_hybrid(settled(graph), _compiled, LOWERED)


def _compiled(part: GraphPart) -> NativePart:
    if part.device == CPU:
        return native.compile_native(part.graph, checks=False)
    return compile_on(without_transfers(part.graph), _gpu(part.device), checks=False,
                      numbers=_numbers(part.graph))


def compile_open(graph: Graph, least: Mapping[str, int]) -> DynamicProgram:
    """A program for all sizes up to at least these, of a graph that is on one GPU but for numbers;
    CodegenError where there is none."""
    ready = settled(graph)
    places = placement_of([*ready.inputs, *ready.nodes()])
    devices = {p for n, p in places.items() if p and (n.op != "input" or n.type.shape)}
    if len(devices) != 1 or CPU in devices:
        raise CodegenError(f"it is on {' and '.join(sorted(devices))}")
    return compile_for_any(without_transfers(ready), least, _gpu(*devices), _numbers(ready))


def _gpu(device: str) -> Device:
    return gpu(int(device.partition(":")[2]))


def _numbers(graph: Graph) -> list[int]:
    """The inputs that come from the CPU."""
    return [i for i, n in enumerate(graph.inputs) if "device" not in n.params]


def settled(graph: Graph) -> Graph:
    """The graph with a `transfer` wherever a node reads what is on another device, but for numbers,
    and none of what is made of nothing but of its leaves, as those can be made anywhere."""
    nodes = Nodes()
    places = placement_of([*graph.inputs, *graph.nodes()])
    moved: dict[tuple[Node, str], Node] = {}
    new: dict[Node, Node] = {}

    def move(node: Node, device: str) -> Node:
        """`node` of the old graph, on a device."""
        if (node, device) not in moved:
            if places[node] is None and node.inputs:
                moved[node, device] = nodes.with_inputs(node, [move(i, device)
                                                               for i in node.inputs])
            else:
                moved[node, device] = nodes.make(
                    "transfer", (new[node],), {"device": device}, node.type, node.site)
        return moved[node, device]

    def visit(node: Node) -> Node:
        place = places[node]
        if node.op == "transfer":
            return move(node.inputs[0], str(place))
        if place in (None, CPU):
            return nodes.with_inputs(node, [new[i] for i in node.inputs])
        return nodes.with_inputs(node, [_beside(i, place) for i in node.inputs])

    def _beside(node: Node, device: Placement) -> Node:
        is_number = places[node] == CPU and not node.type.shape
        if places[node] == device or is_number or (places[node] is None and not node.inputs):
            return new[node]
        return move(node, str(device))

    for node in (*graph.inputs, *graph.nodes()):
        new[node] = visit(node)
    return Graph(tuple([new[i] for i in graph.inputs]), tuple([new[o] for o in graph.outputs]),
                 graph.donated, graph.persistent)


native.elsewhere = compile_per_device
