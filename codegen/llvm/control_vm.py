"""Defines the control VM: a native function that executes branches and loops between compiled
programs.

It interprets the instructions of one traced function and calls its programs, whose values lie in
one arena. All about a function is data: nothing is compiled for it. Values that are not in NumPy
arrays are in registers: addresses in a table, so that a loop updates its phis by swapping two
addresses. A loop may never end: after a time budget the VM returns to Python, which handles Ctrl-C,
and the next call resumes it. C libraries contain the VM too; there an image is a constant.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any

from .python_scalars import NAMES, numbers_text


class Opcode(IntEnum):
    """The instructions of the VM; each is five words, the opcode and four operands."""

    RUN = 0  # program, start of its argument list, length of the list, nanoseconds
    BR_ZERO = 1  # scalar, its bytes, mask of the bits that count, target if they are 0
    SWAP = 2  # two registers, which exchange their addresses
    COPY = 3  # target, source, bytes, offset of the source in bytes
    LOOP = 4  # loop header, word that counts the iterations
    SCALAR = 5  # scalar operation, target, operands
    RET = 6  # number of the exit
    COPY_COUNTED = 7  # target, source, scalar with the bytes, offset of the source in bytes
    CHECK = 8  # array of indices, scalar with their number, rule (see `rule_of`), end


POSITION, ENDED, COUNTS = range(3)  # words at the start of the arena; counts of iterations follow
UNKNOWN, UNFINISHED = -1, -2  # as the end: the outcome has no trace; work is left

# ---- checks of indices
_DTYPES = {"bool": ("i8", "zext"), "int8": ("i8", "sext"), "int16": ("i16", "sext"),
           "int32": ("i32", "sext"), "int64": ("i64", ""), "uint8": ("i8", "zext"),
           "uint16": ("i16", "zext"), "uint32": ("i32", "zext"), "uint64": ("i64", "")}
_NUMBERS = {name: i for i, name in enumerate(_DTYPES)}


def rule_of(dtype: Any, low: int, stop: int) -> list[int]:
    """The rule that indices of a dtype are in range(low, stop), as `@within` takes it."""
    return [_NUMBERS[dtype.name], low, stop]


def _element(dtype: str) -> str:
    """The basic block that reads an index of a dtype."""
    kind, extend = _DTYPES[dtype]
    number = _NUMBERS[dtype]
    wide = f"{extend} {kind} %raw{number} to i64" if extend else f"add i64 %raw{number}, 0"
    return f"""
read{number}:
  %at{number} = getelementptr {kind}, ptr %data, i64 %i
  %raw{number} = load {kind}, ptr %at{number}
  %wide{number} = {wide}
  br label %look"""


_CASES = "\n".join(f"    i64 {n}, label %read{n}" for n in _NUMBERS.values())
_VALUES = ", ".join(f"[%wide{n}, %read{n}]" for n in _NUMBERS.values())

WITHIN = f"""
; True if all elements of an array obey a rule: the number of their dtype, the least value, the end.
define internal i1 @within(ptr %data, i64 %count, ptr %rule) #0 {{
entry:
  %low.slot = getelementptr i64, ptr %rule, i64 1
  %stop.slot = getelementptr i64, ptr %rule, i64 2
  %dtype = load i64, ptr %rule
  %low = load i64, ptr %low.slot
  %stop = load i64, ptr %stop.slot
  br label %head
head:
  %i = phi i64 [0, %entry], [%up, %fine]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %element, label %yes
element:
  %up = add i64 %i, 1
  switch i64 %dtype, label %no [
{_CASES}
  ]
{"".join(map(_element, _DTYPES))}
look:
  %value = phi i64 {_VALUES}
  %above = icmp sge i64 %value, %low
  %below = icmp slt i64 %value, %stop
  %inside = and i1 %above, %below
  br i1 %inside, label %fine, label %no
fine:
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


# ---- the VM
# An image: instructions, argument lists, offsets of the registers in the arena; 1 to begin at the
# first instruction, 0 to resume; nanoseconds after which to return; the numbers of arguments, of
# registers, of loops; and three offsets in the arena: of the table of all addresses, of the
# addresses of one program's arguments, and of its own arena.


def control_vm_text(more: str = "", operations: Collection[int] = range(len(NAMES))) -> str:
    """`fusewire_control` as LLVM IR, for images that use these scalar operations. Its additional
    parameters `more` are passed on to `fusewire_run`, which runs a program and is defined
    elsewhere."""
    return f"{numbers_text(operations)}{WITHIN}{_CONTROL_VM.replace(' MORE', more)}"


_CONTROL_VM = f"""
%control_image = type {{ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Executes the instructions of an image, from the first one or from the one where it returned.
define void @fusewire_control(ptr %self, ptr %table, ptr %arena MORE) #0 {{
entry:
  %spent = alloca i64, align 8
  store i64 0, ptr %spent
  %image = load %control_image, ptr %self
  %instructions = extractvalue %control_image %image, 0
  %lists = extractvalue %control_image %image, 1
  %offsets = extractvalue %control_image %image, 2
  %fresh = extractvalue %control_image %image, 3
  %budget = extractvalue %control_image %image, 4
  %arguments = extractvalue %control_image %image, 5
  %registers = extractvalue %control_image %image, 6
  %loops = extractvalue %control_image %image, 7
  %all.offset = extractvalue %control_image %image, 8
  %part.offset = extractvalue %control_image %image, 9
  %inner.offset = extractvalue %control_image %image, 10
  %all = getelementptr i8, ptr %arena, i64 %all.offset
  %part = getelementptr i8, ptr %arena, i64 %part.offset
  %inner = getelementptr i8, ptr %arena, i64 %inner.offset
  %ended = getelementptr i64, ptr %arena, i64 {ENDED}
  store i64 {UNFINISHED}, ptr %ended
  %argument.bytes = shl i64 %arguments, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %all, ptr %table, i64 %argument.bytes, i1 false)
  %anew = icmp ne i64 %fresh, 0
  br i1 %anew, label %begin, label %resume
resume:
  %left = load i64, ptr %arena
  br label %next
begin:
  %counts = getelementptr i64, ptr %arena, i64 {COUNTS}
  %counts.bytes = shl i64 %loops, 3
  call void @llvm.memset.p0.i64(ptr %counts, i8 0, i64 %counts.bytes, i1 false)
  %own = getelementptr ptr, ptr %all, i64 %arguments
  br label %fill
fill:
  %r = phi i64 [0, %begin], [%r.up, %fill.one]
  %r.more = icmp slt i64 %r, %registers
  br i1 %r.more, label %fill.one, label %next
fill.one:
  %offset.slot = getelementptr i64, ptr %offsets, i64 %r
  %offset = load i64, ptr %offset.slot
  %register = getelementptr i8, ptr %arena, i64 %offset
  %register.slot = getelementptr ptr, ptr %own, i64 %r
  store ptr %register, ptr %register.slot
  %r.up = add i64 %r, 1
  br label %fill
next:
  %i = phi i64 [%left, %resume], [0, %fill], [%up, %ran], [%up, %true], [%d, %false],
               [%up, %swap], [%up, %copy.to], [%a, %repeat], [%up, %scalar.op], [%up, %check]
  %up = add i64 %i, 1
  %instruction = getelementptr [5 x i64], ptr %instructions, i64 %i
  %a.slot = getelementptr i64, ptr %instruction, i64 1
  %b.slot = getelementptr i64, ptr %instruction, i64 2
  %c.slot = getelementptr i64, ptr %instruction, i64 3
  %d.slot = getelementptr i64, ptr %instruction, i64 4
  %opcode = load i64, ptr %instruction
  %a = load i64, ptr %a.slot
  %b = load i64, ptr %b.slot
  %c = load i64, ptr %c.slot
  %d = load i64, ptr %d.slot
  switch i64 %opcode, label %end [
    i64 {Opcode.RUN.value}, label %run
    i64 {Opcode.BR_ZERO.value}, label %br.zero
    i64 {Opcode.SWAP.value}, label %swap
    i64 {Opcode.COPY.value}, label %copy
    i64 {Opcode.LOOP.value}, label %loop
    i64 {Opcode.SCALAR.value}, label %scalar.op
    i64 {Opcode.COPY_COUNTED.value}, label %counted
    i64 {Opcode.CHECK.value}, label %check
  ]
run:
  %list = getelementptr i64, ptr %lists, i64 %b
  br label %gather
gather:
  %g = phi i64 [0, %run], [%g.up, %take]
  %g.more = icmp slt i64 %g, %c
  br i1 %g.more, label %take, label %ran
take:
  %g.up = add i64 %g, 1
  %index.slot = getelementptr i64, ptr %list, i64 %g
  %index = load i64, ptr %index.slot
  %from.slot = getelementptr ptr, ptr %all, i64 %index
  %from = load ptr, ptr %from.slot
  %to.slot = getelementptr ptr, ptr %part, i64 %g
  store ptr %from, ptr %to.slot
  br label %gather
ran:
  %program = inttoptr i64 %a to ptr
  call void @fusewire_run(ptr %program, ptr %part, ptr %inner MORE)
  %spent0 = load i64, ptr %spent
  %spent1 = add i64 %spent0, %d
  store i64 %spent1, ptr %spent
  br label %next
br.zero:
  %scalar.slot = getelementptr ptr, ptr %all, i64 %a
  %scalar = load ptr, ptr %scalar.slot
  br label %test
test:
  %k = phi i64 [0, %br.zero], [%k.up, %byte]
  %bits = phi i8 [0, %br.zero], [%bits.more, %byte]
  %k.more = icmp slt i64 %k, %b
  br i1 %k.more, label %byte, label %tested
byte:
  %k.up = add i64 %k, 1
  %byte.slot = getelementptr i8, ptr %scalar, i64 %k
  %byte.there = load i8, ptr %byte.slot
  %shift.bytes = and i64 %k, 7
  %shift = shl i64 %shift.bytes, 3
  %mask.wide = lshr i64 %c, %shift
  %mask = trunc i64 %mask.wide to i8
  %masked = and i8 %byte.there, %mask
  %bits.more = or i8 %bits, %masked
  br label %test
tested:
  %is.false = icmp eq i8 %bits, 0
  br i1 %is.false, label %false, label %true
true:
  br label %next
false:
  br label %next
swap:
  %one.slot = getelementptr ptr, ptr %all, i64 %a
  %other.slot = getelementptr ptr, ptr %all, i64 %b
  %one = load ptr, ptr %one.slot
  %other = load ptr, ptr %other.slot
  store ptr %other, ptr %one.slot
  store ptr %one, ptr %other.slot
  br label %next
copy:
  br label %copy.to
counted:
  %bytes.slot = getelementptr ptr, ptr %all, i64 %c
  %bytes.at = load ptr, ptr %bytes.slot
  %bytes.there = load i64, ptr %bytes.at
  br label %copy.to
copy.to:
  %bytes = phi i64 [%c, %copy], [%bytes.there, %counted]
  %target.slot = getelementptr ptr, ptr %all, i64 %a
  %source.slot = getelementptr ptr, ptr %all, i64 %b
  %target = load ptr, ptr %target.slot
  %source = load ptr, ptr %source.slot
  %source.part = getelementptr i8, ptr %source, i64 %d
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source.part, i64 %bytes, i1 false)
  br label %next
check:
  %indices.slot = getelementptr ptr, ptr %all, i64 %a
  %number.slot = getelementptr ptr, ptr %all, i64 %b
  %rule.slot = getelementptr ptr, ptr %all, i64 %c
  %indices = load ptr, ptr %indices.slot
  %number.at = load ptr, ptr %number.slot
  %rule = load ptr, ptr %rule.slot
  %number.there = load i64, ptr %number.at
  %inside = call i1 @within(ptr %indices, i64 %number.there, ptr %rule)
  br i1 %inside, label %next, label %outside
outside:
  store i64 %d, ptr %ended
  ret void
scalar.op:
  %result.slot = getelementptr ptr, ptr %all, i64 %b
  %x.slot = getelementptr ptr, ptr %all, i64 %c
  %y.slot = getelementptr ptr, ptr %all, i64 %d
  %result = load ptr, ptr %result.slot
  %x = load ptr, ptr %x.slot
  %y = load ptr, ptr %y.slot
  %computed = call i1 @number(i64 %a, ptr %result, ptr %x, ptr %y)
  br i1 %computed, label %next, label %failed
failed:
  store i64 {UNKNOWN}, ptr %ended
  ret void
loop:
  %count.slot = getelementptr i64, ptr %arena, i64 %b
  %count = load i64, ptr %count.slot
  %count.up = add i64 %count, 1
  store i64 %count.up, ptr %count.slot
  %so.far = load i64, ptr %spent
  %enough = icmp sge i64 %so.far, %budget
  br i1 %enough, label %leave, label %repeat
repeat:
  br label %next
leave:
  store i64 %a, ptr %arena
  ret void
end:
  store i64 %a, ptr %ended
  ret void
}}
"""

CONTROL_VM = f"""
declare void @fusewire_run(ptr, ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
{control_vm_text()}"""
"""A module with `fusewire_control`, which is linked to `fusewire_run` later."""
