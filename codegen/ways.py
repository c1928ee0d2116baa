"""The ways through a tree as one native call: decisions and loops inside, no Python in between.

Programs of the tree's stages stay as they are; what is made here is a list of orders that says when
each runs, and on what memory (`llvm/ways.py`). What ends a way is computed into arrays, all else
lies in an arena. A value that no recorded way knows ends the call with nothing done.
"""

from __future__ import annotations

import array
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..capture.graph import Node
from ..capture.leaf import Leaf
from ..capture.paths import Path
from ..capture.planning import walk
from ..capture.stage import Stage
from ..capture.tree import Back, Branch, Ends, Loop, Place
from ..eager import memory
from .address import aligned
from .calling import SHORT_NANOSECONDS, Call, Launch, launcher, make_ready
from .executable import Executable
from .llvm.ways import COUNTS, ENDED, UNFINISHED, Order

UNKNOWN = -1  # the end of a call that takes a way which was not recorded
_DEEPEST, _LARGEST = 40, 200  # places below each other, and all of them
_COPIED = 1 << 18  # bytes: whatever is larger is not copied from one place to another
_SPARE = 1 << 20  # bytes of results that a call may make in vain
_LARGE = 1 << 24  # bytes of an arena, which is kept from call to call
_TURN_NANOSECONDS = 50  # what it takes to go from one program to the next, at least
_LISTENING = 20_000_000  # nanoseconds of work after which Python may look who interrupts it
_LINE = 64


class Slot(NamedTuple):
    """Where a value is: the array of a number, a constant, a result, or a register."""

    kind: str
    number: int


class NotNative(Exception):
    """Why the ways of a tree are no native call."""


Known = Mapping[Node, Slot]


@dataclass
class _Carried:
    """A loop around the present place: its number, its phis, and its first register."""

    number: int
    head: int
    phis: list[Slot]
    first: int


@dataclass
class _End:
    """The end of a way: its outputs, each with the shape that it is to have."""

    leaf: Leaf
    outputs: list[tuple[Slot, tuple[int, ...]]]


@dataclass
class _Writer:
    """Writes the orders for a tree. `numbers` are the places of its tensors among the arrays."""

    numbers: Mapping[Path, int]
    orders: list[list[Any]] = field(default_factory=list)
    lists: list[Slot] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)  # types of arrays; ends of one type share them
    registers: list[tuple[int, int]] = field(default_factory=list)  # where they are, and bytes
    loops: list[Loop] = field(default_factory=list)
    ends: list[_End] = field(default_factory=list)
    overwritten: set[int] = field(default_factory=set)
    programs: list[Executable] = field(default_factory=list)
    arena: int = 0  # bytes of all registers
    _top: int = 0  # where the next register may begin
    _around: list[_Carried] = field(default_factory=list)

    def write(self, at: Place | None, known: Known, depth: int = 0) -> None:
        """The orders for a place and what is below; NotNative where something has none."""
        if depth > _DEEPEST:
            raise NotNative("its decisions are too many below each other")
        ready = at is not None and all(s.executable is not None for s in at.stages)
        if at is None or not ready:  # the long way compiles what is met for the first time
            self._order(Order.END, UNKNOWN)
            return
        for stage in at.stages:
            known = self._stage(stage, known)
        if isinstance(at, Branch):
            self._branch(at, known, depth)
        elif isinstance(at, Loop):
            self._loop(at, known, depth)
        elif isinstance(at, Back):
            self._back(at, known)
        elif isinstance(at, Ends):
            self._end(at, known)
        else:
            raise NotNative(f"{at.site} is done by Python")

    def _order(self, what: Order, *words: Any) -> list[Any]:
        order = [what, *words, *[0] * (4 - len(words))]
        self.orders.append(order)
        return order

    # ---- programs

    def _stage(self, stage: Stage, known: Known) -> Known:
        program, given = self._program(stage, known)
        results = [self._register(_bytes(n)) for n in program.plan.results]
        return {**known, **dict(zip(stage.wanted, self._run(program, given, results)))}

    def _program(self, stage: Stage, known: Known) -> tuple[Executable, list[Slot]]:
        """A stage's program, and where its inputs are."""
        program = stage.executable
        if type(program) is not Executable or program.plan.checks:
            raise NotNative("a part of it is no plain native program of fixed sizes")
        if stage.inputs.numbers:
            raise NotNative("it computes with plain numbers that differ")
        given = [Slot("array", self.numbers[p]) for p in stage.paths]
        return program, [*given, *(known[n] for n in stage.inputs.registers)]

    def _run(self, program: Executable, given: Sequence[Slot], results: Sequence[Slot]
             ) -> list[Slot]:
        """Runs a program; where its outputs are."""
        constants, outputs, _ = program.table
        table = [*given, *map(self._constant, constants), *results]
        if program.kernels:
            cost = _TURN_NANOSECONDS + round(min(sum(k.cost for k in program.kernels), 1e15))
            self._order(Order.RUN, program.program.address, len(self.lists), len(table), cost)
            self.lists += table
            self.programs.append(program)
        return [table[i] for i in outputs]

    def _constant(self, array: Any) -> Slot:
        self.constants.append(array)
        return Slot("constant", len(self.constants) - 1)

    def _register(self, size: int) -> Slot:
        self.registers.append((self._top, size))
        self._top += _padded(size)
        self.arena = max(self.arena, self._top)
        return Slot("register", len(self.registers) - 1)

    def _copy(self, target: Slot, source: Slot, size: int) -> None:
        if size > _COPIED:
            raise NotNative(f"{size} bytes would be copied from one place to another")
        self._order(Order.COPY, target, source, size)

    # ---- places

    def _branch(self, at: Branch, known: Known, depth: int) -> None:
        subject = at.subject
        if not isinstance(subject, Node) or at.kind != "bool":
            raise NotNative(f"{at.site or 'a decision'} asks for a plain number")
        kind = subject.type.dtype
        jump = self._order(Order.UNLESS, known[subject], kind.itemsize, _bits(kind), None)
        top = self._top
        self.write(at.outcomes.get(True), known, depth + 1)
        jump[4] = len(self.orders)
        if not self._around:  # else registers exchange their memory
            self._top = top
        self.write(at.outcomes.get(False), known, depth + 1)

    def _loop(self, at: Loop, known: Known, depth: int) -> None:
        enter = at.enter
        if enter.symbols:
            raise NotNative(f"{at.site} begins a loop that carries plain numbers")
        first = len(self.registers)
        phis = [self._register(_bytes(p)) for p in enter.phis]
        for slot, value, phi in zip(phis, enter.values, enter.phis):
            self._copy(slot, known[value], _bytes(phi))
        self._around.append(_Carried(len(self.loops), len(self.orders), phis, first))
        self.loops.append(at)
        self.write(at.body, {**known, **dict(zip(enter.phis, phis))}, depth + 1)
        self._around.pop()

    def _back(self, at: Back, known: Known) -> None:
        if at.ways:
            raise NotNative("gradients go back through its turns")
        number = self.loops.index(at.loop)
        loop = next(x for x in self._around if x.number == number)
        self._carry(loop, [known[v] for v in at.values], at.values)
        self._order(Order.TURN, loop.head, COUNTS + number)

    def _carry(self, loop: _Carried, values: Sequence[Slot], nodes: Sequence[Node]) -> None:
        """Gives the phis their next values, all at once. What the turn itself has made changes
        places with them; what is from outside, or goes to several, is copied."""
        now: dict[Slot, Slot] = {}  # where what was in a register has come to be
        given: set[Slot] = set()
        copied = []
        for phi, value, node in zip(loop.phis, values, nodes):
            if value in given or value.kind != "register" or value.number < loop.first:
                copied.append((phi, value, node))
                continue
            given.add(value)
            source = now.get(value, value)
            if source != phi:
                self._order(Order.SWAP, phi, source)
                there = next((s for s, to in now.items() if to == phi), phi)
                now[there], now[value] = source, phi
        for phi, value, node in copied:
            self._copy(phi, now.get(value, value), _bytes(node))

    def _end(self, at: Ends, known: Known) -> None:
        leaf, *others = at.leaves
        if leaf.own and others:  # else the first one fits all calls that come here
            raise NotNative("the end of a way depends on what Python compares")
        if leaf.way is not None or leaf.formulas or leaf.stage is None:
            raise NotNative("its results need more than native code")
        if leaf.stage.executable is None:
            self._order(Order.END, UNKNOWN)
            return
        program, given = self._program(leaf.stage, known)
        self._overwrite(leaf, program, given)
        made: list[Any] = []
        results = [self._result(n.type.shape, n.type.dtype, made) for n in program.plan.results]
        found = self._run(program, given, results)
        for i, (slot, node) in enumerate(zip(found, leaf.stage.wanted)):
            if slot.kind == "register":
                found[i] = self._result(node.type.shape, node.type.dtype, made)
                self._copy(found[i], slot, _bytes(node))
        self._order(Order.END, len(self.ends))
        self.ends.append(_End(leaf, list(zip(found, program.plan.shapes))))

    def _overwrite(self, leaf: Leaf, program: Executable, given: Sequence[Slot]) -> None:
        """Notes which arrays a way writes over in its last program."""
        over = {given[i] for i in program.table.overwritten}
        if over and leaf.own:
            raise NotNative("it changes arrays on a way with conditions of its own")
        if any(given.count(slot) > 1 for slot in over):
            raise NotNative("an array that it changes is read under two names")
        self.overwritten |= {slot.number for slot in over}

    def _result(self, shape: tuple[int, ...], dtype: Any, made: list[Any]) -> Slot:
        """An array for a result: one that other ends have, where there is one that is left."""
        made.append((shape, dtype))
        having = [i for i, kind in enumerate(self.results) if kind == (shape, dtype)]
        nth = made.count((shape, dtype))
        if len(having) < nth:
            having.append(len(self.results))
            self.results.append((shape, dtype))
        return Slot("result", having[nth - 1])


def ways(root: Place, numbers: Mapping[Path, int]) -> Ways | str:
    """The ways through a tree, whose tensors are at `numbers` among the arrays of a call; or why
    they are not gone by native code."""
    try:
        return _compiled(root, numbers)
    except NotNative as why:
        return str(why)


def _compiled(root: Place, numbers: Mapping[Path, int]) -> Ways:
    if sum(1 for _ in walk(root)) > _LARGEST:
        raise NotNative("it has too many decisions")
    written = _Writer(numbers)
    written.write(root, {})
    if not written.ends:
        raise NotNative("no way through it is compiled yet")
    _check_results(written)
    size = written.arena + max((p.arena for p in written.programs), default=0)
    if size > _LARGE:
        raise NotNative(f"{size} bytes lie between its programs, where Python costs little")
    return Ways(written, sum(n >= 0 for n in numbers.values()))


def _check_results(written: _Writer) -> None:
    """NotNative where a call would make much that it does not need: results of other ways."""
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in written.results]
    needed = [sum(sizes[s.number] for s in {s for s, _ in end.outputs} if s.kind == "result")
              for end in written.ends]
    if sum(sizes) - min(needed) > _SPARE:
        raise NotNative(f"its ways need {sum(sizes)} bytes of results together")


class Ways:
    """A tree that native code goes through. Calls may come from several threads at once."""

    def __init__(self, written: _Writer, arrays: int) -> None:
        first = {"array": 0, "constant": arrays, "result": arrays + len(written.constants)}
        first["register"] = first["result"] + len(written.results)
        self.ends = [end.leaf for end in written.ends]
        self._loops = [(loop, COUNTS + i) for i, loop in enumerate(written.loops)]
        self._constants = written.constants
        self._results = [memory.maker(shape, dtype) for shape, dtype in written.results]
        self._outputs = [[(first[slot.kind] + slot.number, shape) for slot, shape in end.outputs]
                         for end in written.ends]
        self._overwritten = sorted(written.overwritten)
        self._arenas: list[Any] = []
        tree = _Tree(written, first)
        self._size = tree.size
        self._programs = written.programs
        short = sum(k.cost for p in written.programs for k in p.kernels) < SHORT_NANOSECONDS

        def call(fresh: bool, keeps_lock: bool, overwritten: Sequence[int] = ()) -> Launch:
            words = tree.words(fresh, SHORT_NANOSECONDS if keeps_lock else _LISTENING)
            about = Call("fusewire_ways", _address(words), keeps_lock, arrays,
                         len(written.results), overwritten)
            return launcher(about, written.constants, kept=(words, tree))

        self._begin = call(True, short, self._overwritten)
        self._begin_with_own = call(True, short)
        self._go_on = call(False, False)

    def __call__(self, arrays: list[Any]) -> tuple[list[Any], int]:
        """What the call's way ends with, and the number of that end; UNKNOWN where it leads to
        what was not recorded."""
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
                self._go_on(arrays, results, arena)
            end = words[ENDED]
            for loop, word in self._loops:
                loop.turns += words[word]
        finally:
            self._arenas.append(own)
        if end == UNKNOWN:
            return [], end
        everything = [*arrays, *self._constants, *results]
        found = []
        for i, shape in self._outputs[end]:
            array = everything[i]
            found.append(array if array.shape == shape else array.reshape(shape))
        return found, end

    def _take_arena(self) -> Any:
        try:
            return self._arenas.pop()
        except IndexError:
            arena = aligned(self._size)
            return arena, memoryview(arena[:8 * (COUNTS + len(self._loops))]).cast("q")


class _Tree:
    """What native code reads of a tree: its lists, and where in the arena everything lies."""

    def __init__(self, written: _Writer, first: Mapping[str, int]) -> None:
        def number(word: Any) -> int:
            return first[word.kind] + word.number if isinstance(word, Slot) else int(word)

        loops, registers = len(written.loops), len(written.registers)
        self._counts = first["register"], registers, loops
        self._all = 8 * (COUNTS + loops)
        self._part = self._all + 8 * (first["register"] + registers)
        lists = max((order[3] for order in written.orders if order[0] is Order.RUN), default=0)
        start = _padded(self._part + 8 * lists)
        self._inner = start + written.arena
        self.size = self._inner + max((p.arena for p in written.programs), default=0)
        self._orders = array.array("q", [number(w) for order in written.orders for w in order])
        self._lists = array.array("q", map(number, written.lists))
        self._offsets = array.array("q", [start + place for place, _ in written.registers])

    def words(self, fresh: bool, budget: int) -> array.array[int]:
        """The tree as `fusewire_ways` takes it."""
        parts = map(_address, (self._orders, self._lists, self._offsets))
        return array.array("q", [*parts, fresh, budget, *self._counts, self._all, self._part,
                                 self._inner])


def _address(words: array.array[int]) -> int:
    return words.buffer_info()[0]


def _padded(size: int) -> int:
    """The bytes that a value takes, so that the next one begins on a cache line."""
    return -(-max(1, size) // _LINE) * _LINE


def _bytes(node: Node) -> int:
    return int(node.type.size * node.type.dtype.itemsize)


def _bits(kind: Any) -> int:
    """The bits of eight bytes that make a scalar true: all but the sign of a float, whose -0.0 is
    as false as 0.0."""
    if kind.kind in "biu":
        return -1
    size = kind.itemsize // (2 if kind.kind == "c" else 1)
    return int.from_bytes((b"\xff" * (size - 1) + b"\x7f") * (8 // size), "little", signed=True)
