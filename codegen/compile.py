"""Compiles a graph to a program, one step per line: passes, fuse, lower, plan memory, emit.

A graph with symbolic sizes is compiled when its sizes are known. If a graph has an op without code,
values on several devices, or indices to check before it overwrites inputs, it is compiled in parts.
So every graph gives a program. Each part is compiled by the back end of its device (`backend.py`).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..capture.graph.bind_sizes import has_symbols
from ..capture.graph.device_placement import uses_devices, without_transfers
from ..capture.graph.graph import Graph, Node, Nodes, params_key, topological
from ..capture.passes.attention import recognize_attention
from ..capture.passes.batch_matmul import merge_products
from ..capture.passes.bounds_checks import BoundsCheck, extract_checks
from ..capture.passes.decompose import decompose_calls, decompose_composites
from ..capture.passes.matvec import decompose_vector_products
from ..capture.passes.pass_manager import CLEANUP, Pass, run
from ..capture.passes.simplify import merge_slices, simplify
from ..capture.passes.slice_sums import merge_slice_sums
from ..capture.passes.slice_updates import merge_slice_updates
from ..capture.passes.stored_dtypes import encode_stored
from ..capture.passes.transpose_matmul import transpose_products
from ..capture.runtime.metrics import phase
from ..eager.arrays.devices import CPU, number_of
from ..eager.errors import CodegenError, MemoryShortage
from .backend import Backend, backend_of, lowering_on
from .cpu.gemm.zero_points import split_zero_points
from .dynamic.dynamic_program import DynamicProgram, compile_any_size
from .dynamic.specializations import DynamicExecutable
from .fusion.axis_order import order_axes
from .fusion.concat_splitting import split_concats
from .fusion.fusion import Group, fuse
from .fusion.materialize import is_preallocated
from .ir.loop_ir import KernelBuffer
from .ir.target_info import Machine
from .lowering.lowering_table import CPU as CPU_LOWERING
from .lowering.lowering_table import KernelCache, LoweringTable, PackedOperands
from .outline.fill_slices import fold_fill_slices
from .outline.outline import cut_sections
from .partition.hybrid_executable import (
    HybridExecutable,
    NativePart,
    checks_come_first,
    compile_hybrid,
)
from .partition.partition import GraphPart
from .partition.support import why_no_code
from .partition.transfers import cpu_inputs, only_device_of, with_transfers
from .program.donation import Overwrites
from .program.executable import Executable, Plan
from .program.link import MIN_PRODUCTS_TO_PACK, Lowered, lower_sections
from .runtime.target import Target

Program = Executable | HybridExecutable | DynamicExecutable


def compile_graph(graph: Graph, target: Target | None = None) -> Program:
    """A callable from the graph's inputs to its outputs, as arrays, each on its own device.
    `target`: the processor of what is on the CPU; None is this one."""
    if has_symbols(graph):
        return DynamicExecutable(graph, lambda sized: compile_graph(sized, target),
                                 lambda graph, least: compile_dynamic(graph, least, target))
    if not uses_devices(graph) and not checks_come_first(graph, lowering_on) and not any(
            why_no_code(n, lowering_on(CPU).has_lowering) for n in graph.nodes()):
        try:
            return compile_native(graph, target)
        except MemoryShortage:
            raise
        except CodegenError:  # an op may be made of ops that have no code
            pass
    return compile_hybrid(with_transfers(graph), lambda part: _compile_part(part, target),
                          lowering_on)


def _compile_part(part: GraphPart, target: Target | None) -> NativePart:
    """The program of a part, whose indices the caller has checked."""
    if part.device == CPU:
        return compile_native(part.graph, target, checks=False)
    made: NativePart = compile_on(part.device, without_transfers(part.graph),
                                  cpu_inputs(part.graph), checks=False)
    return made


def compile_native(graph: Graph, target: Target | None = None, checks: bool = True) -> Executable:
    """The graph as one native program of the CPU. Raises CodegenError if an op has no code. Without
    `checks` the caller has checked the indices."""
    cpu = backend_of(CPU)
    made: Executable = compile_for(cpu, graph, target or cpu.device(0), checks)
    return made


def compile_on(device: str, graph: Graph, numbers: Collection[int] = (), checks: bool = True
               ) -> Any:
    """The graph as one program on a device; its inputs `numbers` are on the CPU."""
    backend = backend_of(device)
    return compile_for(backend, graph, backend.device(number_of(device)), checks, numbers)


def compile_for(backend: Backend, graph: Graph, device: Any, checks: bool = True,
                numbers: Collection[int] = ()) -> Any:
    """The graph as one program of a back end. Raises CodegenError if an op has no code."""
    machine = backend.machine(device)
    program, _ = backend.cached(graph, device, (machine, checks),
                                lambda: (assembled(backend, graph, device, checks), None))
    return backend.executable(program, device, numbers)


def assembled(backend: Backend, graph: Graph, device: Any, checks: bool = True) -> Any:
    """The program of a graph before it is loaded."""
    table = backend.lowering if backend.tuned is None else backend.tuned(device)
    with phase("lowering"):
        return backend.assemble(*lower_graph(graph, backend.machine(device), checks, table), device)


def compile_dynamic(graph: Graph, least: Mapping[str, int],
                    target: Target | None = None) -> DynamicProgram:
    """The graph, which is on one device (its numbers may be on the CPU), as one program for all
    sizes up to at least `least`. Raises CodegenError if there is none."""
    if not uses_devices(graph):
        cpu = backend_of(CPU)
        return compile_any_size_for(cpu, graph, least, target or cpu.device(0))
    placed = with_transfers(graph)
    device = only_device_of(placed)
    backend = backend_of(device)
    return compile_any_size_for(backend, without_transfers(placed), least,
                                backend.device(number_of(device)), cpu_inputs(placed))


def compile_any_size_for(backend: Backend, graph: Graph, least: Mapping[str, int], device: Any,
                         numbers: Collection[int] = ()) -> DynamicProgram:
    """The graph as one program of a back end for all sizes up to at least `least`. Raises
    CodegenError if code depends on the sizes."""
    machine = backend.machine(device)

    def write() -> tuple[Any, DynamicProgram]:
        check_supported(graph, backend.lowering)
        with phase("lowering"):
            dynamic = compile_any_size(
                graph, least, lambda sized: lower_graph(sized, machine, True, backend.lowering),
                lambda plan, launches: backend.assemble(plan, launches, device))
            return dynamic.program, replace(dynamic, program=None)

    program, about = backend.cached(graph, device, (machine, sorted(least.items())), write)
    dynamic: DynamicProgram = about
    return replace(dynamic, program=backend.executable(program, device, numbers))


def lower_graph(graph: Graph, machine: Machine, checks: bool = True,
                kinds: LoweringTable = CPU_LOWERING) -> Lowered:
    """The plan and the launches of a graph, before any code. `kinds`: the lowering table of the
    back end."""
    graph = with_attention(encode_stored(graph), machine, kinds)
    machine = replace(machine, training=any(n.op == "conv_weight" for n in graph.nodes()))
    return _lower_parts(graph, KernelCache(machine, kinds), checks, None)


def with_attention(graph: Graph, machine: Machine, kinds: LoweringTable = CPU_LOWERING) -> Graph:
    """The graph with attention as one op where that has a kernel. A section may have a part of the
    formula only, so this comes before sections are cut."""
    return recognize_attention(graph, lambda node: kinds.has_kernel(node, machine))


def _lower_parts(graph: Graph, lowering: KernelCache, checks: bool,
                 program_inputs: Collection[Node] | None
                 ) -> Lowered:
    """Lowers a graph; repeated regions are lowered once. `program_inputs` is None for a whole
    program; for a section, its inputs that are arguments of the program."""
    graph = _merge_across_iterations(graph)
    sections = cut_sections(graph)
    if not sections:
        return _lower_section(graph, lowering, checks, program_inputs)
    return lower_sections(graph, sections, graph.inputs
                          if program_inputs is None else program_inputs,
                          lambda part, inputs: _lower_parts(part, lowering, checks, inputs),
                          separate=has_symbols(graph),
                          in_order=lowering.machine.in_order)


def _merge_across_iterations(graph: Graph) -> Graph:
    """The graph with ops that span many unrolled iterations merged into one."""
    graph = fold_fill_slices(merge_slices(merge_slice_sums(merge_slice_updates(graph))))
    return merge_products(transpose_products(graph))


def _lower_section(graph: Graph, lowering: KernelCache, checks: bool,
                   program_inputs: Collection[Node] | None) -> Lowered:
    with phase("passes"):
        ready, checked_values = extract_checks(run(graph, passes_for(lowering.machine,
                                                                     lowering.table)))
    if not checks:
        ready, checked_values = replace(ready, outputs=ready.outputs[:len(graph.outputs)]), []
    check_supported(ready, lowering.table)
    values, shapes = strip_reshapes(ready)
    if program_inputs is not None:
        values = copy_passed_through(values, len(graph.outputs), program_inputs)
    copies: Collection[Node] = ()
    if not lowering.machine.gpu:
        values, copies = order_axes(split_concats(values, lowering.machine), lowering.machine)
    groups = fuse(values, lowering.machine.gpu, copies)
    plan = plan_values(values, groups, checked_values, shapes, len(graph.outputs))
    persistent = {plan.buffers[plan.graph.inputs[i]] for i in plan.graph.persistent}
    persistent |= {plan.buffers[n] for n in _shared_factors(groups) if n in plan.buffers}
    packed: PackedOperands = {}  # of this plan alone: another section has its memory elsewhere
    return plan, [launch for number, group in enumerate(groups) for launch in lowering.launches(
        group, plan.buffers, f"k{number}_{_label(group)}", persistent, packed)]


def passes_for(machine: Machine, kinds: LoweringTable = CPU_LOWERING) -> list[Pass]:
    """The passes that run before nodes become groups."""
    return [
        _decomposing(machine, kinds),
        *CLEANUP,
        merge_slice_updates,
        merge_slice_sums,
        transpose_products,
        decompose_vector_products,
        *([split_zero_points] if machine.dot8 else []),
        simplify,  # again: decomposing leaves reshapes of reshapes
    ]


@functools.cache
def _decomposing(machine: Machine, kinds: LoweringTable) -> Pass:
    """The pass that decomposes calls, and composites without a kernel of their own."""
    def decompose(graph: Graph) -> Graph:
        decomposed = decompose_composites(graph, lambda node: not kinds.has_kernel(node, machine))
        return decompose_calls(decomposed) if kinds.decomposes_calls else decomposed

    return decompose


def _shared_factors(groups: Sequence[Group]) -> list[Node]:
    """The operands that many equal products read, such as the weight of each step of a loop; they
    are packed once."""
    equal = Counter((n, tuple([(m.op, params_key(m.params), m.type) for m in g.members]))
                    for g in groups if g.kind == "contract" for n in g.reads)
    return [n for (n, _), count in equal.items() if count >= MIN_PRODUCTS_TO_PACK]


def copy_passed_through(graph: Graph, result_count: int, program_inputs: Collection[Node]) -> Graph:
    """The graph with copies in place of outputs that are inputs or constants; except values that
    are only checked, and can be checked before the program runs."""
    nodes, outputs = Nodes(), list(graph.outputs)
    for j, n in enumerate(outputs):
        if is_preallocated(n) and (j < result_count or n not in program_inputs):
            outputs[j] = nodes.make("alias", (n,), {}, n.type, n.site)
    return replace(graph, outputs=tuple(outputs))


def check_supported(graph: Graph, kinds: LoweringTable = CPU_LOWERING) -> None:
    """Raises CodegenError, with its line, for a value that has no native code."""
    for node in graph.nodes():
        why = why_no_code(node, kinds.has_lowering)
        if why:
            raise CodegenError(f"{node.site or node.op}: {why}")


def _label(group: Group) -> str:
    names = [n.op for n in group.members]
    return "_".join(dict.fromkeys(names if len(names) <= 3 else [*names[:2], names[-1]]))


def strip_reshapes(graph: Graph) -> tuple[Graph, tuple[Any, ...]]:
    """The graph without reshapes at its outputs, and the shapes of the original outputs."""
    stripped, shapes = [], []
    for node in graph.outputs:
        shapes.append(node.type.shape)
        while node.op == "reshape" and node.inputs[0].op != "broadcast_to":
            node = node.inputs[0]
        stripped.append(node)
    return replace(graph, outputs=tuple(stripped)), tuple(shapes)


def plan_values(
    graph: Graph, groups: list[Group], checks: list[BoundsCheck], shapes: tuple[Any, ...],
    result_count: int,
) -> Plan:
    """The buffers of all values in memory: inputs, constants, outputs, and values read across
    groups."""
    buffers = {n: _buffer(n, n.params["name"]) for n in graph.inputs}
    constants = [n for n in topological(graph.outputs) if n.op == "const" and n.type.shape]
    buffers |= {n: _buffer(n, f"c{i}") for i, n in enumerate(constants)}
    needed = set(graph.outputs).union(*[g.reads for g in groups]) if groups else set(graph.outputs)
    members = dict.fromkeys(m for g in groups for m in g.members if m in needed)
    # A check that is made after the program ran must be able to leave everything as it was.
    late = any(graph.outputs[c.output].op != "input" for c in checks)
    overwrites = Overwrites(graph, groups, {} if late else graph.donated)
    donated, takes = overwrites.donations, overwrites.takes
    for number, node in enumerate(members):
        buffers[node] = buffers[takes[node]] if node in takes else _buffer(node, f"b{number}")
    results = [n for n in dict.fromkeys(graph.outputs) if n in members and n not in donated]
    arguments: dict[KernelBuffer, int] = {}
    for node in (*graph.inputs, *constants, *results):
        arguments.setdefault(buffers[node], len(arguments))
    return Plan(graph, buffers, arguments, constants, results, donated, checks, shapes,
                result_count)


def _buffer(node: Node, name: str) -> KernelBuffer:
    return KernelBuffer(name, node.type.dtype, node.type.size)
