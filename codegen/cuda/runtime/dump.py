"""A recording as CUDA C to be read: no GPU, and nothing of it, is needed."""

from __future__ import annotations

from ....capture.graph.bind_sizes import bind_sizes, has_symbols
from ....capture.graph.device_placement import is_elsewhere, without_transfers
from ....capture.graph.graph import Graph, Node, Nodes, rebuild
from ....capture.segments.segment import Segment
from ....eager.errors import CodegenError
from ...dynamic.specializations import DynamicExecutable
from ...partition.hybrid_executable import comment, made_in_parts
from ...partition.partition import GraphPart
from ..module import CudaFunction
from ..program import LOWERED, program_of
from .multi_device import settled


def code_of_stage(stage: Segment) -> str:
    """The CUDA C of a part of a recording; if its sizes vary, for those that most calls had."""
    if is_elsewhere(stage.graph):
        return stage.compile().code
    if not has_symbols(stage.graph):
        return code_of(stage.graph)
    executable = stage.compile()
    met = executable.variants if isinstance(executable, DynamicExecutable) else []
    if not met:
        raise CodegenError("the sizes of this recording are dynamic, and no call has run it yet",
                           "call the function again: code for its sizes is shown then")
    return code_of(bind_sizes(stage.graph, met[0].sizes))


def code_of(graph: Graph) -> str:
    """The CUDA C of a graph of known sizes, as if its inputs were on a GPU. What has no code is a
    comment between the modules of what has."""
    _, steps, shown, _ = made_in_parts(settled(rebuild(graph, _on_a_gpu)), _shown, LOWERED)
    return "\n".join(f"// {comment(step)}" if text is None else text
                     for step, text in zip(steps, shown))


def _on_a_gpu(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
    if node.op == "input":
        return nodes.input(node.params["name"], node.type, "cuda:0")
    return nodes.again(node, inputs)


def _shown(part: GraphPart) -> str:
    """The module of a part, its launches as comments before it."""
    program = program_of(without_transfers(part.graph), checks=False)
    functions = [program.module.functions[step.function] for step in program.steps]
    launches = [f"// {f.name}<<<{f.grid}, {f.block}>>>  {', '.join(_sites(f)[:3])}\n"
                for f in functions]
    return "".join(launches) + program.module.source


def _sites(function: CudaFunction) -> list[str]:
    return list(dict.fromkeys(site for k in function.kernels for site in k.sites))
