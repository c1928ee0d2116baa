"""Compiles a graph to a program, one step per line: passes, fuse, lower, plan memory, emit.

A graph with symbolic sizes is compiled when its sizes are known. If a graph has an op without code,
only its supported parts are compiled. So every graph gives a program.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..capture.graph.device_placement import uses_gpu
from ..capture.graph.graph import Graph, Node, Nodes, params_key, topological
from ..capture.passes.batch_matmul import merge_products
from ..capture.passes.bounds_checks import BoundsCheck, extract_checks
from ..capture.passes.decompose import decompose_calls, decompose_composites
from ..capture.passes.matvec import decompose_vector_products
from ..capture.passes.pass_manager import CLEANUP, Pass, run
from ..capture.passes.simplify import merge_slices, simplify
from ..capture.passes.slice_sums import merge_slice_sums
from ..capture.passes.slice_updates import merge_slice_updates
from ..capture.passes.transpose_matmul import transpose_products
from ..capture.runtime.metrics import phase
from ..eager.errors import CodegenError, MemoryShortage
from ..eager.settings import settings
from .cache.program_cache import cached_program
from .cpu.gemm.zero_points import split_zero_points
from .cpu.nontemporal import use_nontemporal_stores
from .dynamic.dynamic_program import DynamicProgram, check_views, compile_any_size
from .dynamic.specializations import DynamicExecutable, has_symbols
from .fusion.fusion import Group, fuse
from .fusion.kernel_key import BufferView
from .fusion.launch import Launch
from .fusion.materialize import is_preallocated
from .ir.affine_index import lowering_for
from .ir.loop_ir import KernelBuffer
from .ir.target_info import Machine
from .lowering.lowering_table import CPU, KernelCache, LoweringTable, PackedOperands
from .outline.fill_slices import fold_fill_slices
from .outline.outline import cut_sections
from .partition.hybrid_executable import HybridExecutable, compile_hybrid
from .partition.support import why_no_code
from .program.arena import plan_arena
from .program.donation import find_donations
from .program.executable import Executable, Plan, interface_of
from .program.link import MIN_PRODUCTS_TO_PACK, Lowered, lower_sections
from .program.native_program import NativeProgram, ProgramStep, Slot, WrittenProgram
from .program.native_program import write as write_program
from .program.native_threads import get_num_threads
from .program.prepack import PrepackedBuffers, prepacked_launches, prepacked_part
from .program.prepacked_executable import Parts, PrepackedExecutable
from .runtime.target import Target, host

Program = Executable | HybridExecutable | DynamicExecutable

# Set with CuPy: compiles what is on GPUs, in part or as a whole.
compile_on_devices: Callable[[Graph], HybridExecutable | DynamicExecutable] | None = None


def compile_graph(graph: Graph, target: Target | None = None) -> Program:
    """A callable from the graph's inputs to its outputs, as arrays."""
    if compile_on_devices is not None and uses_gpu(graph):
        return compile_on_devices(graph)
    if has_symbols(graph):
        return DynamicExecutable(graph, lambda sized: compile_graph(sized, target),
                                 lambda graph, least: compile_dynamic(graph, least, target))
    if not any(why_no_code(n, CPU.has_lowering) for n in graph.nodes()):
        try:
            return compile_native(graph, target)
        except MemoryShortage:
            raise
        except CodegenError:  # an op may be made of ops that have no code
            pass
    return compile_hybrid(graph, lambda part: compile_native(part.graph, target, checks=False))


def compile_native(graph: Graph, target: Target | None = None, checks: bool = True) -> Executable:
    """The graph as one native program. Raises CodegenError if an op has no code. Without `checks`
    the caller has checked the indices."""
    target = target or host()
    machine = machine_of(target)

    def write() -> tuple[WrittenProgram, Parts]:
        with phase("lowering"):
            plan, launches = lower_graph(graph, machine, checks)
            if target.x86:  # where it was measured
                launches = use_nontemporal_stores(launches, [plan.buffers[n] for n in plan.results])
            return _assemble(plan, launches, target)

    program, parts = cached_program(graph, target, (machine, checks), write)
    return _executable(program, parts)


def compile_dynamic(graph: Graph, least: Mapping[str, int],
                    target: Target | None = None) -> DynamicProgram:
    """The graph as one native program for all sizes up to at least `least`. Raises CodegenError if
    code depends on the sizes."""
    target = target or host()
    machine = machine_of(target)

    def lower(bound: Graph, dynamic_sizes: tuple[tuple[int, int], ...]) -> Lowered:
        return lower_graph(bound, replace(machine, dynamic_sizes=dynamic_sizes))

    def write() -> tuple[WrittenProgram, tuple[Parts, DynamicProgram]]:
        check_supported(graph)
        with phase("lowering"):
            dynamic = compile_any_size(graph, least, lower,
                                       lambda plan, launches: _assemble(plan, launches, target))
            written, parts = dynamic.program
            return written, (parts, replace(dynamic, program=None))

    how = machine, sorted(least.items())
    program, (parts, sized) = cached_program(graph, target, how, write)
    return replace(sized, program=_executable(program, parts))


def _assemble(plan: Plan, launches: list[Launch], target: Target) -> tuple[WrittenProgram, Parts]:
    """The program that runs these launches."""
    prepacked, launches, arguments = _prepack(plan, launches)
    slots, arena = plan_arena([[p.buffer for p in x.views] for x in launches], arguments)
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in launches]
    written = write_program(steps, "program", target, prologue_steps=0
                            if prepacked is None else prepacked.steps)
    return written, Parts(interface_of(plan), arena, prepacked)


def _executable(program: NativeProgram, parts: Parts) -> Executable:
    if parts.prepacked is None:
        return Executable(parts.interface, program, parts.arena)
    return PrepackedExecutable(parts.interface, program, parts.arena, parts.prepacked)


def _prepack(plan: Plan, launches: list[Launch]
             ) -> tuple[PrepackedBuffers | None, list[Launch], dict[KernelBuffer, int]]:
    """The prepacked buffers of a program, its launches with the prologue first, and all its
    arguments; the prepacked buffers follow the constants."""
    inputs = [plan.buffers[n] for n in plan.graph.inputs]
    constants = [plan.buffers[n] for n in plan.constants]
    persistent = {inputs[i] for i in plan.graph.persistent}
    first, others = prepacked_launches(launches, {*persistent, *constants}, plan.arguments)
    prepacked, prepacked_buffers = prepacked_part(first, others, inputs)
    if not prepacked_buffers:
        return None, launches, plan.arguments
    results = [b for b in plan.arguments if b not in {*inputs, *constants}]
    arguments = dict.fromkeys((*inputs, *constants, *prepacked_buffers, *results))
    return prepacked, [*first, *others], {b: i for i, b in enumerate(arguments)}


def slot_of(view: BufferView, slots: Mapping[KernelBuffer, Slot]) -> Slot:
    """The slot of a view, from the slot of its buffer."""
    slot = slots[view.buffer]
    return replace(slot, offset=slot.offset + view.offset * view.buffer.dtype.itemsize)


def machine_of(target: Target, threads: int | None = None) -> Machine:
    """The properties of a target that the choice of loops depends on; `threads` defaults to those
    of this process."""
    narrow = target.x86 and target.vector_bytes < 64
    return Machine(target.vector_bytes, 16 if narrow else 32, threads or get_num_threads(),
                   winograd=settings.winograd, winograd_training=settings.winograd_training,
                   dot=target.dot and settings.bf16_dot,
                   dot16=target.dot16, dot8=target.dot8)


def lower_graph(graph: Graph, machine: Machine, checks: bool = True,
                kinds: LoweringTable = CPU) -> Lowered:
    """The plan and the launches of a graph, before any code. `kinds`: the lowering table of the
    back end."""
    machine = replace(machine, training=any(n.op == "conv_weight" for n in graph.nodes()))
    with lowering_for(machine):
        return _lower_parts(graph, KernelCache(machine, kinds), checks, None)


def _lower_parts(graph: Graph, lowering: KernelCache, checks: bool,
                 program_inputs: Collection[Node] | None
                 ) -> Lowered:
    """Lowers a graph; repeated regions are lowered once. `program_inputs` is None for a whole
    program; for a section, its inputs that are arguments of the program."""
    graph = _merge_across_iterations(graph, lowering.machine)
    sections = cut_sections(graph)
    if not sections:
        return _lower_section(graph, lowering, checks, program_inputs)
    return lower_sections(graph, sections, graph.inputs
                          if program_inputs is None else program_inputs,
                          lambda part, inputs: _lower_parts(part, lowering, checks, inputs),
                          separate=bool(lowering.machine.dynamic_sizes),
                          in_order=lowering.machine.in_order)


def _merge_across_iterations(graph: Graph, machine: Machine) -> Graph:
    """The graph with ops that span many unrolled iterations merged into one."""
    graph = fold_fill_slices(merge_slices(merge_slice_sums(merge_slice_updates(graph))))
    # along an axis whose size is not known nothing can be put together
    return graph if machine.dynamic_sizes else merge_products(transpose_products(graph))


def _lower_section(graph: Graph, lowering: KernelCache, checks: bool,
                   program_inputs: Collection[Node] | None) -> Lowered:
    with phase("passes"):
        ready, checked_values = extract_checks(run(graph, passes_for(lowering.machine,
                                                                     lowering.table)))
    if not checks:
        ready, checked_values = replace(ready, outputs=ready.outputs[:len(graph.outputs)]), []
    check_supported(ready, lowering.table)
    if lowering.machine.dynamic_sizes:
        check_views(ready, lowering.machine)
    values, shapes = strip_reshapes(ready)
    if program_inputs is not None:
        values = copy_passed_through(values, len(graph.outputs), program_inputs)
    groups = fuse(values, lowering.machine.gpu)
    plan = plan_values(values, groups, checked_values, shapes, len(graph.outputs))
    persistent = {plan.buffers[plan.graph.inputs[i]] for i in plan.graph.persistent}
    persistent |= {plan.buffers[n] for n in _shared_factors(groups) if n in plan.buffers}
    packed: PackedOperands = {}  # of this plan alone: another section has its memory elsewhere
    return plan, [launch for number, group in enumerate(groups) for launch in lowering.launches(
        group, plan.buffers, f"k{number}_{_label(group)}", persistent, packed)]


def passes_for(machine: Machine, kinds: LoweringTable = CPU) -> list[Pass]:
    """The passes that run before nodes become groups."""
    return [
        _decomposing(machine, kinds),
        *CLEANUP,
        merge_slice_updates,
        merge_slice_sums,
        transpose_products,
        decompose_vector_products,
        *([split_zero_points] if machine.dot8 and not machine.dynamic_sizes else []),
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


def check_supported(graph: Graph, kinds: LoweringTable = CPU) -> None:
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
    donated = {} if late else find_donations(graph, groups)
    for number, node in enumerate(members):
        buffers[node] = buffers[donated[node]] if node in donated else _buffer(node, f"b{number}")
    results = [n for n in dict.fromkeys(graph.outputs) if n in members and n not in donated]
    arguments: dict[KernelBuffer, int] = {}
    for node in (*graph.inputs, *constants, *results):
        arguments.setdefault(buffers[node], len(arguments))
    return Plan(graph, buffers, arguments, constants, results, donated, checks, shapes,
                result_count)


def _buffer(node: Node, name: str) -> KernelBuffer:
    return KernelBuffer(name, node.type.dtype, node.type.size)
