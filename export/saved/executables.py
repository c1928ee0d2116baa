"""Defines how executables are written to files, as object code, and read without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from ...capture.graph.graph import Graph, Node, topological
from ...codegen.cache.json_codec import Codec, Decoder, Encoder, record
from ...codegen.cache.program_entry import PARTS
from ...codegen.compile import compile_dynamic, compile_graph
from ...codegen.dynamic.specializations import DynamicExecutable, SeenSizes
from ...codegen.partition.hybrid_executable import HybridExecutable
from ...codegen.partition.partition import GraphPart, LibraryCall
from ...codegen.program.executable import Executable
from ...codegen.program.native_program import NativeProgram, ProgramFacts
from ...codegen.program.prepacked_executable import PrepackedExecutable
from ...codegen.runtime.target import host
from ...eager.arrays.devices import CPU
from ...eager.errors import CodegenError


def _write_program(x: NativeProgram, to: Encoder) -> list[Any]:
    to.about.require_target(x.target)
    image = to.array(np.frombuffer(x.image, np.uint8), "$code")
    return [image, sorted(x.facts.symbols), x.facts.steps, x.facts.cost]


def _read_program(parts: list[Any], of: Decoder) -> NativeProgram:
    image, symbols, steps, cost = parts
    return NativeProgram(of.array(*image).tobytes(), ProgramFacts(frozenset(symbols), steps, cost),
                         host(),
                         _no_source)


def _no_source() -> NoReturn:
    raise CodegenError("a saved program holds machine code, not its source",
                       "ask the original function for its code and kernels")


def _write_executable(x: Executable, to: Encoder) -> list[Any]:
    return [to.value(x.interface), to.value(x.program), x.arena]


def _read_executable(cls: type[Executable]) -> Callable[[list[Any], Decoder], Executable]:
    def read(parts: list[Any], of: Decoder) -> Executable:
        executable = cls(*map(of.value, parts))
        executable.facts = [{"name": f"saved step {i}", "line": "", "bytes": 0, "flops": 0,
                             "tasks": 1, "limit": 0.0} for i in range(executable.program.steps)]
        return executable

    return read


def _write_prepacked(x: PrepackedExecutable, to: Encoder) -> list[Any]:
    return [*_write_executable(x, to), to.value(x.prepacked)]


# ---- native parts and library calls
def _write_hybrid(x: HybridExecutable, to: Encoder) -> list[Any]:
    nodes = topological((*x.graph.inputs, *x.graph.outputs,
                         *[n for step in x.steps for n in (*step.reads, *step.makes)]))
    graph = Graph(x.graph.inputs, tuple(nodes))
    number = {n: i for i, n in enumerate(nodes)}
    steps = [_write_step(step, number, to) for step in x.steps]
    outputs = [number[n] for n in x.graph.outputs]
    return [to.value(graph), outputs, steps, to.value(x.programs),
            to.value(x.checks), x.output_count]


def _write_step(step: LibraryCall | GraphPart, number: Mapping[Node, int],
                to: Encoder) -> list[Any]:
    if isinstance(step, LibraryCall):
        return [number[step.node], step.why]
    ends = [[number[n] for n in of] for of in (step.reads, step.makes)]
    return [*ends, to.value(dict(step.graph.donated))]


def _read_hybrid(parts: list[Any], of: Decoder) -> HybridExecutable:
    encoded_graph, outputs, rows, programs, checks, output_count = parts
    graph = of.value(encoded_graph)
    nodes = graph.outputs
    steps = [_read_step(row, nodes, of) for row in rows]
    own = Graph(graph.inputs, tuple([nodes[i] for i in outputs]))
    return HybridExecutable(own, steps, of.value(programs), of.value(checks), output_count)


def _read_step(row: list[Any], nodes: tuple[Node, ...], of: Decoder) -> LibraryCall | GraphPart:
    if len(row) == 2:
        return LibraryCall(nodes[row[0]], row[1])
    reads, makes = (tuple([nodes[i] for i in ends]) for ends in row[:2])
    return GraphPart(Graph((), (), of.value(row[2])), reads, makes, (), CPU)


# ---- dynamic shapes
def _write_dynamic(x: DynamicExecutable, to: Encoder) -> list[Any]:
    x.prepare()
    return list(map(to.value, (x.graph, x.dynamic_program, *x.seen_sizes())))


def _read_dynamic(parts: list[Any], of: Decoder) -> DynamicExecutable:
    graph, *sizes = map(of.value, parts)
    executable = DynamicExecutable(graph, compile_graph, compile_dynamic)
    executable.restore(*sizes)
    return executable


CODE: dict[Any, Codec] = {
    **PARTS, SeenSizes: record(SeenSizes),
    NativeProgram: Codec("program", _write_program, _read_program, id),
    Executable: Codec("executable", _write_executable, _read_executable(Executable), id),
    PrepackedExecutable: Codec("keeping", _write_prepacked, _read_executable(PrepackedExecutable),
                               id),
    HybridExecutable: Codec("mixed", _write_hybrid, _read_hybrid, id),
    DynamicExecutable: Codec("sized", _write_dynamic, _read_dynamic, id),
}
