"""Defines the control VM: a native function that executes branches and loops between compiled
programs.

It interprets the instructions of one traced function and calls its programs, whose values lie in
one arena. All about a function is data: nothing is compiled for it. Values that are not in NumPy
arrays are in registers: addresses in a table, so that a loop updates its phis by swapping two
addresses. A loop may never end: after a time budget the VM returns to Python, which handles Ctrl-C,
and the next call resumes it.
"""

from __future__ import annotations

from enum import IntEnum

from .python_scalars import NUMBERS


class Opcode(IntEnum):
    """The instructions of the VM; each is five words, the opcode and four operands."""

    RUN = 0  # program, start of its argument list, length of the list, nanoseconds
    BR_ZERO = 1  # scalar, its bytes, mask of the bits that count, target if they are 0
    SWAP = 2  # two registers, which exchange their addresses
    COPY = 3  # target, source, bytes
    LOOP = 4  # loop header, word that counts the iterations
    SCALAR = 5  # scalar operation, target, operands
    RET = 6  # number of the exit


POSITION, ENDED, COUNTS = range(3)  # words at the start of the arena; counts of turns follow
UNKNOWN, UNFINISHED = -1, -2  # as the end: the way was not recorded; work is left

# A tree: orders, lists of arguments, where registers begin in the arena; whether to begin anew;
# nanoseconds after which to return; counts of arguments, of registers, of loops; and where in the
# arena there are the addresses of all, those of the arguments of one program, and its own arena.
CONTROL_VM = f"""{NUMBERS}
%ways = type {{ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64}}

declare void @fusewire_run(ptr, ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Follows the orders of a tree, from the first on or from where it was left.
define void @fusewire_ways(ptr %self, ptr %table, ptr %arena) #0 {{
entry:
  %spent = alloca i64, align 8
  store i64 0, ptr %spent
  %tree = load %ways, ptr %self
  %orders = extractvalue %ways %tree, 0
  %lists = extractvalue %ways %tree, 1
  %offsets = extractvalue %ways %tree, 2
  %fresh = extractvalue %ways %tree, 3
  %budget = extractvalue %ways %tree, 4
  %arguments = extractvalue %ways %tree, 5
  %registers = extractvalue %ways %tree, 6
  %loops = extractvalue %ways %tree, 7
  %all.offset = extractvalue %ways %tree, 8
  %part.offset = extractvalue %ways %tree, 9
  %inner.offset = extractvalue %ways %tree, 10
  %all = getelementptr i8, ptr %arena, i64 %all.offset
  %part = getelementptr i8, ptr %arena, i64 %part.offset
  %inner = getelementptr i8, ptr %arena, i64 %inner.offset
  %ended = getelementptr i64, ptr %arena, i64 {ENDED}
  store i64 {UNFINISHED}, ptr %ended
  %given.bytes = shl i64 %arguments, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %all, ptr %table, i64 %given.bytes, i1 false)
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
  %r = phi i64 [0, %begin], [%r.up, %put]
  %r.more = icmp slt i64 %r, %registers
  br i1 %r.more, label %put, label %next
put:
  %offset.place = getelementptr i64, ptr %offsets, i64 %r
  %offset = load i64, ptr %offset.place
  %register = getelementptr i8, ptr %arena, i64 %offset
  %register.place = getelementptr ptr, ptr %own, i64 %r
  store ptr %register, ptr %register.place
  %r.up = add i64 %r, 1
  br label %fill
next:
  %i = phi i64 [%left, %resume], [0, %fill], [%up, %ran], [%up, %true], [%d, %false],
               [%up, %swap], [%up, %copy], [%a, %again], [%up, %number]
  %up = add i64 %i, 1
  %order = getelementptr [5 x i64], ptr %orders, i64 %i
  %a.place = getelementptr i64, ptr %order, i64 1
  %b.place = getelementptr i64, ptr %order, i64 2
  %c.place = getelementptr i64, ptr %order, i64 3
  %d.place = getelementptr i64, ptr %order, i64 4
  %what = load i64, ptr %order
  %a = load i64, ptr %a.place
  %b = load i64, ptr %b.place
  %c = load i64, ptr %c.place
  %d = load i64, ptr %d.place
  switch i64 %what, label %end [
    i64 {Opcode.RUN.value}, label %run
    i64 {Opcode.BR_ZERO.value}, label %unless
    i64 {Opcode.SWAP.value}, label %swap
    i64 {Opcode.COPY.value}, label %copy
    i64 {Opcode.LOOP.value}, label %turn
    i64 {Opcode.SCALAR.value}, label %number
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
  %index.place = getelementptr i64, ptr %list, i64 %g
  %index = load i64, ptr %index.place
  %from.place = getelementptr ptr, ptr %all, i64 %index
  %from = load ptr, ptr %from.place
  %to.place = getelementptr ptr, ptr %part, i64 %g
  store ptr %from, ptr %to.place
  br label %gather
ran:
  %program = inttoptr i64 %a to ptr
  call void @fusewire_run(ptr %program, ptr %part, ptr %inner)
  %spent0 = load i64, ptr %spent
  %spent1 = add i64 %spent0, %d
  store i64 %spent1, ptr %spent
  br label %next
unless:
  %scalar.place = getelementptr ptr, ptr %all, i64 %a
  %scalar = load ptr, ptr %scalar.place
  br label %look
look:
  %k = phi i64 [0, %unless], [%k.up, %byte]
  %bits = phi i8 [0, %unless], [%bits.more, %byte]
  %k.more = icmp slt i64 %k, %b
  br i1 %k.more, label %byte, label %looked
byte:
  %k.up = add i64 %k, 1
  %byte.place = getelementptr i8, ptr %scalar, i64 %k
  %byte.there = load i8, ptr %byte.place
  %shift.bytes = and i64 %k, 7
  %shift = shl i64 %shift.bytes, 3
  %mask.wide = lshr i64 %c, %shift
  %mask = trunc i64 %mask.wide to i8
  %counted = and i8 %byte.there, %mask
  %bits.more = or i8 %bits, %counted
  br label %look
looked:
  %is.false = icmp eq i8 %bits, 0
  br i1 %is.false, label %false, label %true
true:
  br label %next
false:
  br label %next
swap:
  %one.place = getelementptr ptr, ptr %all, i64 %a
  %other.place = getelementptr ptr, ptr %all, i64 %b
  %one = load ptr, ptr %one.place
  %other = load ptr, ptr %other.place
  store ptr %other, ptr %one.place
  store ptr %one, ptr %other.place
  br label %next
copy:
  %target.place = getelementptr ptr, ptr %all, i64 %a
  %source.place = getelementptr ptr, ptr %all, i64 %b
  %target = load ptr, ptr %target.place
  %source = load ptr, ptr %source.place
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %c, i1 false)
  br label %next
number:
  %made.place = getelementptr ptr, ptr %all, i64 %b
  %x.place = getelementptr ptr, ptr %all, i64 %c
  %y.place = getelementptr ptr, ptr %all, i64 %d
  %made = load ptr, ptr %made.place
  %x = load ptr, ptr %x.place
  %y = load ptr, ptr %y.place
  %could = call i1 @number(i64 %a, ptr %made, ptr %x, ptr %y)
  br i1 %could, label %next, label %failed
failed:
  store i64 {UNKNOWN}, ptr %ended
  ret void
turn:
  %count.place = getelementptr i64, ptr %arena, i64 %b
  %count = load i64, ptr %count.place
  %count.up = add i64 %count, 1
  store i64 %count.up, ptr %count.place
  %so.far = load i64, ptr %spent
  %enough = icmp sge i64 %so.far, %budget
  br i1 %enough, label %leave, label %again
again:
  br label %next
leave:
  store i64 %a, ptr %arena
  ret void
end:
  store i64 %a, ptr %ended
  ret void
}}
"""
