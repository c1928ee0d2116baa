"""Finds the device of each node of a graph.

An input is on the device where its array was during tracing. An op runs on the device of its
operands; CPU numbers beside arrays of a device are copied to it. `transfer` names its target. A
node without operands, such as zeros, has no device of its own: it is created where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...eager.arrays import devices
from ...eager.arrays.devices import CPU
from .graph import Graph, Node, missing_below, rebuild, topological

Placement = str | None  # a device's name; None if any device will do


def place(node: Node, placements: dict[Node, Placement]) -> Placement:
    """The device of a node, which is added to `placements` with the nodes that it needs."""
    for needed in missing_below(node, placements, lambda n: False):
        placements[needed] = _placement(needed, placements)
    return placements[node]


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


def uses_devices(graph: Graph) -> bool:
    """True if a node of the graph is on another device than the CPU or is copied from one."""
    return bool(other_device(graph))


def other_device(graph: Graph) -> str:
    """The first device besides the CPU that a graph names; an empty text if there is none."""
    return next((str(n.params["device"]) for n in (*graph.inputs, *graph.nodes())
                 if n.op == "transfer" or (n.op == "input" and "device" in n.params)), "")


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
    others = [p for p in operand_devices if p not in (None, CPU)]
    return others[0] if others else CPU if CPU in operand_devices else None
