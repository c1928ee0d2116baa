"""Writes the steps of a program as a table of constants, and the native loop that executes the
table.

A step is a task function, its number of tasks, their cost, and the slots of its buffers. So the
code of a program grows with its kernels, not with the number of steps. The loop itself is compiled
once, beside the thread pool: LLVM takes a millisecond for the smallest function, a quarter of the
time for a small kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.loop_ir import Kernel, KernelBuffer
from .row_blocks import RowBlocks

PARALLEL_NANOSECONDS = 8_000  # kernels that take less are not worth a second thread


@dataclass(frozen=True)
class Argument:
    """A buffer in the array whose address is at `index` of the table, `offset` bytes into it."""

    index: int
    offset: int = 0

    def words(self) -> tuple[int, int]:
        return self.index, self.offset


@dataclass(frozen=True)
class Arena:
    """The buffer at an offset, in bytes, from the start of the arena."""

    offset: int

    def words(self) -> tuple[int, int]:
        return -1, self.offset


Slot = Argument | Arena


@dataclass(frozen=True)
class ProgramStep:
    """One kernel of a program, with a slot for each of its arguments.

    For reports, `arrays` has the array in which each argument lies and the byte at which it begins
    there, and `refusals` the reasons why it is a kernel of its own."""

    kernel: Kernel
    slots: Sequence[Slot]
    arrays: Sequence[tuple[KernelBuffer, int]] = ()
    refusals: tuple[str, ...] = ()


def program_text(calls: Sequence[tuple[ProgramStep, str]], rows: RowBlocks,
                 prologue_steps: int) -> str:
    """The constant `program`: its steps, each with its task function, and its row blocks; and the
    constant `later`: the program without its first `prologue_steps` steps."""
    slot_texts: list[str] = []
    records = []
    for step, task in calls:
        first = len(slot_texts)
        slot_texts += [f"{{i64, i64}} {{i64 {i}, i64 {at}}}" for i, at in map(_words, step.slots)]
        numbers = (step.kernel.tasks, _cost(step.kernel), first, len(slot_texts))
        fields = ", ".join(f"i64 {n}" for n in numbers)
        records.append(f"%step {{ptr @{task}, {fields}}}")
    max_slots = max((len(step.slots) for step, _ in calls), default=0)
    return _TYPES + _PROGRAM.format(
        most=max(max_slots, 1), records=", ".join(records), count=len(records),
        prologue=prologue_steps,
        slot_list=", ".join(slot_texts), slots=len(slot_texts), block=rows.block,
        cost=max(int(rows.cost), 1), arguments=len(rows.strides),
        strides=", ".join(f"i64 {n}" for n in rows.strides))


def _words(slot: Slot) -> tuple[int, int]:
    return slot.words()


def _cost(kernel: Kernel) -> int:
    """The cost of the tasks in nanoseconds; 0 if they are not worth a second thread."""
    return 0 if kernel.cost < PARALLEL_NANOSECONDS else min(int(kernel.cost), 1 << 60)


# A step: task, tasks, cost, first slot, end of slots. A slot: the number of an argument, or -1 for
# the arena, and bytes from there on. A program: steps, slots, most slots of a step, rows of a block
# or 0, its cost, number of arguments, their strides, the first step, the end of steps.
_TYPES = """%step = type {ptr, i64, i64, i64, i64}
%program = type {ptr, ptr, i64, i64, i64, i64, ptr, i64, i64}
"""

BLOCK_ROWS_OFFSET = 24
"""Bytes from the beginning of a program to the rows of its block."""

_PROGRAM = """
@list = internal constant [{count} x %step] [{records}], align 16
@slots = internal constant [{slots} x {{i64, i64}}] [{slot_list}], align 16
@strides = internal constant [{arguments} x i64] [{strides}], align 16
@program = constant %program {{
  ptr @list, ptr @slots, i64 {most}, i64 {block}, i64 {cost}, i64 {arguments}, ptr @strides,
  i64 0, i64 {count}}}, align 16
@later = constant %program {{
  ptr @list, ptr @slots, i64 {most}, i64 {block}, i64 {cost}, i64 {arguments}, ptr @strides,
  i64 {prologue}, i64 {count}}}, align 16
"""


def loop_text(more: str = "") -> str:
    """`fusewire_steps` as LLVM IR. Its additional parameters `more` are passed on to
    `fusewire_parallel`, which runs the tasks of a step on several threads; that and
    `fusewire_serial` are defined elsewhere."""
    return _TYPES + _LOOP.replace(" MORE", more)


_LOOP = """
; Runs the steps from ... to - 1 of a program.
define void @fusewire_steps(ptr %self, ptr %table, ptr %arena, i64 %from, i64 %to MORE) #0 {
entry:
  %slots.slot = getelementptr %program, ptr %self, i64 0, i32 1
  %most.slot = getelementptr %program, ptr %self, i64 0, i32 2
  %list = load ptr, ptr %self
  %slots = load ptr, ptr %slots.slot
  %most = load i64, ptr %most.slot
  %buffers = alloca ptr, i64 %most, align 16
  %own = alloca ptr, align 8
  store ptr %arena, ptr %own
  br label %head
head:
  %i = phi i64 [%from, %entry], [%next, %ran]
  %more = icmp slt i64 %i, %to
  br i1 %more, label %step, label %done
step:
  %at = getelementptr %step, ptr %list, i64 %i
  %at1 = getelementptr %step, ptr %at, i64 0, i32 1
  %at2 = getelementptr %step, ptr %at, i64 0, i32 2
  %at3 = getelementptr %step, ptr %at, i64 0, i32 3
  %at4 = getelementptr %step, ptr %at, i64 0, i32 4
  %task = load ptr, ptr %at
  %tasks = load i64, ptr %at1
  %cost = load i64, ptr %at2
  %first = load i64, ptr %at3
  %last = load i64, ptr %at4
  br label %fill
fill:
  %s = phi i64 [%first, %step], [%up, %fill.one]
  %some = icmp slt i64 %s, %last
  br i1 %some, label %fill.one, label %call
fill.one:
  %slot = getelementptr {i64, i64}, ptr %slots, i64 %s
  %slot.offset = getelementptr {i64, i64}, ptr %slot, i64 0, i32 1
  %index = load i64, ptr %slot
  %offset = load i64, ptr %slot.offset
  %argument = getelementptr ptr, ptr %table, i64 %index
  %inside = icmp slt i64 %index, 0
  %where = select i1 %inside, ptr %own, ptr %argument
  %base = load ptr, ptr %where
  %buffer = getelementptr i8, ptr %base, i64 %offset
  %number = sub i64 %s, %first
  %buffer.slot = getelementptr ptr, ptr %buffers, i64 %number
  store ptr %buffer, ptr %buffer.slot
  %up = add i64 %s, 1
  br label %fill
call:
  %single = icmp eq i64 %tasks, 1
  br i1 %single, label %once, label %several
once:
  call void %task(ptr %buffers, i64 0)
  br label %ran
several:
  %short = icmp eq i64 %cost, 0
  br i1 %short, label %serial, label %parallel
serial:
  call void @fusewire_serial(ptr %task, ptr %buffers, i64 %tasks)
  br label %ran
parallel:
  call void @fusewire_parallel(ptr %task, ptr %buffers, i64 %tasks, i64 %cost MORE)
  br label %ran
ran:
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""
