"""Makes the control flow of a traced function one native call, without Python between its programs.

Results are computed into arrays, other values lie in an arena. A branch outcome that has no trace
ends the call with no effects.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...capture.cfg.ir import Block, Exit, walk
from ...capture.cfg.segment_planner import segments_of
from ...capture.cfg.trace_exit import TraceExit
from ...capture.heap.access_path import Path
from ...capture.passes.bounds_checks import BoundsCheck
from ...capture.scalars.scalar_expr import ScalarExpr
from ...capture.segments.segment import Segment
from ...capture.sizes.size_expr import SizeExpr
from ...eager.arrays import memory
from ...eager.arrays.shapes import TensorType
from ...eager.uninterrupted import Uninterrupted
from ..dynamic.dynamic_program import DynamicProgram, shape_at
from ..dynamic.specializations import DynamicExecutable
from ..ir.sizes import has_dynamic_sizes
from ..llvm.control_vm import COUNTS, ENDED, UNFINISHED, UNKNOWN, Opcode, rule_of
from ..program.executable import Executable
from ..program.kernel_stats import bytes_of
from ..program.native_call import (
    SHORT_NANOSECONDS,
    LaunchFunction,
    NativeCall,
    launcher,
    make_ready,
)
from ..program.prepacked_executable import PrepackedExecutable
from ..runtime.cpython.data_pointers import aligned
from .argument_arithmetic import ArgumentArithmetic
from .assembler import (
    ControlAssembler,
    ControlImage,
    ControlOperand,
    NotNativelyControlled,
    address_of,
)
from .capacities import Capacities
from .extra_arrays import ExtraArrays, PackedBuffer
from .lower import ControlLowering
from .scalar_arithmetic import LiveValues

_MAX_BLOCKS = 400
_MAX_BOUND_SIZES = 256  # sets of sizes
_MAX_UNUSED_RESULT_BYTES = 1 << 20  # of results of other paths, which a call allocates in vain
_MAX_ARENA_BYTES = 1 << 24  # of an arena, which persists from call to call
_MAX_COPY_BYTES = 1 << 18  # larger values are swapped, never copied
_SIGNAL_CHECK_NANOSECONDS = 20_000_000  # of work, after which Python may handle signals
_DISPATCH_NANOSECONDS = 50  # at least, to go from one program to the next


@dataclass
class _LoweredExit:
    """An exit of the graph: its outputs with their shapes, and its scalars."""

    trace_exit: TraceExit
    outputs: list[tuple[ControlOperand, tuple[int, ...]]]
    scalars: dict[ScalarExpr, ControlOperand]


class _NativeLowering(ControlLowering):
    """Lowers a tree whose programs are in this process."""

    def __init__(self, array_numbers: Mapping[Path, int], type_of: Callable[[Path], type],
                 capacities: Capacities) -> None:
        """array_numbers: the numbers of the tree's tensors among the arrays of a call."""
        assembler = ControlAssembler()
        self.extra = ExtraArrays(sum(n >= 0 for n in array_numbers.values()))
        super().__init__(assembler, ArgumentArithmetic(assembler, self.extra, type_of))
        self.capacities = capacities
        self.array_numbers = array_numbers
        self.programs: list[Executable] = []
        self.exits: list[_LoweredExit] = []
        self.overwritten: set[int] = set()
        self.checked_first: list[TraceExit] = []  # guards run before the call

    def is_known(self, block: Block | None) -> bool:
        return block is not None and all(s.executable is not None for s in block.segments)

    def lower_unknown(self) -> None:
        self.assembler.add(Opcode.RET, UNKNOWN)  # the slow path compiles new segments

    def register(self, type: TensorType) -> ControlOperand:
        return self.assembler.register(bytes_of([self.capacities.at_capacity(type)]))

    def copy(self, target: ControlOperand, source: ControlOperand, type: TensorType) -> None:
        if source.kind == "array" and has_dynamic_sizes([type.shape]):
            raise NotNativelyControlled("a loop begins with an argument of any size")
        size = bytes_of([self.capacities.at_capacity(type)])
        if size > _MAX_COPY_BYTES:
            raise NotNativelyControlled(
                f"{size} bytes would be copied between loop iterations or branches")
        self.assembler.copy(target, source, size)

    def lower_segment(self, segment: Segment, live: LiveValues) -> LiveValues:
        program, inputs = self._program_and_inputs(segment, live)
        results = list(map(self.register, program.interface.results))
        return {**live, **dict(zip(segment.outputs, self._run(program, inputs, results)))}

    def _program_and_inputs(self, segment: Segment, live: LiveValues) -> tuple[Executable,
                                                                             list[ControlOperand]]:
        """The program of a segment, and the operands of its inputs."""
        sized = self._sized(segment)
        program = segment.executable if sized is None else sized.program
        if type(program) not in (Executable, PrepackedExecutable):
            raise NotNativelyControlled("one of its graphs is not a native program")
        assert isinstance(program, Executable)
        if program.interface.output_checks and program.interface.overwritten:
            raise NotNativelyControlled("an input is overwritten before indices are checked")
        inputs = [ControlOperand("array", self.array_numbers[p]) for p in segment.paths]
        for node in segment.inputs.numbers:
            number = self.arithmetic.value(segment.names.numbers[node], live)
            inputs.append(self.arithmetic.operand(number, node))
        inputs += [live[n] for n in segment.inputs.registers]
        if sized is not None:
            inputs.append(self.extra.of_sizes(sized, sized.sizes_argument))
        return program, inputs

    def _sized(self, segment: Segment) -> DynamicProgram | None:
        """The dynamic-shape program of a segment; None if its sizes are fixed."""
        code = segment.executable
        return self.capacities.programs.get(code) if isinstance(code, DynamicExecutable) else None

    def _run(self, program: Executable, inputs: Sequence[ControlOperand],
             results: Sequence[ControlOperand]) -> list[ControlOperand]:
        """Writes the run of a program and its checks; returns the operands of its outputs."""
        interface, native = program.interface, program.program
        address, packed = self._prepacked(program, inputs)
        constants = list(map(self.assembler.constant, interface.constants))
        if interface.sizes and (interface.output_checks or any(
                interface.inputs[i].shape for i, _ in interface.input_checks)):
            raise NotNativelyControlled("it checks any number of indices")
        for i, check in interface.input_checks:
            self._check(inputs[i], interface.inputs[i], check)
        if native.steps:
            cost = _DISPATCH_NANOSECONDS + round(min(native.cost, 1e15))
            table = [*inputs, *constants, *packed, *results]
            self.assembler.run(address, table, program.arena, cost)
            self.programs.append(program)
        values = [*inputs, *constants, *results]
        outputs = [values[i] for i in interface.outputs]
        for check in interface.output_checks:
            self._check(outputs[check.output], interface.type_of_output(check.output), check)
        return outputs

    def _prepacked(self, program: Executable, inputs: Sequence[ControlOperand]
                   ) -> tuple[int, list[ControlOperand]]:
        """The address of a program behind its prologue, and the operands of the prologue's results.
        """
        if not isinstance(program, PrepackedExecutable):
            return program.program.address, []
        persistent = [inputs[i] for i in program.prepacked.inputs]
        if any(slot.kind != "array" for slot in persistent):
            raise NotNativelyControlled("a weight is computed in the call")
        numbers = tuple(slot.number for slot in persistent)
        return program.program.after_prologue_address, [
            self.extra.packed(PackedBuffer(program, numbers, i))
            for i in range(len(program.prepacked.sizes))]

    def _check(self, indices: ControlOperand, type: TensorType, check: BoundsCheck) -> None:
        """Writes a check that leaves the call to the slow path if an index is out of range."""
        def rule(sizes: Mapping[str, int]) -> Any:
            fixed = check.at(sizes)
            return np.array(rule_of(type.dtype, fixed.low, fixed.size), np.int64)

        depends = isinstance(check.size, SizeExpr) or isinstance(check.low, SizeExpr)
        self.assembler.add(Opcode.CHECK, indices,
                           self.assembler.constant(np.array(type.size, np.int64)),
                           self.extra.of_sizes((type.dtype, check), rule) if depends else
                           self.assembler.constant(rule({})), UNKNOWN)

    def exit(self, exit_block: Exit, live: LiveValues, depth: int) -> None:
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
        sized = self._sized(trace_exit.segment)
        self._note_overwritten(trace_exit, program, inputs)
        result_types: list[Any] = []
        returned = program.interface.returned_results
        shapes = [t.shape for t in program.interface.results] if sized is None else sized.results
        results = [self._result_operand(shapes[i], t.dtype, result_types) if i in returned else
                   self.register(t) for i, t in enumerate(program.interface.results)]
        outputs = self._run(program, inputs, results)
        for i, (slot, node) in enumerate(zip(outputs, trace_exit.segment.outputs)):
            if slot.kind == "register":
                outputs[i] = self._copied_result(slot, node.type, result_types)
        self.assembler.add(Opcode.RET, len(self.exits))
        shaped = list(zip(outputs, program.interface.shapes if sized is None else sized.shapes))
        self.exits.append(_LoweredExit(trace_exit, shaped, numbers))

    def _copied_result(self, slot: ControlOperand, type: TensorType,
                       result_types: list[Any]) -> ControlOperand:
        """A result with the value of a register; flat and at its capacity if its size varies."""
        most = self.capacities.at_capacity(type)
        shape = (most.size,) if has_dynamic_sizes([type.shape]) else most.shape
        result = self._result_operand(shape, type.dtype, result_types)
        self.copy(result, slot, type)
        return result

    def _note_overwritten(self, trace_exit: TraceExit, program: Executable,
                          inputs: Sequence[ControlOperand]) -> None:
        """Notes the arrays that a path overwrites in its last program."""
        overwritten = {inputs[i] for i in program.interface.overwritten}
        if overwritten and trace_exit.exit_guards:
            self.checked_first.append(trace_exit)
        if any(inputs.count(slot) > 1 for slot in overwritten):
            raise NotNativelyControlled("an array that it overwrites is passed twice")
        self.overwritten |= {slot.number for slot in overwritten}

    def _result_operand(self, shape: tuple[Any, ...], dtype: Any,
                        result_types: list[Any]) -> ControlOperand:
        """An array for a result of a shape, in which sizes may vary; exits share arrays of equal
        type."""
        result_types.append((shape, dtype))
        results = self.assembler.results
        same_type = [i for i, kind in enumerate(results) if kind == (shape, dtype)]
        nth = result_types.count((shape, dtype))
        if len(same_type) < nth:
            same_type.append(len(results))
            results.append((shape, dtype))
        return ControlOperand("result", same_type[nth - 1])


def lower_control(root: Block, numbers: Mapping[Path, int], type_of: Callable[[Path], type],
                  sizes: Sequence[str] = ()) -> NativeControl | str:
    """The native control flow of a graph, whose tensors are at `numbers` among the arrays of a
    call; or the reason why there is none. `type_of`: the types of numbers of the arguments.
    `sizes`: the names of the sizes that a call knows."""
    try:
        if sum(1 for _ in walk(root)) > _MAX_BLOCKS:
            raise NotNativelyControlled("it has too many branches")
        executables = [s.executable for s in segments_of(root)
                       if isinstance(s.executable, DynamicExecutable)]
        written = _NativeLowering(numbers, type_of, Capacities(executables, sizes))
        written.lower_block(root, {})
        return NativeControl(written, sizes)
    except NotNativelyControlled as why:
        return str(why)


def _check_results(written: _NativeLowering) -> None:
    """Raises NotNativelyControlled if a call would allocate many results that only other paths
    need."""
    sizes = [bytes_of([written.capacities.at_capacity(TensorType(shape, dtype))])
             for shape, dtype in written.assembler.results]
    needed = [sum(sizes[s.number] for s in {s for s, _ in end.outputs} if s.kind == "result")
              for end in written.exits]
    if sum(sizes) - min(needed, default=0) > _MAX_UNUSED_RESULT_BYTES:
        raise NotNativelyControlled(f"its paths need {sum(sizes)} bytes of results together")


class _BoundSizes(NamedTuple):
    """What a call needs for one set of sizes: the extra arrays, with None for a number, functions
    that allocate the results, and the shapes of the outputs of each exit."""

    extra: list[Any]
    results: list[Callable[[], Any]]
    shapes: list[list[tuple[int, ...]]]


class NativeControl:
    """A control-flow tree as a native call, which several threads may make at once."""

    def __init__(self, written: _NativeLowering, sizes: Sequence[str]) -> None:
        _check_results(written)
        assembler, extra = written.assembler, written.extra
        self.arguments, self.sizes = [*extra.numbers], sizes
        arrays = extra.first + len(extra.makers)
        image = ControlImage(assembler, len(written.counted), arrays)
        if image.size > _MAX_ARENA_BYTES:
            raise NotNativelyControlled(f"{image.size} bytes pass between its graphs, "
                                        "where Python costs little")
        self.ends, self.first = [end.trace_exit for end in written.exits], written.checked_first
        self._extra, self._capacities, self._results = extra, written.capacities, assembler.results
        self._bound: dict[Sequence[int], _BoundSizes] = {}
        self._exits = written.exits
        self._arena_bytes = image.size
        self._counted = [(block, COUNTS + i) for i, block in enumerate(written.counted)]
        self._constants = assembler.constants
        self._outputs = [[image.address_index(slot) for slot, _ in end.outputs]
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
        programs = written.programs
        short = sum(p.program.cost for p in programs) < SHORT_NANOSECONDS

        def call(fresh: bool, keeps_lock: bool, overwritten: Sequence[int] = ()) -> LaunchFunction:
            descriptor = image.descriptor(fresh, SHORT_NANOSECONDS
                                          if keeps_lock else _SIGNAL_CHECK_NANOSECONDS)
            native_call = NativeCall("fusewire_control", address_of(descriptor), keeps_lock, arrays,
                                     len(assembler.results), overwritten)
            return launcher(native_call, assembler.constants,
                            keep_alive=(descriptor, image, programs))

        self._begin = call(True, short, self._overwritten)
        self._begin_on_copies = call(True, short)
        self._resume = call(False, False)

    def __call__(self, arrays: list[Any], section: Uninterrupted | None = None,
                 numbers: Sequence[Any] = (), sizes: Sequence[int] = ()
                 ) -> tuple[list[Any], int, dict[ScalarExpr, Any]]:
        """The outputs of the exit that the call reaches, its number, and its scalars; UNKNOWN for
        an outcome that has no trace, and for sizes without code. Nothing is overwritten before the
        exit: until then the `section` of the changes may handle signals."""
        bound = self._bound.get(sizes) or self._bind(sizes)
        if bound is None:
            return [], UNKNOWN, {}
        if bound.extra:
            own = self._extra.of_call(arrays, numbers)
            arrays += [next(own) if array is None else array for array in bound.extra]
        results = []
        for make in bound.results:  # a comprehension would cost a call
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
            numbers_of_exit = self._read_scalars(end, arena) \
                if end >= 0 and self._exit_scalars[end] else {}
        finally:
            self._arenas.append(memory_pair)
        if end in self._identity_exits:
            return results, end, numbers_of_exit
        everything = [*arrays, *self._constants, *results]
        return self._outputs_of(end, everything, bound), end, numbers_of_exit

    def _bind(self, sizes: Sequence[int]) -> _BoundSizes | None:
        """What calls of these sizes need; None if a program has no code for them."""
        named = dict(zip(self.sizes, sizes))
        if not self._capacities.have_room(named):
            return None
        if len(self._bound) >= _MAX_BOUND_SIZES:
            self._bound.clear()
        bound = self._bound[sizes] = _BoundSizes(
            [make and make(named) for make in self._extra.makers],
            [memory.maker(shape_at(shape, named), dtype) for shape, dtype in self._results],
            [[shape_at(shape, named) for _, shape in end.outputs] for end in self._exits])
        return bound

    def _outputs_of(self, end: int, everything: list[Any], bound: _BoundSizes) -> list[Any]:
        outputs = []
        for i, shape in zip(self._outputs[end], bound.shapes[end]) if end >= 0 else ():
            array, count = everything[i], math.prod(shape)
            if array.size != count:  # at its capacity
                array = array[:count]
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
