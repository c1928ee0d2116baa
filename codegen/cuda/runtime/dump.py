"""Shows the CUDA C of a compiled function; no GPU is needed."""

from __future__ import annotations

from ....capture.graph.bind_sizes import bind_sizes, has_symbols
from ....capture.graph.device_placement import uses_gpu, without_transfers
from ....capture.graph.graph import Graph, Node, Nodes, rebuild
from ....capture.segments.segment import Segment
from ....eager.errors import CodegenError
from ...dynamic.specializations import DynamicExecutable
from ...partition.hybrid_executable import comment, compile_parts
from ...partition.partition import GraphPart
from ..module import CudaFunction
from ..program import CUDA_LOWERING, program_of
from .multi_device import with_transfers


def cuda_code_of_segment(segment: Segment) -> str:
    """The CUDA C of a segment; for dynamic sizes, that of the most frequent ones."""
    if uses_gpu(segment.graph):
        return segment.compile().code
    if not has_symbols(segment.graph):
        return cuda_code_of(segment.graph)
    executable = segment.compile()
    specializations = executable.specializations \
        if isinstance(executable, DynamicExecutable) else []
    if not specializations:
        raise CodegenError("the sizes of this function are dynamic, and no call has run it yet",
                           "call the function again: code for its sizes is shown then")
    return cuda_code_of(bind_sizes(segment.graph, specializations[0].sizes))


def cuda_code_of(graph: Graph) -> str:
    """The CUDA C of a graph of static sizes, as if its inputs were on a GPU. Parts without code are
    comments between the modules."""
    _, steps, texts, _ = compile_parts(with_transfers(rebuild(graph, _input_on_gpu)), _module_text,
                                       CUDA_LOWERING)
    return "\n".join(f"// {comment(step)}" if text is None else text
                     for step, text in zip(steps, texts))


def _input_on_gpu(nodes: Nodes, node: Node, inputs: tuple[Node, ...]) -> Node:
    if node.op == "input":
        return nodes.input(node.params["name"], node.type, "cuda:0")
    return nodes.with_inputs(node, inputs)


def _module_text(part: GraphPart) -> str:
    """The module of a part, preceded by its launches as comments."""
    program = program_of(without_transfers(part.graph), checks=False)
    functions = [program.module.functions[step.function] for step in program.steps]
    launches = [f"// {f.name}<<<{f.grid}, {f.block}>>>  {', '.join(_source_lines(f)[:3])}\n"
                for f in functions]
    return "".join(launches) + program.module.source


def _source_lines(function: CudaFunction) -> list[str]:
    return list(dict.fromkeys(site for k in function.kernels for site in k.sites))
