"""Finds the device of each node of a graph.

An input is on the device where its array was during tracing. An op runs on the device of its
operands; CPU numbers beside GPU arrays are copied to the GPU. `transfer` names its target. A node
without operands, such as zeros, has no device of its own: it is created where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...eager.arrays import devices
from ...eager.arrays.devices import CPU
from .graph import Graph, Node, rebuild, topological

Placement = str | None  # a device's name; None if any device will do


def placement_of(nodes: Iterable[Node]) -> dict[Node, Placement]:
    """The device of each of these nodes, which must be in topological order."""
    placements: dict[Node, Placement] = {}
    for node in nodes:
        placements[node] = _placement(node, placements)
    return placements


def devices_of(nodes: Sequence[Node]) -> list[str]:
    """The name of each node's device; the CPU for nodes that may be on any device."""
    if not devices.in_use:
        return [CPU] * len(nodes)
    placements = placement_of(topological(nodes))
    return [placements[n] or CPU for n in nodes]


def uses_gpu(graph: Graph) -> bool:
    """True if a node of the graph is on a GPU or is copied from one."""
    return any(n.op == "transfer" or (n.op == "input" and "device" in n.params)
               for n in (*graph.inputs, *graph.nodes()))


def without_transfers(graph: Graph) -> Graph:
    """The graph without copies between devices, for use on a single device."""
    return rebuild(graph, lambda nodes, node, inputs: inputs[0] if node.op == "transfer"
                   else nodes.with_inputs(node, inputs))


def _placement(node: Node, placements: Mapping[Node, Placement]) -> Placement:
    if node.op == "transfer":
        return str(node.params["device"])
    if node.op == "input":
        return str(node.params.get("device", CPU))
    operand_devices = [placements[i] for i in node.inputs]
    gpus = [p for p in operand_devices if p not in (None, CPU)]
    return gpus[0] if gpus else CPU if CPU in operand_devices else None
