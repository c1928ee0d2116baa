"""Shows the code of a segment in the language of a back end; the devices need not be there."""

from __future__ import annotations

from ..capture.graph.bind_sizes import bind_sizes, has_symbols
from ..capture.graph.device_placement import uses_devices, without_transfers
from ..capture.graph.graph import Graph, Node, Nodes, rebuild
from ..capture.segments.segment import Segment
from ..eager.errors import CodegenError
from .backend import backend_of, lowering_on
from .compile import assembled
from .dynamic.specializations import DynamicExecutable
from .partition.hybrid_executable import comment, compile_parts
from .partition.partition import GraphPart
from .partition.transfers import with_transfers


def code_of_segment(segment: Segment, kind: str) -> str:
    """The code of a segment by the back end `kind`; for dynamic sizes, that of the most frequent
    ones."""
    if uses_devices(segment.graph):
        return segment.compile().code
    if not has_symbols(segment.graph):
        return code_of(segment.graph, kind)
    executable = segment.compile()
    specializations = executable.specializations \
        if isinstance(executable, DynamicExecutable) else []
    if not specializations:
        raise CodegenError("the sizes of this function are dynamic, and no call has run it yet",
                           "call the function again: code for its sizes is shown then")
    return code_of(bind_sizes(segment.graph, specializations[0].sizes), kind)


def code_of(graph: Graph, kind: str) -> str:
    """The code of a graph of static sizes, as if its inputs were on a device of `kind`. Parts
    without code are comments between the others."""
    def on_device(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op == "input":
            return nodes.input(node.params["name"], node.type, f"{kind}:0")
        return nodes.with_inputs(node, inputs)

    _, steps, texts, _ = compile_parts(with_transfers(rebuild(graph, on_device)), _text_of_part,
                                       lowering_on)
    return "\n".join(f"// {comment(step)}" if text is None else text
                     for step, text in zip(steps, texts))


def _text_of_part(part: GraphPart) -> str:
    backend = backend_of(part.device)
    return backend.text(assembled(backend, without_transfers(part.graph), None, checks=False))
