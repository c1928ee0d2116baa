"""A recording as CUDA C to be read: no GPU, and nothing of it, is needed."""

from __future__ import annotations

from ...capture.graph import Graph
from ...capture.passes.specialise import has_symbols, specialise
from ...capture.places import is_elsewhere
from ...capture.stage import Stage
from ...eager.errors import CodegenError
from ..mixed import comment, made_in_parts
from ..sized import SizedExecutable
from .program import LOWERED, Program, program_of
from .source import Function


def code_of(graph: Graph) -> str:
    """The CUDA C of a graph whose sizes are known, its launches as comments before it. What has no
    code is a comment between the modules of what has."""
    try:
        return _shown(program_of(graph))
    except CodegenError:
        _, steps, shown, _ = made_in_parts(
            graph, lambda part: _shown(program_of(part.graph, checks=False)), LOWERED)
        return "\n".join(f"// {comment(step)}" if text is None else text
                         for step, text in zip(steps, shown))


def _shown(program: Program) -> str:
    functions = [program.module.functions[step.function] for step in program.steps]
    launches = [f"// {f.name}<<<{f.grid}, {f.block}>>>  {', '.join(_sites(f)[:3])}\n"
                for f in functions]
    return "".join(launches) + program.module.source


def _sites(function: Function) -> list[str]:
    return list(dict.fromkeys(site for k in function.kernels for site in k.sites))


def code_of_stage(stage: Stage) -> str:
    """The same of a part of a recording; if its sizes vary, for those that most calls came with."""
    if is_elsewhere(stage.graph):
        return stage.compile().code
    if not has_symbols(stage.graph):
        return code_of(stage.graph)
    executable = stage.compile()
    met = executable.variants if isinstance(executable, SizedExecutable) else []
    if not met:
        raise CodegenError("the sizes of this recording vary, and no call has run it yet",
                           "call the function again: code for its sizes is shown then")
    return code_of(specialise(stage.graph, met[0].sizes))

