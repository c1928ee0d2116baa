"""Where the values of a graph are: which device each node is on.

Inputs are where their arrays were when the function was recorded. An op works where its operands
are, numbers of the CPU beside arrays of a GPU being brought there, and `transfer` says where to.
What is made of nothing, such as zeros, is nowhere in particular: wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...eager.arrays import devices
from ...eager.arrays.devices import CPU
from .graph import Graph, Node, rebuild, topological

Placement = str | None  # a device's name; None: nowhere in particular


def placement_of(nodes: Iterable[Node]) -> dict[Node, Placement]:
    """The place of each of these nodes, which come after all that they are made of."""
    found: dict[Node, Placement] = {}
    for node in nodes:
        found[node] = _place(node, found)
    return found


def devices_of(nodes: Sequence[Node]) -> list[str]:
    """The name of each node's device; the CPU for what is nowhere in particular."""
    if not devices.in_use:
        return [CPU] * len(nodes)
    found = placement_of(topological(nodes))
    return [found[n] or CPU for n in nodes]


def is_elsewhere(graph: Graph) -> bool:
    """Whether anything in a graph is on a GPU, or comes from one."""
    return any(n.op == "transfer" or (n.op == "input" and "device" in n.params)
               for n in (*graph.inputs, *graph.nodes()))


def without_transfers(graph: Graph) -> Graph:
    """The graph with all of it on one device, so that nothing has to be moved."""
    return rebuild(graph, lambda nodes, node, inputs: inputs[0] if node.op == "transfer"
                   else nodes.again(node, inputs))


def _place(node: Node, found: Mapping[Node, Placement]) -> Placement:
    if node.op == "transfer":
        return str(node.params["device"])
    if node.op == "input":
        return str(node.params.get("device", CPU))
    places = [found[i] for i in node.inputs]
    elsewhere = [p for p in places if p not in (None, CPU)]
    return elsewhere[0] if elsewhere else CPU if CPU in places else None
