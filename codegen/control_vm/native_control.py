"""Makes the control flow of a traced function one native call, without Python between its programs.

Results are computed into arrays, other values lie in an arena. A branch outcome that has no trace
ends the call with no effects.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...capture.cfg.ir import Block, Exit, walk
from ...capture.cfg.trace_exit import TraceExit
from ...capture.heap.access_path import Path
from ...capture.passes.bounds_checks import BoundsCheck
from ...capture.scalars.scalar_expr import ScalarExpr
from ...capture.segments.segment import Segment
from ...eager.arrays import memory
from ...eager.arrays.shapes import TensorType
from ...eager.uninterrupted import Uninterrupted
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
from ..runtime.cpython.data_pointers import aligned
from .assembler import (
    ControlAssembler,
    ControlImage,
    ControlOperand,
    NotNativelyControlled,
    address_of,
)
from .lower import ControlLowering
from .scalar_arithmetic import LiveValues, ScalarArithmetic

_MAX_BLOCKS = 400
_MAX_UNUSED_RESULT_BYTES = 1 << 20  # of results of other paths, which a call allocates in vain
_MAX_ARENA_BYTES = 1 << 24  # of an arena, which persists from call to call
_MAX_COPY_BYTES = 1 << 18  # larger values are swapped, never copied
_SIGNAL_CHECK_NANOSECONDS = 20_000_000  # of work, after which Python may handle signals
NUMBER_DTYPES = {int: np.dtype(np.int64), float: np.dtype(np.float64)}
_DISPATCH_NANOSECONDS = 50  # at least, to go from one program to the next


@dataclass
class _LoweredExit:
    """An exit of the graph: its outputs with their shapes, and its scalars."""

    trace_exit: TraceExit
    outputs: list[tuple[ControlOperand, tuple[int, ...]]]
    scalars: dict[ScalarExpr, ControlOperand]


class _Arithmetic(ScalarArithmetic):
    """Computes with numbers of the arguments as well, each in an array behind those of the call."""

    def __init__(self, assembler: ControlAssembler, arrays: int,
                 type_of: Callable[[Path], type]) -> None:
        """arrays: the number of arrays of tensors. type_of: the guarded type of a number."""
        super().__init__(assembler)
        self.arguments: dict[Path, np.dtype[Any]] = {}  # with the dtypes of their arrays
        self._arrays, self._type_of = arrays, type_of

    def argument(self, path: Path) -> ControlOperand:
        kind = self._type_of(path)
        if kind not in NUMBER_DTYPES:
            raise NotNativelyControlled(f"it computes with a {kind.__name__} of the arguments")
        dtype = self.arguments.setdefault(path, NUMBER_DTYPES[kind])
        return self.element(ControlOperand("array", self._arrays + [*self.arguments].index(path)),
                            dtype)


class _NativeLowering(ControlLowering):
    """Lowers a tree whose programs are in this process."""

    arithmetic: _Arithmetic

    def __init__(self, array_numbers: Mapping[Path, int], type_of: Callable[[Path], type]) -> None:
        """array_numbers: the numbers of the tree's tensors among the arrays of a call."""
        assembler = ControlAssembler()
        arrays = sum(n >= 0 for n in array_numbers.values())
        super().__init__(assembler, _Arithmetic(assembler, arrays, type_of))
        self.arrays = arrays
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
        return self.assembler.register(bytes_of([type]))

    def copy(self, target: ControlOperand, source: ControlOperand, type: TensorType) -> None:
        size = bytes_of([type])
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
        program = segment.executable
        if type(program) is not Executable or program.interface.sizes:
            raise NotNativelyControlled("one of its graphs is not a native program of fixed sizes")
        if program.interface.output_checks and program.interface.overwritten:
            raise NotNativelyControlled("an input is overwritten before indices are checked")
        inputs = [ControlOperand("array", self.array_numbers[p]) for p in segment.paths]
        for node in segment.inputs.numbers:
            number = self.arithmetic.value(segment.names.numbers[node], live)
            inputs.append(self.arithmetic.operand(number, node))
        return program, [*inputs, *(live[n] for n in segment.inputs.registers)]

    def _run(self, program: Executable, inputs: Sequence[ControlOperand],
             results: Sequence[ControlOperand]) -> list[ControlOperand]:
        """Writes the run of a program and its checks; returns the operands of its outputs."""
        interface, native = program.interface, program.program
        table = [*inputs, *map(self.assembler.constant, interface.constants), *results]
        for i, check in interface.input_checks:
            self._check(table[i], interface.inputs[i], check)
        if native.steps:
            cost = _DISPATCH_NANOSECONDS + round(min(native.cost, 1e15))
            self.assembler.run(native.address, table, program.arena, cost)
            self.programs.append(program)
        outputs = [table[i] for i in interface.outputs]
        for check in interface.output_checks:
            self._check(outputs[check.output], interface.type_of_output(check.output), check)
        return outputs

    def _check(self, indices: ControlOperand, type: TensorType, check: BoundsCheck) -> None:
        """Writes a check that leaves the call to the slow path if an index is out of range."""
        fixed = check.at({})
        rule = np.array(rule_of(type.dtype, fixed.low, fixed.size), np.int64)
        self.assembler.add(Opcode.CHECK, indices,
                           self.assembler.constant(np.array(type.size, np.int64)),
                           self.assembler.constant(rule), UNKNOWN)

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
        self._note_overwritten(trace_exit, program, inputs)
        result_types: list[Any] = []
        returned = program.interface.returned_results
        results = [self._result_operand(t.shape, t.dtype, result_types) if i in returned else
                   self.register(t) for i, t in enumerate(program.interface.results)]
        outputs = self._run(program, inputs, results)
        for i, (slot, node) in enumerate(zip(outputs, trace_exit.segment.outputs)):
            if slot.kind == "register":
                outputs[i] = self._result_operand(node.type.shape, node.type.dtype, result_types)
                self.copy(outputs[i], slot, node.type)
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


def lower_control(root: Block, numbers: Mapping[Path, int],
                  type_of: Callable[[Path], type]) -> NativeControl | str:
    """The native control flow of a graph, whose tensors are at `numbers` among the arrays of a
    call; or the reason why there is none. `type_of`: the types of numbers of the arguments."""
    try:
        if sum(1 for _ in walk(root)) > _MAX_BLOCKS:
            raise NotNativelyControlled("it has too many branches")
        written = _NativeLowering(numbers, type_of)
        written.lower_block(root, {})
        return NativeControl(written)
    except NotNativelyControlled as why:
        return str(why)


def _check_results(written: _NativeLowering) -> None:
    """Raises NotNativelyControlled if a call would allocate many results that only other paths
    need."""
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in written.assembler.results]
    needed = [sum(sizes[s.number] for s in {s for s, _ in end.outputs} if s.kind == "result")
              for end in written.exits]
    if sum(sizes) - min(needed, default=0) > _MAX_UNUSED_RESULT_BYTES:
        raise NotNativelyControlled(f"its paths need {sum(sizes)} bytes of results together")


class NativeControl:
    """A control-flow tree as a native call, which several threads may make at once."""

    def __init__(self, written: _NativeLowering) -> None:
        _check_results(written)
        assembler, self.arguments = written.assembler, written.arithmetic.arguments
        arrays = written.arrays + len(self.arguments)
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
