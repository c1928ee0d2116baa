"""Adds the copies between devices that a graph needs.

The graph tells the device of each value (see `capture/graph/device_placement.py`). Values move
between devices only by `transfer` nodes. Values without inputs are created where they are used.
"""

from __future__ import annotations

from ...capture.graph.device_placement import Placement, placement_of
from ...capture.graph.graph import Graph, Node, Nodes
from ...eager.arrays.devices import CPU
from ...eager.errors import CodegenError


def only_device_of(graph: Graph) -> str:
    """The device of all values but numbers. CodegenError if they are on several, or on the CPU."""
    placement = placement_of([*graph.inputs, *graph.nodes()])
    devices = {p for n, p in placement.items() if p and (n.op != "input" or n.type.shape)}
    if len(devices) != 1 or CPU in devices:
        raise CodegenError(f"it is on {' and '.join(sorted(devices))}")
    return devices.pop()


def cpu_inputs(graph: Graph) -> list[int]:
    """The indices of the inputs that are on the CPU."""
    return [i for i, n in enumerate(graph.inputs) if "device" not in n.params]


def with_transfers(graph: Graph) -> Graph:
    """The graph with a `transfer` wherever a node reads a value of another device, numbers
    excepted. Values that depend on constants alone are computed on each device."""
    nodes = Nodes()
    placement = placement_of([*graph.inputs, *graph.nodes()])
    copies: dict[tuple[Node, str], Node] = {}
    new: dict[Node, Node] = {}

    def move(node: Node, device: str) -> Node:
        """`node` of the old graph, on a device."""
        if (node, device) not in copies:
            if placement[node] is None and node.inputs:
                copies[node, device] = nodes.with_inputs(node, [move(i, device)
                                                                for i in node.inputs])
            else:
                copies[node, device] = nodes.make(
                    "transfer", (new[node],), {"device": device}, node.type, node.site)
        return copies[node, device]

    def visit(node: Node) -> Node:
        device = placement[node]
        if node.op == "transfer":
            return move(node.inputs[0], str(device))
        if device in (None, CPU):
            return nodes.with_inputs(node, [new[i] for i in node.inputs])
        return nodes.with_inputs(node, [readable_from(i, device) for i in node.inputs])

    def readable_from(node: Node, device: Placement) -> Node:
        is_number = placement[node] == CPU and not node.type.shape
        if placement[node] == device or is_number or (placement[node] is None and not node.inputs):
            return new[node]
        return move(node, str(device))

    for node in (*graph.inputs, *graph.nodes()):
        new[node] = visit(node)
    return Graph(tuple([new[i] for i in graph.inputs]), tuple([new[o] for o in graph.outputs]),
                 graph.donated, graph.persistent)
