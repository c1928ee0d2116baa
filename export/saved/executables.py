"""The kinds of programs: what runs graphs, with object code in place of a compiler."""

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
    to.about.made_for(x.target)
    image = to.array(np.frombuffer(x.image, np.uint8), "$code")
    return [image, sorted(x.facts.symbols), x.facts.steps, x.facts.cost]


def _read_program(parts: list[Any], of: Decoder) -> NativeProgram:
    image, symbols, steps, cost = parts
    return NativeProgram(of.array(*image).tobytes(), ProgramFacts(frozenset(symbols), steps, cost),
                         host(),
                         _not_written)


def _not_written() -> NoReturn:
    raise CodegenError("a saved program holds machine code, not what it was made of",
                       "ask the function that was saved for its code and its kernels")


def _write_executable(x: Executable, to: Encoder) -> list[Any]:
    return [to.value(x.interface), to.value(x.program), x.arena]


def _read_executable(cls: type[Executable]) -> Callable[[list[Any], Decoder], Executable]:
    def read(parts: list[Any], of: Decoder) -> Executable:
        made = cls(*map(of.value, parts))
        made.facts = [{"name": f"saved step {i}", "line": "", "bytes": 0, "flops": 0, "tasks": 1,
                       "limit": 0.0} for i in range(made.program.steps)]
        return made

    return read


def _write_keeping(x: PrepackedExecutable, to: Encoder) -> list[Any]:
    return [*_write_executable(x, to), to.value(x.prepacked)]


# ---- parts and calls
def _write_mixed(x: HybridExecutable, to: Encoder) -> list[Any]:
    order = topological((*x.graph.inputs, *x.graph.outputs,
                         *[n for step in x.steps for n in (*step.reads, *step.makes)]))
    whole = Graph(x.graph.inputs, tuple(order))
    number = {n: i for i, n in enumerate(order)}
    steps = [_step(step, number, to) for step in x.steps]
    outputs = [number[n] for n in x.graph.outputs]
    return [to.value(whole), outputs, steps, to.value(x.programs),
            to.value(x.checks), x.output_count]


def _step(step: LibraryCall | GraphPart, number: Mapping[Node, int], to: Encoder) -> list[Any]:
    if isinstance(step, LibraryCall):
        return [number[step.node], step.why]
    ends = [[number[n] for n in of] for of in (step.reads, step.makes)]
    return [*ends, to.value(dict(step.graph.donated))]


def _read_mixed(parts: list[Any], of: Decoder) -> HybridExecutable:
    whole, outputs, rows, programs, checks, wanted = parts
    graph = of.value(whole)
    order = graph.outputs
    steps = [_read_step(row, order, of) for row in rows]
    own = Graph(graph.inputs, tuple([order[i] for i in outputs]))
    return HybridExecutable(own, steps, of.value(programs), of.value(checks), wanted)


def _read_step(row: list[Any], order: tuple[Node, ...], of: Decoder) -> LibraryCall | GraphPart:
    if len(row) == 2:
        return LibraryCall(order[row[0]], row[1])
    reads, makes = (tuple([order[i] for i in ends]) for ends in row[:2])
    return GraphPart(Graph((), (), of.value(row[2])), reads, makes, (), CPU)


# ---- any size
def _write_sized(x: DynamicExecutable, to: Encoder) -> list[Any]:
    x.prepare()
    return list(map(to.value, (x.graph, x.dynamic_program, *x.seen_sizes())))


def _read_sized(parts: list[Any], of: Decoder) -> DynamicExecutable:
    graph, *known = map(of.value, parts)
    made = DynamicExecutable(graph, compile_graph, compile_dynamic)
    made.restore(*known)
    return made


CODE: dict[Any, Codec] = {
    **PARTS, SeenSizes: record(SeenSizes),
    NativeProgram: Codec("program", _write_program, _read_program, id),
    Executable: Codec("executable", _write_executable, _read_executable(Executable), id),
    PrepackedExecutable: Codec("keeping", _write_keeping, _read_executable(PrepackedExecutable),
                               id),
    HybridExecutable: Codec("mixed", _write_mixed, _read_mixed, id),
    DynamicExecutable: Codec("sized", _write_sized, _read_sized, id),
}
