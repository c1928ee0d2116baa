"""Runs a program that was compiled for a block of rows over any number of rows.

Rows are independent of each other, so blocks are tasks. The last block ends with the last row and
overlaps the one before it: rows computed twice get the same values twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RowBlocks:
    """The rows of a block, and the `strides` in bytes from row to row of each argument."""

    block: int
    strides: Sequence[int]
    cost: float  # of a block, in nanoseconds


WHOLE = RowBlocks(0, (), 0.0)
"""Of a program that has no rows."""

RUN = """
; Runs a program on a table of arguments and an arena. The table of one for rows begins with their
; number.
define void @fusewire_run(ptr %self, ptr %table, ptr %arena) #0 {
entry:
  %block.slot = getelementptr %program, ptr %self, i64 0, i32 3
  %block = load i64, ptr %block.slot
  %whole = icmp eq i64 %block, 0
  br i1 %whole, label %once, label %blocks
once:
  call void @all(ptr %self, ptr %table, ptr %arena)
  ret void
blocks:
  %rows = load i64, ptr %table
  %arguments = getelementptr ptr, ptr %table, i64 1
  call void @blocks(ptr %self, ptr %arguments, i64 %rows)
  ret void
}

; Runs a program for rows on a table of arguments; `pair` is the program and the number of rows.
define void @fusewire_rows(ptr %pair, ptr %table, ptr %arena) #0 {
entry:
  %rows.slot = getelementptr i64, ptr %pair, i64 1
  %self = load ptr, ptr %pair
  %rows = load i64, ptr %rows.slot
  call void @blocks(ptr %self, ptr %table, i64 %rows)
  ret void
}

; All blocks of so many rows.
define internal void @blocks(ptr %self, ptr %table, i64 %rows) #0 {
entry:
  %job = alloca [3 x ptr], align 16
  %block.slot = getelementptr %program, ptr %self, i64 0, i32 3
  %cost.slot = getelementptr %program, ptr %self, i64 0, i32 4
  %block = load i64, ptr %block.slot
  %cost = load i64, ptr %cost.slot
  %less = sub i64 %block, 1
  %more = add i64 %rows, %less
  %tasks = sdiv i64 %more, %block
  %work = mul i64 %tasks, %cost
  %job.table = getelementptr ptr, ptr %job, i64 1
  %job.rows = getelementptr ptr, ptr %job, i64 2
  store ptr %self, ptr %job
  store ptr %table, ptr %job.table
  store i64 %rows, ptr %job.rows
  call void @fusewire_parallel(ptr @block, ptr %job, i64 %tasks, i64 %work)
  ret void
}

; One block of a program's rows.
define internal void @block(ptr %job, i64 %number) #0 {
entry:
  %job.table = getelementptr ptr, ptr %job, i64 1
  %self = load ptr, ptr %job
  %job.rows = getelementptr ptr, ptr %job, i64 2
  %table = load ptr, ptr %job.table
  %rows = load i64, ptr %job.rows
  %block.slot = getelementptr %program, ptr %self, i64 0, i32 3
  %arguments.slot = getelementptr %program, ptr %self, i64 0, i32 5
  %strides.slot = getelementptr %program, ptr %self, i64 0, i32 6
  %block = load i64, ptr %block.slot
  %arguments = load i64, ptr %arguments.slot
  %strides = load ptr, ptr %strides.slot
  %moved = alloca ptr, i64 %arguments, align 16
  %last = sub i64 %rows, %block
  %next = mul i64 %number, %block
  %beyond = icmp sgt i64 %next, %last
  %start = select i1 %beyond, i64 %last, i64 %next
  br label %head
head:
  %i = phi i64 [0, %entry], [%up, %move]
  %more = icmp slt i64 %i, %arguments
  br i1 %more, label %move, label %run
move:
  %up = add i64 %i, 1
  %from = getelementptr ptr, ptr %table, i64 %i
  %base = load ptr, ptr %from
  %stride.slot = getelementptr i64, ptr %strides, i64 %i
  %stride = load i64, ptr %stride.slot
  %bytes = mul i64 %start, %stride
  %address = getelementptr i8, ptr %base, i64 %bytes
  %to = getelementptr ptr, ptr %moved, i64 %i
  store ptr %address, ptr %to
  br label %head
run:
  call void @all(ptr %self, ptr %moved, ptr null)
  ret void
}

; All steps of a program.
define internal void @all(ptr %self, ptr %table, ptr %arena) #0 {
entry:
  %first.slot = getelementptr %program, ptr %self, i64 0, i32 7
  %end.slot = getelementptr %program, ptr %self, i64 0, i32 8
  %first = load i64, ptr %first.slot
  %end = load i64, ptr %end.slot
  call void @fusewire_steps(ptr %self, ptr %table, ptr %arena, i64 %first, i64 %end)
  ret void
}
"""
