"""Lowers the control-flow tree of a function to instructions of the control VM in a library.

The arrays of a call are its inputs, the weights, the dynamic sizes and the outputs. Sizes that are
known only in the call are scalars of the VM, as Python's numbers are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...capture.cfg.ir import Block, Exit
from ...capture.graph.graph import Node
from ...capture.scalars.scalar_expr import ScalarExpr, elements
from ...capture.segments.segment import Segment
from ...capture.sizes.size_expr import Atom, SizeExpr, SizeSymbol
from ...codegen.control_vm.assembler import (
    ControlAssembler,
    ControlImage,
    ControlOperand,
    NotNativelyControlled,
)
from ...codegen.control_vm.lower import ControlLowering
from ...codegen.control_vm.scalar_arithmetic import LiveValues, ScalarArithmetic
from ...codegen.llvm.control_vm import Opcode, rule_of
from ...eager.arrays.shapes import TensorType
from ...eager.errors import ExportError
from .abi import Code
from .program import IndexCheck, SegmentProgram
from .recording import Recording
from .sizes import SizeFormula, SizeRanges

_INT64 = np.dtype(np.int64)


def lowered(recording: Recording, sizes: SizeRanges,
            program: Callable[[Segment], tuple[str, SegmentProgram]]
            ) -> tuple[ControlImage, list[Any]]:
    """The control image of a function for these sizes, and the constants that it reads. `program`:
    the symbol and the program of a segment. ExportError for what the VM has no instruction for."""
    lowering = _LibraryLowering(recording, sizes, program)
    try:
        lowering.lower_block(recording.root, {})
    except NotNativelyControlled as why:
        raise _error(lowering.site, str(why)) from None
    arrays = len(recording.inputs) + 2 + len(recording.outputs)
    return ControlImage(lowering.assembler, len(lowering.counted), arrays), \
        lowering.assembler.constants


def _error(site: str, why: str) -> ExportError:
    error = ExportError(f"aot.build: no code for the control flow: {why}",
                        "compute with tensors, not with Python numbers" if "number" in why else
                        "write it by fewer branches, or with fw.where(condition, x, y)")
    error.line = site
    return error


class _Arithmetic(ScalarArithmetic):
    """Computes scalars of a library: Python numbers and sizes."""

    def __init__(self, assembler: ControlAssembler, sizes: SizeRanges, array: ControlOperand
                 ) -> None:
        """array: the int64 array of the dynamic sizes."""
        super().__init__(assembler)
        self._sizes, self._array = sizes, array

    def value(self, formula: ScalarExpr, live: LiveValues) -> ControlOperand:
        try:
            return super().value(formula, live)
        except NotNativelyControlled as why:
            sites = [node.site for node in elements([formula]) if node.site]
            if not sites:
                raise
            raise _error(sites[-1], str(why)) from None

    def size(self, size: SizeExpr) -> ControlOperand:
        if self._sizes.fixed or size.number is not None:
            return self.constant(size.value(self._sizes.largest))
        total: ControlOperand | None = None
        for atoms, factor in size.terms:
            product = self.constant(factor)
            for atom, power in atoms:
                for _ in range(power):
                    product = self.compute("mul", product, self._atom(atom))
            total = product if total is None else self.compute("add", total, product)
        assert total is not None
        return total

    def _atom(self, atom: Atom) -> ControlOperand:
        if isinstance(atom, SizeSymbol):
            return self._dynamic_size(self._sizes.names.index(atom.name))
        return self.compute("floordiv", self.size(atom.num), self.size(atom.den))

    def _dynamic_size(self, number: int) -> ControlOperand:
        slot = self.assembler.register(8)
        self.assembler.copy(slot, self._array, 8, 8 * number)
        return self.element(slot, _INT64)

    def product(self, factor: int, shape: Sequence[SizeFormula]) -> int | ControlOperand:
        """A factor times all sizes of a shape; an operand if it is known only in the call."""
        result: ControlOperand | None = None
        for formula in shape:
            if not formula.sizes:
                factor *= formula.value(())
                continue
            size = self.constant(formula.factor)
            for number in formula.sizes:
                size = self.compute("mul", size, self._dynamic_size(number))
            size = self.compute("add", size, self.constant(formula.offset))
            result = size if result is None else self.compute("mul", result, size)
        return factor if result is None else self.compute("mul", self.constant(factor), result)


class _LibraryLowering(ControlLowering):
    """Lowers the tree of a recording. `site`: the line of the block that is being lowered."""

    max_depth = 200

    def __init__(self, recording: Recording, sizes: SizeRanges,
                 program: Callable[[Segment], tuple[str, SegmentProgram]]) -> None:
        self.recording, self.sizes, self._program_of = recording, sizes, program
        self.inputs: Mapping[Node, ControlOperand] = {
            node: ControlOperand("array", i) for i, node in enumerate(recording.inputs)}
        first = len(recording.inputs)
        self.weights, self.size_array = (ControlOperand("array", first + i) for i in range(2))
        self.outputs = [ControlOperand("array", first + 2 + j)
                        for j in range(len(recording.outputs))]
        self.site = ""
        assembler = ControlAssembler()
        super().__init__(assembler, _Arithmetic(assembler, sizes, self.size_array))
        self._sized: _Arithmetic = self.arithmetic  # type: ignore[assignment]

    def is_known(self, block: Block | None) -> bool:
        self.site = block.site or self.site if block is not None else self.site
        return block is not None

    def lower_unknown(self) -> None:
        raise NotNativelyControlled("one of its paths was not recorded")

    def register(self, type: TensorType) -> ControlOperand:
        return self.assembler.register(self.sizes.most_bytes(type))

    def copy(self, target: ControlOperand, source: ControlOperand, type: TensorType,
             offset: int = 0) -> None:
        size = self._sized.product(type.dtype.itemsize, self.sizes.shape(type.shape))
        if isinstance(size, int):
            self.assembler.copy(target, source, size, offset)
        else:
            self.assembler.add(Opcode.COPY_COUNTED, target, source, size, offset)

    def lower_segment(self, segment: Segment, live: LiveValues) -> LiveValues:
        return {**live, **dict(zip(segment.outputs, self._run(segment, live, ())))}

    def exit(self, exit_block: Exit, live: LiveValues, depth: int) -> None:
        trace_exit = exit_block.exits[0]  # further ones are those of other examples
        assert trace_exit.segment is not None
        results = self._run(trace_exit.segment, live, self.outputs)
        states = self.recording.state_nodes
        new_states = list(zip(states, results[len(self.outputs):]))
        for i, (node, value) in enumerate(new_states):
            if value.kind == "array" and value != self.inputs[node]:  # of another generator
                new_states[i] = node, self.register(node.type)
                self.copy(new_states[i][1], value, node.type)
        for node, value in new_states:
            if value != self.inputs[node]:
                self.copy(self.inputs[node], value, node.type)
        self.assembler.add(Opcode.RET, Code.OK)

    def _run(self, segment: Segment, live: LiveValues, targets: Sequence[ControlOperand]
             ) -> list[ControlOperand]:
        """Writes the run of a segment; returns the operands of its outputs. The first ones are
        computed into `targets`, the others into registers."""
        symbol, program = self._program_of(segment)
        types = [node.type for node in segment.outputs]
        copied = {copy.output for copy in program.copies}
        outputs = [targets[j] if j < len(targets) else self.size_array if j in copied
                   else self.register(type) for j, type in enumerate(types)]
        table = [*self._inputs(segment, live), self.weights, self.size_array, *outputs,
                 *map(self.assembler.register, program.unreturned)]
        self._check(program.before, table)
        if program.written.kernels:
            self.assembler.run(symbol, table, program.arena)
        self._check(program.after, table)
        for copy in program.copies:
            source, j = table[copy.entry], copy.output
            if j >= len(targets):
                if source != self.weights:
                    outputs[j] = source
                    continue
                outputs[j] = self.register(types[j])
            self.copy(outputs[j], source, types[j], copy.offset)
        return outputs

    def _inputs(self, segment: Segment, live: LiveValues) -> list[ControlOperand]:
        """The operands of the inputs of a segment, without its weights."""
        inputs = [self.inputs[n] for n in segment.inputs.tensors if n in self.inputs]
        for node in segment.inputs.numbers:
            number = self.arithmetic.value(self.recording.names.numbers[node], live)
            inputs.append(self.arithmetic.operand(number, node))
        return [*inputs, *(live[n] for n in segment.inputs.registers)]

    def _check(self, checks: Sequence[IndexCheck], table: Sequence[ControlOperand]) -> None:
        """Writes checks that end the call if an index is out of range."""
        for check in checks:
            count = self._sized.product(1, check.shape)
            number = self._sized.constant(count) if isinstance(count, int) else count
            rule = self.assembler.constant(
                np.array(rule_of(check.dtype, check.low, check.stop), _INT64))
            self.assembler.add(Opcode.CHECK, table[check.entry], number, rule, Code.INDEX)
