"""Graph -> program, one step per line: passes, fuse, lower, plan memory, emit.

What has symbolic sizes is compiled once they are known, and where a graph has something for which
there is no code, only its parts are compiled: every graph gives a program.
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
from .cache.program_cache import program_of
from .cpu.gemm.zero_points import split_zero_points
from .cpu.nontemporal import use_nontemporal_stores
from .dynamic.dynamic_program import DynamicProgram, check_places, compile_any_size
from .dynamic.specializations import DynamicExecutable, has_symbols
from .fusion.fusion import Group, fuse
from .fusion.fusion import given as is_given
from .fusion.kernel_key import BufferView
from .fusion.launch import Launch
from .ir.affine_index import lowering_for
from .ir.loop_ir import Buffer
from .ir.target_info import Machine
from .outline.fill_slices import fold_fill_slices
from .outline.outline import cut_sections
from .partition.hybrid_executable import HybridExecutable, compile_hybrid
from .partition.support import why_no_code
from .program.arena import plan_arena
from .program.donation import in_place
from .program.executable import Executable, Plan, interface_of
from .program.link import OFTEN, Lowered, lower_sections
from .program.native_program import NativeProgram, ProgramStep, Slot, WrittenProgram
from .program.native_program import write as write_program
from .program.native_threads import get_num_threads
from .program.prepack import PrepackedBuffers, prepacked_launches, prepacked_part
from .program.prepacked_executable import Parts, PrepackedExecutable
from .runtime.target import Target, host
from .select.lowering_table import CPU, KernelCache, LoweringTable, Packed

Program = Executable | HybridExecutable | DynamicExecutable

# Set with CuPy: compiles what is on GPUs, in part or as a whole.
elsewhere: Callable[[Graph], HybridExecutable | DynamicExecutable] | None = None


def compile_graph(graph: Graph, target: Target | None = None) -> Program:
    """A callable that takes the graph's inputs as arrays and gives its outputs as arrays."""
    if elsewhere is not None and uses_gpu(graph):
        return elsewhere(graph)
    if has_symbols(graph):
        return DynamicExecutable(graph, lambda known: compile_graph(known, target),
                                 lambda graph, least: compile_dynamic(graph, least, target))
    if not any(map(why_no_code, graph.nodes())):
        try:
            return compile_native(graph, target)
        except MemoryShortage:
            raise
        except CodegenError:  # an op may be made of ops that have no code
            pass
    return compile_hybrid(graph, lambda part: compile_native(part.graph, target, checks=False))


def compile_native(graph: Graph, target: Target | None = None, checks: bool = True) -> Executable:
    """A graph as one native program; CodegenError where something in it has no code. Without
    `checks` its indices are those that somebody else has looked at."""
    target = target or host()
    machine = machine_of(target)

    def write() -> tuple[WrittenProgram, Parts]:
        with phase("lowering"):
            plan, launches = lower_graph(graph, machine, checks)
            if target.x86:  # where it was measured
                launches = use_nontemporal_stores(launches, [plan.buffers[n] for n in plan.results])
            return _assembled(plan, launches, target)

    program, parts = program_of(graph, target, (machine, checks), write)
    return _executable(program, parts)


def compile_dynamic(graph: Graph, least: Mapping[str, int],
                    target: Target | None = None) -> DynamicProgram:
    """A graph as one native program for all sizes up to at least these; CodegenError where code
    depends on the sizes."""
    target = target or host()
    machine = machine_of(target)

    def lower(known: Graph, open_sizes: tuple[tuple[int, int], ...]) -> Lowered:
        return lower_graph(known, replace(machine, open=open_sizes))

    def write() -> tuple[WrittenProgram, tuple[Parts, DynamicProgram]]:
        check_supported(graph)
        with phase("lowering"):
            made = compile_any_size(graph, least, lower,
                                    lambda plan, launches: _assembled(plan, launches, target))
            written, parts = made.program
            return written, (parts, replace(made, program=None))

    how = machine, sorted(least.items())
    program, (parts, sized) = program_of(graph, target, how, write)
    return replace(sized, program=_executable(program, parts))


def _assembled(plan: Plan, launches: list[Launch], target: Target) -> tuple[WrittenProgram, Parts]:
    """The program that makes these launches."""
    kept, launches, arguments = _keep(plan, launches)
    slots, arena = plan_arena([[p.buffer for p in x.places] for x in launches], arguments)
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.places]) for x in launches]
    written = write_program(steps, "program", target, kept=0 if kept is None else kept.steps)
    return written, Parts(interface_of(plan), arena, kept)


def _executable(program: NativeProgram, parts: Parts) -> Executable:
    if parts.kept is None:
        return Executable(parts.interface, program, parts.arena)
    return PrepackedExecutable(parts.interface, program, parts.arena, parts.kept)


def _keep(plan: Plan, launches: list[Launch]
          ) -> tuple[PrepackedBuffers | None, list[Launch], dict[Buffer, int]]:
    """What is kept from call to call, the launches with those first that make it, and all
    arguments of the program: what is kept stands behind the constants."""
    inputs = [plan.buffers[n] for n in plan.graph.inputs]
    constants = [plan.buffers[n] for n in plan.constants]
    stay = {inputs[i] for i in plan.graph.persistent}
    first, others = prepacked_launches(launches, {*stay, *constants}, plan.arguments)
    kept, left = prepacked_part(first, others, inputs)
    if not left:
        return None, launches, plan.arguments
    results = [b for b in plan.arguments if b not in {*inputs, *constants}]
    given = dict.fromkeys((*inputs, *constants, *left, *results))
    return kept, [*first, *others], {b: i for i, b in enumerate(given)}


def slot_of(place: BufferView, slots: Mapping[Buffer, Slot]) -> Slot:
    """Where a place is when its buffer lies at its slot."""
    slot = slots[place.buffer]
    return replace(slot, offset=slot.offset + place.offset * place.buffer.dtype.itemsize)


def machine_of(target: Target, threads: int | None = None) -> Machine:
    """What the choice of loops needs to know of a target; threads: those of this process, where no
    other number is given."""
    narrow = target.x86 and target.vector_bytes < 64
    return Machine(target.vector_bytes, 16 if narrow else 32, threads or get_num_threads(),
                   winograd=settings.winograd, winograd_training=settings.winograd_training,
                   dot=target.dot and settings.bf16_dot,
                   dot16=target.dot16, dot8=target.dot8)


def lower_graph(graph: Graph, machine: Machine, checks: bool = True,
                kinds: LoweringTable = CPU) -> Lowered:
    """The kernels of a graph on their buffers, and the plan of its arguments, before any code.
    `kinds`: how a group of each kind becomes kernels."""
    machine = replace(machine, trains=any(n.op == "conv_weight" for n in graph.nodes()))
    with lowering_for(machine):
        return _lower_parts(graph, KernelCache(machine, kinds), checks, None)


def _lower_parts(graph: Graph, lowering: KernelCache, checks: bool, given: Collection[Node] | None
                 ) -> Lowered:
    """Lowers what repeats in a graph once. `given` is None for a whole program; for a part of one,
    its inputs that are arguments of the program."""
    graph = _joined(graph, lowering.machine)
    sections = cut_sections(graph)
    if not sections:
        return _lower_at_once(graph, lowering, checks, given)
    return lower_sections(graph, sections, graph.inputs if given is None else given,
                          lambda part, given: _lower_parts(part, lowering, checks, given),
                          apart=bool(lowering.machine.open), in_order=lowering.machine.in_order)


def _joined(graph: Graph, machine: Machine) -> Graph:
    """The graph with what goes over many turns as one."""
    graph = fold_fill_slices(merge_slices(merge_slice_sums(merge_slice_updates(graph))))
    # along an axis whose size is not known nothing can be put together
    return graph if machine.open else merge_products(transpose_products(graph))


def _lower_at_once(graph: Graph, lowering: KernelCache, checks: bool,
                   given: Collection[Node] | None) -> Lowered:
    with phase("passes"):
        ready, found = extract_checks(run(graph, passes_for(lowering.machine, lowering.kinds)))
    if not checks:
        ready, found = replace(ready, outputs=ready.outputs[:len(graph.outputs)]), []
    check_supported(ready, lowering.kinds)
    if lowering.machine.open:
        check_places(ready, lowering.machine)
    values, shapes = strip_reshapes(ready)
    if given is not None:
        values = with_own_outputs(values, len(graph.outputs), given)
    groups = fuse(values)
    plan = plan_values(values, groups, found, shapes, len(graph.outputs))
    kept = {plan.buffers[plan.graph.inputs[i]] for i in plan.graph.persistent}
    kept |= {plan.buffers[n] for n in _often_multiplied(groups) if n in plan.buffers}
    packed: Packed = {}  # of this plan alone: another section has its memory elsewhere
    return plan, [launch for number, group in enumerate(groups) for launch in lowering.launches(
        group, plan.buffers, f"k{number}_{_label(group)}", kept, packed)]


def passes_for(machine: Machine, kinds: LoweringTable = CPU) -> list[Pass]:
    """What a graph goes through before its nodes become groups."""
    return [
        _opening(machine, kinds),
        *CLEANUP,
        merge_slice_updates,
        merge_slice_sums,
        transpose_products,
        decompose_vector_products,
        *([split_zero_points] if machine.dot8 and not machine.open else []),
        simplify,  # again: opening leaves reshapes of reshapes
    ]


@functools.cache
def _opening(machine: Machine, kinds: LoweringTable) -> Pass:
    """The pass that opens composites, but for those that there is a kernel for, and calls."""
    def decompose(graph: Graph) -> Graph:
        opened = decompose_composites(graph, lambda node: not kinds.has_kernel(node, machine))
        return decompose_calls(opened) if kinds.opens_calls else opened

    return decompose


def _often_multiplied(groups: Sequence[Group]) -> list[Node]:
    """What so many equal products read that it is packed once for all of them, as the weight of
    each step of a loop."""
    equal = Counter((n, tuple([(m.op, params_key(m.params), m.type) for m in g.members]))
                    for g in groups if g.kind == "contract" for n in g.reads)
    return [n for (n, _), count in equal.items() if count >= OFTEN]


def with_own_outputs(graph: Graph, wanted: int, given: Collection[Node]) -> Graph:
    """The graph with copies of inputs and constants in the place of outputs that are such; but for
    what is only checked, and can be before the program runs."""
    nodes, outputs = Nodes(), list(graph.outputs)
    for j, n in enumerate(outputs):
        if is_given(n) and (j < wanted or n not in given):
            outputs[j] = nodes.make("alias", (n,), {}, n.type, n.site)
    return replace(graph, outputs=tuple(outputs))


def check_supported(graph: Graph, kinds: LoweringTable = CPU) -> None:
    """Raises CodegenError for a value that no native code can be made for, by its line."""
    for node in graph.nodes():
        why = why_no_code(node, kinds.runs)
        if why:
            raise CodegenError(f"{node.site or node.op}: {why}")


def _label(group: Group) -> str:
    names = [n.op for n in group.members]
    return "_".join(dict.fromkeys(names if len(names) <= 3 else [*names[:2], names[-1]]))


def strip_reshapes(graph: Graph) -> tuple[Graph, tuple[Any, ...]]:
    """The graph without reshapes at its outputs, and the shapes that the outputs are to have."""
    stripped, shapes = [], []
    for node in graph.outputs:
        shapes.append(node.type.shape)
        while node.op == "reshape" and node.inputs[0].op != "broadcast_to":
            node = node.inputs[0]
        stripped.append(node)
    return replace(graph, outputs=tuple(stripped)), tuple(shapes)


def plan_values(
    graph: Graph, groups: list[Group], checks: list[BoundsCheck], shapes: tuple[Any, ...],
                wanted: int
) -> Plan:
    """Buffers for everything that lies in memory: inputs, constants, outputs, and what a group
    reads from another."""
    buffers = {n: _buffer(n, n.params["name"]) for n in graph.inputs}
    constants = [n for n in topological(graph.outputs) if n.op == "const" and n.type.shape]
    buffers |= {n: _buffer(n, f"c{i}") for i, n in enumerate(constants)}
    needed = set(graph.outputs).union(*[g.reads for g in groups]) if groups else set(graph.outputs)
    members = dict.fromkeys(m for g in groups for m in g.members if m in needed)
    # A check that is made after the program ran must be able to leave everything as it was.
    late = any(graph.outputs[c.output].op != "input" for c in checks)
    taken = {} if late else in_place(graph, groups)
    for number, node in enumerate(members):
        buffers[node] = buffers[taken[node]] if node in taken else _buffer(node, f"b{number}")
    results = [n for n in dict.fromkeys(graph.outputs) if n in members and n not in taken]
    arguments: dict[Buffer, int] = {}
    for node in (*graph.inputs, *constants, *results):
        arguments.setdefault(buffers[node], len(arguments))
    return Plan(graph, buffers, arguments, constants, results, taken, checks, shapes, wanted)


def _buffer(node: Node, name: str) -> Buffer:
    return Buffer(name, node.type.dtype, node.type.size)
