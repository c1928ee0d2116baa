"""Lowers the control-flow tree of a traced function to one native call, without Python between its
programs.

The compiled programs of the segments stay as they are; instructions of the control VM
(`llvm/control_vm.py`) say when each runs, and on which memory. Results are computed into arrays,
other values lie in an arena. A branch outcome that has no trace ends the call with no effects.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...capture.heap.access_path import Path
from ...capture.program.cfg import BackEdge, Block, Branch, Exit, IfMerge, LoopHeader, Yield
from ...capture.program.segment_planner import walk
from ...capture.program.trace_exit import TraceExit
from ...capture.scalars.scalar_expr import ScalarExpr
from ...capture.segments.segment import Segment
from ...eager.arrays import memory
from ...eager.uninterrupted import Uninterrupted
from ..llvm.control_vm import COUNTS, ENDED, UNFINISHED, UNKNOWN, Opcode
from ..program.executable import Executable
from ..program.kernel_stats import bytes_of
from ..program.native_call import (
    SHORT_NANOSECONDS,
    LaunchFunction,
    NativeCall,
    launcher,
    make_ready,
)
from ..runtime.cpython.data_pointers import aligned
from .assembler import (
    ControlAssembler,
    ControlImage,
    ControlOperand,
    NotNativelyControlled,
    address_of,
)
from .scalar_arithmetic import SCALAR_BYTES, LiveValues, ScalarArithmetic

_MAX_DEPTH, _MAX_BLOCKS = 40, 400  # of nested blocks; of all blocks
_MAX_UNUSED_RESULT_BYTES = 1 << 20  # of results of other paths, which a call allocates in vain
_MAX_ARENA_BYTES = 1 << 24  # of an arena, which persists from call to call
_SIGNAL_CHECK_NANOSECONDS = 20_000_000  # of work, after which Python may handle signals


@dataclass
class _LoopContext:
    """An enclosing loop: its number, the index of its header, its phis with their bytes, and the
    first register that belongs to an iteration."""

    number: int
    head_index: int
    phis: list[tuple[ControlOperand, int]]
    first_register: int


@dataclass
class _MergeContext:
    """An enclosing branch whose paths merge: its phis with their bytes, the first register that
    belongs to a path, the numbers that the first path merges, and the jumps behind the merge."""

    block: IfMerge
    phis: list[tuple[ControlOperand, int]]
    first_register: int
    numbers: list[ControlOperand] = field(default_factory=list)
    jumps: list[list[Any]] = field(default_factory=list)


@dataclass
class _LoweredExit:
    """An exit of the graph: its outputs with their shapes, and its scalars."""

    trace_exit: TraceExit
    outputs: list[tuple[ControlOperand, tuple[int, ...]]]
    scalars: dict[ScalarExpr, ControlOperand]


@dataclass
class _ControlLowering:
    """Writes the instructions of a graph. `array_numbers`: the numbers of its tensors among the
    arrays."""

    array_numbers: Mapping[Path, int]
    assembler: ControlAssembler = field(default_factory=ControlAssembler)
    counted: list[LoopHeader | Yield] = field(default_factory=list)  # with a word for each count
    exits: list[_LoweredExit] = field(default_factory=list)
    overwritten: set[int] = field(default_factory=set)
    checked_first: list[TraceExit] = field(default_factory=list)  # guards run before the call
    _open_loops: list[_LoopContext] = field(default_factory=list)
    _merges: list[_MergeContext] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.arithmetic = ScalarArithmetic(self.assembler)

    def lower_block(self, block: Block | None, live: LiveValues, depth: int = 0) -> None:
        """Writes a block and all blocks below it. Raises NotNativelyControlled if one is
        unsupported."""
        if depth > _MAX_DEPTH:
            raise NotNativelyControlled("its branches are nested too deeply")
        if block is None or any(s.executable is None for s in block.segments):
            self.assembler.add(Opcode.RET, UNKNOWN)  # the slow path compiles new segments
            return
        for segment in block.segments:
            live = self._lower_segment(segment, live)
        if isinstance(block, Branch):
            self._lower_branch(block, live, depth)
        elif isinstance(block, LoopHeader):
            self._lower_loop(block, live, depth)
        elif isinstance(block, BackEdge):
            self._lower_back_edge(block, live)
        elif isinstance(block, Exit):
            self._lower_exit(block, live)
        elif isinstance(block, IfMerge):
            self._lower_if_merge(block, live, depth)
        elif isinstance(block, Yield):
            self._lower_yield(block, live)
        else:
            raise NotNativelyControlled(f"{block.site} runs in Python")

    # ---- programs

    def _lower_segment(self, segment: Segment, live: LiveValues) -> LiveValues:
        program, inputs = self._program_and_inputs(segment, live)
        results = [self.assembler.register(bytes_of([t])) for t in program.interface.results]
        return {**live, **dict(zip(segment.outputs, self.assembler.run(program, inputs, results)))}

    def _program_and_inputs(self, segment: Segment, live: LiveValues) -> tuple[Executable,
                                                                             list[ControlOperand]]:
        """The program of a segment, and the operands of its inputs."""
        program = segment.executable
        if type(program) is not Executable or program.interface.has_checks \
                or program.interface.sizes:
            raise NotNativelyControlled("one of its graphs is not a native program of fixed sizes")
        inputs = [ControlOperand("array", self.array_numbers[p]) for p in segment.paths]
        for node in segment.inputs.numbers:
            number = self.arithmetic.value(segment.names.numbers[node], live)
            inputs.append(self.arithmetic.operand(number, node))
        return program, [*inputs, *(live[n] for n in segment.inputs.registers)]

    # ---- blocks

    def _lower_branch(self, branch: Branch, live: LiveValues, depth: int) -> None:
        if branch.kind != "bool":
            location = branch.site or "a branch"
            raise NotNativelyControlled(f"{location} branches on more than true or false")
        subject, assembler = branch.subject, self.assembler
        if isinstance(subject, ScalarExpr):
            slot = self.arithmetic.value(subject, live)
            dtype = self.arithmetic.kinds[slot].dtype
        else:
            slot, dtype = live[subject], subject.type.dtype
        jump = assembler.add(Opcode.BR_ZERO, slot, dtype.itemsize, _truth_mask(dtype), None)
        top = assembler.arena_top
        self.lower_block(branch.outcomes.get(True), live, depth + 1)
        jump[4] = len(assembler)
        if not self._open_loops and not self._merges:  # else registers exchange their memory
            assembler.arena_top = top
        self.lower_block(branch.outcomes.get(False), live, depth + 1)

    def _lower_loop(self, loop: LoopHeader, live: LiveValues, depth: int) -> None:
        assembler, enter, first = self.assembler, loop.entry, len(self.assembler.registers)
        numbers = [self.arithmetic.value(f, live) for f in enter.formulas]
        values = [*(live[v] for v in enter.values), *numbers]
        sizes = [*[bytes_of([p.type]) for p in enter.phis], *[SCALAR_BYTES] * len(numbers)]
        phis = [assembler.register(size) for size in sizes]
        for phi, value, size in zip(phis, values, sizes):
            assembler.copy(phi, value, size)
        self.arithmetic.bind_phis(phis[len(enter.phis):], numbers)
        carried = list(zip(phis, sizes))
        self._open_loops.append(_LoopContext(len(self.counted), len(assembler), carried, first))
        self.counted.append(loop)
        inside = {**live, **dict(zip((*enter.phis, *enter.symbols), phis))}
        self.lower_block(loop.body, inside, depth + 1)
        self._open_loops.pop()

    def _lower_back_edge(self, edge: BackEdge, live: LiveValues) -> None:
        if edge.vjps:
            raise NotNativelyControlled("it has a backward through its iterations")
        number = self.counted.index(edge.loop)
        loop = next(x for x in self._open_loops if x.number == number)
        numbers = [self.arithmetic.value(f, live) for f in edge.formulas]
        self.arithmetic.check_phi_kinds(numbers, [phi for phi, _ in loop.phis[len(edge.values):]])
        self._assign_phis(loop, [*(live[v] for v in edge.values), *numbers])
        self.assembler.add(Opcode.LOOP, loop.head_index, COUNTS + number)

    def _lower_if_merge(self, block: IfMerge, live: LiveValues, depth: int) -> None:
        """Writes the paths of a branch one after the other, and then the code behind the merge,
        to which each of them jumps."""
        assembler = self.assembler
        sizes = [*[bytes_of([p.type]) for p in block.phis], *[SCALAR_BYTES] * len(block.symbols)]
        phis = [assembler.register(size) for size in sizes]
        merge = _MergeContext(block, list(zip(phis, sizes)), len(assembler.registers))
        self._merges.append(merge)
        self.lower_block(block.body, live, depth + 1)
        self._merges.pop()
        for jump in merge.jumps:
            jump[1] = len(assembler)
        if merge.jumps:
            self.arithmetic.bind_phis(phis[len(block.phis):], merge.numbers)
            behind = {**live, **dict(zip((*block.phis, *block.symbols), phis))}
            self.lower_block(block.continuation, behind, depth)

    def _lower_yield(self, block: Yield, live: LiveValues) -> None:
        merge = next(m for m in self._merges if m.block is block.if_merge)
        numbers = [self.arithmetic.value(f, live) for f in block.formulas]
        if merge.jumps:
            self.arithmetic.check_phi_kinds(numbers, merge.numbers)
        else:
            merge.numbers = numbers
        self._assign_phis(merge, [*(live[v] for v in block.values), *numbers])
        self.counted.append(block)
        merge.jumps.append(self.assembler.add(Opcode.LOOP, None, COUNTS + len(self.counted) - 1))

    def _assign_phis(self, target: _LoopContext | _MergeContext,
                     values: Sequence[ControlOperand]) -> None:
        """Parallel copy into the phis. Values made in this iteration or path are swapped in; older
        or repeated values are copied. `moved[r]` is the register that now holds the value of r."""
        moved: dict[ControlOperand, ControlOperand] = {}
        swapped_values: set[ControlOperand] = set()
        copied = []
        for (phi, size), value in zip(target.phis, values):
            invariant = value.kind != "register" or value.number < target.first_register
            if value in swapped_values or invariant:
                copied.append((phi, value, size))
                continue
            swapped_values.add(value)
            source = moved.get(value, value)
            if source != phi:
                self.assembler.add(Opcode.SWAP, phi, source)
                displaced = next((s for s, to in moved.items() if to == phi), phi)
                moved[displaced], moved[value] = source, phi
        for phi, value, size in copied:
            self.assembler.copy(phi, moved.get(value, value), size)

    def _lower_exit(self, exit_block: Exit, live: LiveValues) -> None:
        trace_exit, *others = exit_block.exits
        if trace_exit.exit_guards and others:  # else the first one fits all calls that come here
            raise NotNativelyControlled("an exit depends on guards that Python evaluates")
        if trace_exit.backward is not None or trace_exit.segment is None:
            raise NotNativelyControlled("its results have a backward")
        if trace_exit.segment.executable is None:
            self.assembler.add(Opcode.RET, UNKNOWN)
            return
        numbers = {f: self.arithmetic.pinned_copy(self.arithmetic.value(f, live))
                   for f in trace_exit.formulas}
        program, inputs = self._program_and_inputs(trace_exit.segment, live)
        self._note_overwritten(trace_exit, program, inputs)
        result_types: list[Any] = []
        results = [self._result_operand(t.shape, t.dtype, result_types)
                   for t in program.interface.results]
        outputs = self.assembler.run(program, inputs, results)
        for i, (slot, node) in enumerate(zip(outputs, trace_exit.segment.outputs)):
            if slot.kind == "register":
                outputs[i] = self._result_operand(node.type.shape, node.type.dtype, result_types)
                self.assembler.copy(outputs[i], slot, bytes_of([node.type]))
        self.assembler.add(Opcode.RET, len(self.exits))
        shaped = list(zip(outputs, program.interface.shapes))
        self.exits.append(_LoweredExit(trace_exit, shaped, numbers))

    def _note_overwritten(self, trace_exit: TraceExit, program: Executable,
                          inputs: Sequence[ControlOperand]) -> None:
        """Notes the arrays that a path overwrites in its last program."""
        overwritten = {inputs[i] for i in program.interface.overwritten}
        if overwritten and trace_exit.exit_guards:
            self.checked_first.append(trace_exit)
        if any(inputs.count(slot) > 1 for slot in overwritten):
            raise NotNativelyControlled("an array that it overwrites is passed twice")
        self.overwritten |= {slot.number for slot in overwritten}

    def _result_operand(self, shape: tuple[int, ...], dtype: Any,
                        result_types: list[Any]) -> ControlOperand:
        """An array for a result; exits share arrays of equal type."""
        result_types.append((shape, dtype))
        results = self.assembler.results
        same_type = [i for i, kind in enumerate(results) if kind == (shape, dtype)]
        nth = result_types.count((shape, dtype))
        if len(same_type) < nth:
            same_type.append(len(results))
            results.append((shape, dtype))
        return ControlOperand("result", same_type[nth - 1])


def lower_control(root: Block, numbers: Mapping[Path, int]) -> NativeControl | str:
    """The native control flow of a graph, whose tensors are at `numbers` among the arrays of a
    call; or the reason why there is none."""
    try:
        if sum(1 for _ in walk(root)) > _MAX_BLOCKS:
            raise NotNativelyControlled("it has too many branches")
        written = _ControlLowering(numbers)
        written.lower_block(root, {})
        return NativeControl(written, sum(n >= 0 for n in numbers.values()))
    except NotNativelyControlled as why:
        return str(why)


def _check_results(written: _ControlLowering) -> None:
    """Raises NotNativelyControlled if a call would allocate many results that only other paths
    need."""
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in written.assembler.results]
    needed = [sum(sizes[s.number] for s in {s for s, _ in end.outputs} if s.kind == "result")
              for end in written.exits]
    if sum(sizes) - min(needed, default=0) > _MAX_UNUSED_RESULT_BYTES:
        raise NotNativelyControlled(f"its paths need {sum(sizes)} bytes of results together")


class NativeControl:
    """A control-flow tree as a native call, which several threads may make at once."""

    def __init__(self, written: _ControlLowering, arrays: int) -> None:
        _check_results(written)
        assembler = written.assembler
        image = ControlImage(assembler, len(written.counted), arrays)
        if image.size > _MAX_ARENA_BYTES:
            raise NotNativelyControlled(f"{image.size} bytes pass between its graphs, "
                                        "where Python costs little")
        self.ends, self.first = [end.trace_exit for end in written.exits], written.checked_first
        self._arena_bytes = image.size
        self._counted = [(block, COUNTS + i) for i, block in enumerate(written.counted)]
        self._constants = assembler.constants
        self._results = [memory.maker(shape, dtype) for shape, dtype in assembler.results]
        self._outputs = [[(image.address_index(slot), shape) for slot, shape in end.outputs]
                         for end in written.exits]
        all_results = [(ControlOperand("result", i), shape)
                       for i, (shape, _) in enumerate(assembler.results)]
        self._identity_exits = {i for i, end in enumerate(written.exits)
                                if end.outputs == all_results}
        kinds = written.arithmetic.kinds
        self._exit_scalars = [[(formula, image.arena_offset(slot), kinds[slot].view,
                                kinds[slot].type)
                               for formula, slot in end.scalars.items()] for end in written.exits]
        self._overwritten = sorted(written.overwritten)
        self._arenas: list[Any] = []
        short = sum(p.program.cost for p in assembler.programs) < SHORT_NANOSECONDS

        def call(fresh: bool, keeps_lock: bool, overwritten: Sequence[int] = ()) -> LaunchFunction:
            descriptor = image.descriptor(fresh, SHORT_NANOSECONDS
                                          if keeps_lock else _SIGNAL_CHECK_NANOSECONDS)
            native_call = NativeCall("fusewire_control", address_of(descriptor), keeps_lock, arrays,
                                     len(assembler.results), overwritten)
            return launcher(native_call, assembler.constants,
                            keep_alive=(descriptor, image, assembler.programs))

        self._begin = call(True, short, self._overwritten)
        self._begin_on_copies = call(True, short)
        self._resume = call(False, False)

    def __call__(self, arrays: list[Any], section: Uninterrupted | None = None
                 ) -> tuple[list[Any], int, dict[ScalarExpr, Any]]:
        """The outputs of the exit that the call reaches, its number, and its scalars; UNKNOWN for
        an outcome that has no trace. Nothing is overwritten before the exit: until then the
        `section` of the changes may handle signals."""
        results = []
        for make in self._results:  # a comprehension would cost a call
            results.append(make())
        memory_pair = self._take_arena()
        arena, header = memory_pair
        try:
            if not self._begin(arrays, results, arena):
                make_ready(arrays, self._overwritten)
                self._begin_on_copies(arrays, results, arena)
            while header[ENDED] == UNFINISHED:  # Python handles signals in between
                if section is not None:
                    section.listen()
                self._resume(arrays, results, arena)
            end = header[ENDED]
            for block, word in self._counted:
                block.count(header[word])
            numbers = self._read_scalars(end, arena) if end >= 0 and self._exit_scalars[end] else {}
        finally:
            self._arenas.append(memory_pair)
        if end in self._identity_exits:
            return results, end, numbers
        return self._outputs_of(end, [*arrays, *self._constants, *results]), end, numbers

    def _outputs_of(self, end: int, everything: list[Any]) -> list[Any]:
        outputs = []
        for i, shape in self._outputs[end] if end >= 0 else ():
            array = everything[i]
            outputs.append(array if array.shape == shape else array.reshape(shape))
        return outputs

    def _read_scalars(self, end: int, arena: Any) -> dict[ScalarExpr, Any]:
        """The scalars of an exit as Python numbers."""
        return {formula: kind(struct.unpack_from(view, arena, offset)[0])
                for formula, offset, view, kind in self._exit_scalars[end]}

    def _take_arena(self) -> Any:
        try:
            return self._arenas.pop()
        except IndexError:
            arena = aligned(self._arena_bytes)
            return arena, memoryview(arena[:8 * (COUNTS + len(self._counted))]).cast("q")


def _truth_mask(kind: Any) -> int:
    """The bits of eight bytes that make a scalar true: all but the sign of a float, since -0.0 is
    false."""
    if kind.kind in "biu":
        return -1
    size = kind.itemsize // (2 if kind.kind == "c" else 1)
    return int.from_bytes((b"\xff" * (size - 1) + b"\x7f") * (8 // size), "little", signed=True)
