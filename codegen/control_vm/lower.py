"""Lowers the control-flow tree of a traced function to instructions of the control VM.

The programs of the segments are compiled separately; the instructions (`llvm/control_vm.py`) say
when each runs, and on which memory. Values that later blocks read lie in registers of an arena.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...capture.cfg.ir import BackEdge, Block, Branch, IfMerge, LoopHeader, Yield
from ...capture.cfg.visitor import Visitor
from ...capture.scalars.scalar_expr import ScalarExpr
from ...capture.segments.segment import Segment
from ...eager.arrays.shapes import TensorType
from ..llvm.control_vm import COUNTS, Opcode
from .assembler import ControlAssembler, ControlOperand, NotNativelyControlled
from .scalar_arithmetic import SCALAR, LiveValues, ScalarArithmetic

Phi = tuple[ControlOperand, TensorType]


@dataclass
class _LoopContext:
    """An enclosing loop: its number, the index of its header, its phis with their types, and the
    first register that belongs to an iteration."""

    number: int
    head_index: int
    phis: list[Phi]
    first_register: int


@dataclass
class _MergeContext:
    """An enclosing branch whose paths merge: its phis with their types, the first register that
    belongs to a path, the numbers that the first path merges, and the jumps behind the merge."""

    block: IfMerge
    phis: list[Phi]
    first_register: int
    numbers: list[ControlOperand] = field(default_factory=list)
    jumps: list[list[Any]] = field(default_factory=list)


class ControlLowering(Visitor[None]):
    """Writes the instructions of a tree. Subclasses know where values lie and how programs run."""

    max_depth = 40  # of nested blocks

    def __init__(self, assembler: ControlAssembler, arithmetic: ScalarArithmetic) -> None:
        self.assembler, self.arithmetic = assembler, arithmetic
        self.counted: list[LoopHeader | Yield] = []  # with a word for each count
        self._open_loops: list[_LoopContext] = []
        self._merges: list[_MergeContext] = []

    @abstractmethod
    def is_known(self, block: Block | None) -> bool:
        """True if a call can continue in a block: it has a trace and all its code."""

    @abstractmethod
    def lower_unknown(self) -> None:
        """Writes the end of calls that would continue in a block that is not known."""

    @abstractmethod
    def lower_segment(self, segment: Segment, live: LiveValues) -> LiveValues:
        """Writes the run of a segment; returns the live values after it."""

    @abstractmethod
    def register(self, type: TensorType) -> ControlOperand:
        """A new register for a value."""

    @abstractmethod
    def copy(self, target: ControlOperand, source: ControlOperand, type: TensorType) -> None:
        """Writes a copy of a value."""

    def lower_block(self, block: Block | None, live: LiveValues, depth: int = 0) -> None:
        """Writes a block and all blocks below it. Raises NotNativelyControlled if one is
        unsupported."""
        if depth > self.max_depth:
            raise NotNativelyControlled("its branches are nested too deeply")
        if block is None or not self.is_known(block):
            self.lower_unknown()
            return
        for segment in block.segments:
            live = self.lower_segment(segment, live)
        self.visit(block, live, depth)

    def other(self, block: Block, live: LiveValues, depth: int) -> None:
        raise NotNativelyControlled(f"{block.site} runs in Python")

    def branch(self, branch: Branch, live: LiveValues, depth: int) -> None:
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

    def loop_header(self, loop: LoopHeader, live: LiveValues, depth: int) -> None:
        assembler, first = self.assembler, len(self.assembler.registers)
        numbers = [self.arithmetic.value(f, live) for f in loop.formulas]
        values = [*(live[v] for v in loop.values), *numbers]
        types = [*(p.type for p in loop.phis), *[SCALAR] * len(numbers)]
        phis = list(map(self.register, types))
        for phi, value, type in zip(phis, values, types):
            self.copy(phi, value, type)
        self.arithmetic.bind_phis(phis[len(loop.phis):], numbers)
        carried = list(zip(phis, types))
        self._open_loops.append(_LoopContext(len(self.counted), len(assembler), carried, first))
        self.counted.append(loop)
        inside = {**live, **dict(zip((*loop.phis, *loop.symbols), phis))}
        self.lower_block(loop.body, inside, depth + 1)
        self._open_loops.pop()

    def back_edge(self, edge: BackEdge, live: LiveValues, depth: int) -> None:
        if edge.vjps:
            raise NotNativelyControlled("it has a backward through its iterations")
        number = self.counted.index(edge.target)
        loop = next(x for x in self._open_loops if x.number == number)
        numbers = [self.arithmetic.value(f, live) for f in edge.formulas]
        self.arithmetic.check_phi_kinds(numbers, [phi for phi, _ in loop.phis[len(edge.values):]])
        self._assign_phis(loop, [*(live[v] for v in edge.values), *numbers])
        self.assembler.add(Opcode.LOOP, loop.head_index, COUNTS + number)

    def if_merge(self, block: IfMerge, live: LiveValues, depth: int) -> None:
        """Writes the paths of a branch one after the other, and then the code behind the merge,
        to which each of them jumps."""
        assembler = self.assembler
        types = [*(p.type for p in block.phis), *[SCALAR] * len(block.symbols)]
        phis = list(map(self.register, types))
        merge = _MergeContext(block, list(zip(phis, types)), len(assembler.registers))
        self._merges.append(merge)
        self.lower_block(block.body, live, depth + 1)
        self._merges.pop()
        for jump in merge.jumps:
            jump[1] = len(assembler)
        if merge.jumps:
            self.arithmetic.bind_phis(phis[len(block.phis):], merge.numbers)
            behind = {**live, **dict(zip((*block.phis, *block.symbols), phis))}
            self.lower_block(block.continuation, behind, depth)

    def yield_values(self, block: Yield, live: LiveValues, depth: int) -> None:
        merge = next(m for m in self._merges if m.block is block.target)
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
        for (phi, type), value in zip(target.phis, values):
            invariant = value.kind != "register" or value.number < target.first_register
            if value in swapped_values or invariant:
                copied.append((phi, value, type))
                continue
            swapped_values.add(value)
            source = moved.get(value, value)
            if source != phi:
                self.assembler.add(Opcode.SWAP, phi, source)
                displaced = next((s for s, to in moved.items() if to == phi), phi)
                moved[displaced], moved[value] = source, phi
        for phi, value, type in copied:
            self.copy(phi, moved.get(value, value), type)


def _truth_mask(kind: Any) -> int:
    """The bits of eight bytes that make a scalar true: all but the sign of a float, since -0.0 is
    false."""
    if kind.kind in "biu":
        return -1
    size = kind.itemsize // (2 if kind.kind == "c" else 1)
    return int.from_bytes((b"\xff" * (size - 1) + b"\x7f") * (8 // size), "little", signed=True)
