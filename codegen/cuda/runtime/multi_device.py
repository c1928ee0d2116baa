"""Compiles graphs with values on several devices: each part for the device that it is on.

The graph tells the device of each value (see `capture/graph/device_placement.py`). Values move
between devices only by `transfer` nodes. Values without inputs are created where they are used.
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
from ..program import CUDA_LOWERING
from .device import gpu
from .device_executable import compile_dynamic_on, compile_on
from .protocol import Device


def compile_per_device(graph: Graph) -> HybridExecutable | DynamicExecutable:
    """A callable that takes the graph's inputs and returns its outputs, each on its own device."""
    if has_symbols(graph):
        return DynamicExecutable(graph, compile_per_device, compile_dynamic_per_device)
    return compile_hybrid(with_transfers(graph), _compile_part, CUDA_LOWERING)


def _compile_part(part: GraphPart) -> NativePart:
    if part.device == CPU:
        return native.compile_native(part.graph, checks=False)
    return compile_on(without_transfers(part.graph), _device_of(part.device), checks=False,
                      numbers=_cpu_inputs(part.graph))


def compile_dynamic_per_device(graph: Graph, least: Mapping[str, int]) -> DynamicProgram:
    """A program for all sizes up to at least `least`, of a graph on one GPU (its numbers may be on
    the CPU). Raises CodegenError if there is none."""
    graph_with_transfers = with_transfers(graph)
    placement = placement_of([*graph_with_transfers.inputs, *graph_with_transfers.nodes()])
    devices = {p for n, p in placement.items() if p and (n.op != "input" or n.type.shape)}
    if len(devices) != 1 or CPU in devices:
        raise CodegenError(f"it is on {' and '.join(sorted(devices))}")
    return compile_dynamic_on(without_transfers(graph_with_transfers), least, _device_of(*devices),
                              _cpu_inputs(graph_with_transfers))


def _device_of(device: str) -> Device:
    return gpu(int(device.partition(":")[2]))


def _cpu_inputs(graph: Graph) -> list[int]:
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


native.compile_on_devices = compile_per_device
