"""The ways through a tree as one native call: decisions and loops inside, no Python in between.

Programs of the tree's stages stay as they are; what is made here is a list of orders that says when
each runs, and on what memory (`llvm/ways.py`). What ends a way is computed into arrays, all else
lies in an arena. A value that no recorded way knows ends the call with nothing done.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...capture.heap.access_path import Path
from ...capture.program.cfg import BackEdge, Block, Branch, Exit, Loop
from ...capture.program.stage_planner import walk
from ...capture.program.trace_exit import TraceExit
from ...capture.scalars.scalar_expr import ScalarExpr
from ...capture.segments.segment import Segment
from ...eager.arrays import memory
from ...eager.uninterrupted import Uninterrupted
from ..llvm.control_vm import COUNTS, ENDED, UNFINISHED, UNKNOWN, Opcode
from ..program.executable import Executable
from ..program.kernel_stats import bytes_of
from ..program.native_call import SHORT_NANOSECONDS, Launch, NativeCall, launcher, make_ready
from ..runtime.cpython.data_pointers import aligned
from .assembler import (
    ControlAssembler,
    ControlImage,
    ControlOperand,
    NotNativelyControlled,
    address_of,
)
from .scalars import NUMBER, Known, ScalarArithmetic

_DEEPEST, _LARGEST = 40, 200  # places below each other, and all of them
_SPARE = 1 << 20  # bytes of results that a call may make in vain
_LARGE = 1 << 24  # bytes of an arena, which is kept from call to call
_LISTENING = 20_000_000  # nanoseconds of work after which Python may look who interrupts it


@dataclass
class _Carried:
    """A loop around the present place: its number, where it begins, what it carries, each with its
    bytes, and the first register that belongs to a turn."""

    number: int
    head: int
    phis: list[tuple[ControlOperand, int]]
    first: int


@dataclass
class _End:
    """The end of a way: its outputs, each with the shape that it is to have, and its numbers."""

    leaf: TraceExit
    outputs: list[tuple[ControlOperand, tuple[int, ...]]]
    numbers: dict[ScalarExpr, ControlOperand]


@dataclass
class _Writer:
    """Writes the orders for a tree. `numbers` are the places of its tensors among the arrays."""

    numbers: Mapping[Path, int]
    orders: ControlAssembler = field(default_factory=ControlAssembler)
    loops: list[Loop] = field(default_factory=list)
    ends: list[_End] = field(default_factory=list)
    overwritten: set[int] = field(default_factory=set)
    first: list[TraceExit] = field(default_factory=list)  # their conditions are checked first
    _around: list[_Carried] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counting = ScalarArithmetic(self.orders)

    def write(self, at: Block | None, known: Known, depth: int = 0) -> None:
        """The orders for a place and what is below; NotNative where something has none."""
        if depth > _DEEPEST:
            raise NotNativelyControlled("its branches are nested too deeply")
        if at is None or any(s.executable is None for s in at.stages):
            self.orders.add(Opcode.END, UNKNOWN)  # the long way compiles what is met first
            return
        for stage in at.stages:
            known = self._stage(stage, known)
        if isinstance(at, Branch):
            self._branch(at, known, depth)
        elif isinstance(at, Loop):
            self._loop(at, known, depth)
        elif isinstance(at, BackEdge):
            self._back(at, known)
        elif isinstance(at, Exit):
            self._end(at, known)
        else:
            raise NotNativelyControlled(f"{at.site} runs in Python")

    # ---- programs

    def _stage(self, stage: Segment, known: Known) -> Known:
        program, given = self._program(stage, known)
        results = [self.orders.register(bytes_of([t])) for t in program.interface.results]
        return {**known, **dict(zip(stage.wanted, self.orders.run(program, given, results)))}

    def _program(self, stage: Segment, known: Known) -> tuple[Executable, list[ControlOperand]]:
        """A stage's program, and where its inputs are."""
        program = stage.executable
        if type(program) is not Executable or program.interface.checks or program.interface.sizes:
            raise NotNativelyControlled("one of its graphs is not a native program of fixed sizes")
        given = [ControlOperand("array", self.numbers[p]) for p in stage.paths]
        for node in stage.inputs.numbers:
            number = self.counting.value(stage.names.numbers[node], known)
            given.append(self.counting.operand(number, node))
        return program, [*given, *(known[n] for n in stage.inputs.registers)]

    # ---- places

    def _branch(self, at: Branch, known: Known, depth: int) -> None:
        if at.kind != "bool":
            where = at.site or "a decision"
            raise NotNativelyControlled(f"{where} has more than two outcomes")
        subject, orders = at.subject, self.orders
        if isinstance(subject, ScalarExpr):
            slot = self.counting.value(subject, known)
            kind = self.counting.kinds[slot].dtype
        else:
            slot, kind = known[subject], subject.type.dtype
        jump = orders.add(Opcode.UNLESS, slot, kind.itemsize, _bits(kind), None)
        top = orders.top
        self.write(at.outcomes.get(True), known, depth + 1)
        jump[4] = len(orders)
        if not self._around:  # else registers exchange their memory
            orders.top = top
        self.write(at.outcomes.get(False), known, depth + 1)

    def _loop(self, at: Loop, known: Known, depth: int) -> None:
        orders, enter, first = self.orders, at.enter, len(self.orders.registers)
        numbers = [self.counting.value(f, known) for f in enter.formulas]
        values = [*(known[v] for v in enter.values), *numbers]
        sizes = [*[bytes_of([p.type]) for p in enter.phis], *[NUMBER] * len(numbers)]
        phis = [orders.register(size) for size in sizes]
        for phi, value, size in zip(phis, values, sizes):
            orders.copy(phi, value, size)
        self.counting.begin(phis[len(enter.phis):], numbers)
        carried = list(zip(phis, sizes))
        self._around.append(_Carried(len(self.loops), len(orders), carried, first))
        self.loops.append(at)
        inside = {**known, **dict(zip((*enter.phis, *enter.symbols), phis))}
        self.write(at.body, inside, depth + 1)
        self._around.pop()

    def _back(self, at: BackEdge, known: Known) -> None:
        if at.ways:
            raise NotNativelyControlled("gradients flow back through its iterations")
        number = self.loops.index(at.loop)
        loop = next(x for x in self._around if x.number == number)
        numbers = [self.counting.value(f, known) for f in at.formulas]
        self.counting.check(numbers, [phi for phi, _ in loop.phis[len(at.values):]])
        self._carry(loop, [*(known[v] for v in at.values), *numbers])
        self.orders.add(Opcode.TURN, loop.head, COUNTS + number)

    def _carry(self, loop: _Carried, values: Sequence[ControlOperand]) -> None:
        """Gives the phis their next values, all at once. What the turn itself has made changes
        places with them; what is from outside, or goes to several, is copied."""
        now: dict[ControlOperand,
                  ControlOperand] = {}  # where what was in a register has come to be
        given: set[ControlOperand] = set()
        copied = []
        for (phi, size), value in zip(loop.phis, values):
            if value in given or value.kind != "register" or value.number < loop.first:
                copied.append((phi, value, size))
                continue
            given.add(value)
            source = now.get(value, value)
            if source != phi:
                self.orders.add(Opcode.SWAP, phi, source)
                there = next((s for s, to in now.items() if to == phi), phi)
                now[there], now[value] = source, phi
        for phi, value, size in copied:
            self.orders.copy(phi, now.get(value, value), size)

    def _end(self, at: Exit, known: Known) -> None:
        leaf, *others = at.leaves
        if leaf.own and others:  # else the first one fits all calls that come here
            raise NotNativelyControlled("a path ends with guards that Python evaluates")
        if leaf.way is not None or leaf.stage is None:
            raise NotNativelyControlled("its results require gradients")
        if leaf.stage.executable is None:
            self.orders.add(Opcode.END, UNKNOWN)
            return
        numbers = {f: self.counting.kept(self.counting.value(f, known)) for f in leaf.formulas}
        program, given = self._program(leaf.stage, known)
        self._overwrite(leaf, program, given)
        made: list[Any] = []
        results = [self._result(t.shape, t.dtype, made) for t in program.interface.results]
        found = self.orders.run(program, given, results)
        for i, (slot, node) in enumerate(zip(found, leaf.stage.wanted)):
            if slot.kind == "register":
                found[i] = self._result(node.type.shape, node.type.dtype, made)
                self.orders.copy(found[i], slot, bytes_of([node.type]))
        self.orders.add(Opcode.END, len(self.ends))
        self.ends.append(_End(leaf, list(zip(found, program.interface.shapes)), numbers))

    def _overwrite(self, leaf: TraceExit, program: Executable,
                   given: Sequence[ControlOperand]) -> None:
        """Notes which arrays a way writes over in its last program."""
        over = {given[i] for i in program.interface.overwritten}
        if over and leaf.own:
            self.first.append(leaf)
        if any(given.count(slot) > 1 for slot in over):
            raise NotNativelyControlled("an array that it overwrites is passed twice")
        self.overwritten |= {slot.number for slot in over}

    def _result(self, shape: tuple[int, ...], dtype: Any, made: list[Any]) -> ControlOperand:
        """An array for a result: one that other ends have, where there is one that is left."""
        made.append((shape, dtype))
        results = self.orders.results
        having = [i for i, kind in enumerate(results) if kind == (shape, dtype)]
        nth = made.count((shape, dtype))
        if len(having) < nth:
            having.append(len(results))
            results.append((shape, dtype))
        return ControlOperand("result", having[nth - 1])


def lower_control(root: Block, numbers: Mapping[Path, int]) -> NativeControl | str:
    """The ways through a tree, whose tensors are at `numbers` among the arrays of a call; or why
    they are not gone by native code."""
    try:
        if sum(1 for _ in walk(root)) > _LARGEST:
            raise NotNativelyControlled("it has too many branches")
        written = _Writer(numbers)
        written.write(root, {})
        return NativeControl(written, sum(n >= 0 for n in numbers.values()))
    except NotNativelyControlled as why:
        return str(why)


def _check_results(written: _Writer) -> None:
    """NotNative where a call would make much that it does not need: results of other ways."""
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in written.orders.results]
    needed = [sum(sizes[s.number] for s in {s for s, _ in end.outputs} if s.kind == "result")
              for end in written.ends]
    if sum(sizes) - min(needed, default=0) > _SPARE:
        raise NotNativelyControlled(f"its paths need {sum(sizes)} bytes of results together")


class NativeControl:
    """A tree that native code goes through. Calls may come from several threads at once."""

    def __init__(self, written: _Writer, arrays: int) -> None:
        _check_results(written)
        orders = written.orders
        tree = ControlImage(orders, len(written.loops), arrays)
        if tree.size > _LARGE:
            raise NotNativelyControlled(f"{tree.size} bytes pass between its graphs, "
                                        "where Python costs little")
        self.ends, self.first = [end.leaf for end in written.ends], written.first
        self._size = tree.size
        self._loops = [(loop, COUNTS + i) for i, loop in enumerate(written.loops)]
        self._constants = orders.constants
        self._results = [memory.maker(shape, dtype) for shape, dtype in orders.results]
        self._outputs = [[(tree.number(slot), shape) for slot, shape in end.outputs]
                         for end in written.ends]
        made = [(ControlOperand("result", i), shape) for i, (shape, _) in enumerate(orders.results)]
        self._straight = {i for i, end in enumerate(written.ends) if end.outputs == made}
        kinds = written.counting.kinds
        self._numbers = [[(formula, tree.place(slot), kinds[slot].view, kinds[slot].type)
                          for formula, slot in end.numbers.items()] for end in written.ends]
        self._overwritten = sorted(written.overwritten)
        self._arenas: list[Any] = []
        short = sum(p.program.cost for p in orders.programs) < SHORT_NANOSECONDS

        def call(fresh: bool, keeps_lock: bool, overwritten: Sequence[int] = ()) -> Launch:
            words = tree.words(fresh, SHORT_NANOSECONDS if keeps_lock else _LISTENING)
            about = NativeCall("fusewire_ways", address_of(words), keeps_lock, arrays,
                               len(orders.results), overwritten)
            return launcher(about, orders.constants, kept=(words, tree, orders.programs))

        self._begin = call(True, short, self._overwritten)
        self._begin_with_own = call(True, short)
        self._go_on = call(False, False)

    def __call__(self, arrays: list[Any], section: Uninterrupted | None = None
                 ) -> tuple[list[Any], int, dict[ScalarExpr, Any]]:
        """What the call's way ends with, the number of that end, and its numbers; UNKNOWN where it
        leads to what was not recorded. Until it ends, nothing is written over: the section that
        its changes belong to may listen to signals."""
        results = []
        for make in self._results:  # a comprehension would cost a call
            results.append(make())
        own = self._take_arena()
        arena, words = own
        try:
            if not self._begin(arrays, results, arena):
                make_ready(arrays, self._overwritten)
                self._begin_with_own(arrays, results, arena)
            while words[ENDED] == UNFINISHED:  # Python looks for signals in between
                if section is not None:
                    section.listen()
                self._go_on(arrays, results, arena)
            end = words[ENDED]
            for loop, word in self._loops:
                loop.turns += words[word]
            numbers = self._read(end, arena) if end >= 0 and self._numbers[end] else {}
        finally:
            self._arenas.append(own)
        if end in self._straight:
            return results, end, numbers
        return self._found(end, [*arrays, *self._constants, *results]), end, numbers

    def _found(self, end: int, everything: list[Any]) -> list[Any]:
        found = []
        for i, shape in self._outputs[end] if end >= 0 else ():
            array = everything[i]
            found.append(array if array.shape == shape else array.reshape(shape))
        return found

    def _read(self, end: int, arena: Any) -> dict[ScalarExpr, Any]:
        """The numbers of an end, as Python's."""
        return {formula: kind(struct.unpack_from(view, arena, place)[0])
                for formula, place, view, kind in self._numbers[end]}

    def _take_arena(self) -> Any:
        try:
            return self._arenas.pop()
        except IndexError:
            arena = aligned(self._size)
            return arena, memoryview(arena[:8 * (COUNTS + len(self._loops))]).cast("q")


def _bits(kind: Any) -> int:
    """The bits of eight bytes that make a scalar true: all but the sign of a float, whose -0.0 is
    as false as 0.0."""
    if kind.kind in "biu":
        return -1
    size = kind.itemsize // (2 if kind.kind == "c" else 1)
    return int.from_bytes((b"\xff" * (size - 1) + b"\x7f") * (8 // size), "little", signed=True)
