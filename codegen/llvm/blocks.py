"""A program for a block of rows, run over any number of rows: sizes that code need not know.

Rows are independent of each other, so blocks are tasks. The last block ends with the last row and
overlaps the one before it: rows computed twice get the same values twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rows:
    """How a program of `block` rows moves on: by `strides` bytes per row in each argument."""

    block: int
    strides: Sequence[int]
    cost: float  # of a block, in nanoseconds

    def text(self) -> str:
        """The function run(table, arena), its table the number of rows, then the addresses."""
        return _RUN.format(block=self.block, less=self.block - 1, cost=max(int(self.cost), 1),
                           count=max(len(self.strides), 1), moves="\n".join(self._moves()))

    def _moves(self) -> list[str]:
        lines = []
        for i, stride in enumerate(self.strides):
            lines += [f"  %q{i} = getelementptr ptr, ptr %table, i64 {i + 1}",
                      f"  %p{i} = load ptr, ptr %q{i}",
                      f"  %o{i} = mul i64 %start, {stride}",
                      f"  %r{i} = getelementptr i8, ptr %p{i}, i64 %o{i}",
                      f"  %m{i} = getelementptr ptr, ptr %moved, i64 {i}",
                      f"  store ptr %r{i}, ptr %m{i}"]
        return lines


_RUN = """define void @rows(ptr %table, i64 %number) #0 {{
entry:
  %moved = alloca [{count} x ptr], align 16
  %rows = load i64, ptr %table
  %last = sub i64 %rows, {block}
  %next = mul i64 %number, {block}
  %beyond = icmp sgt i64 %next, %last
  %start = select i1 %beyond, i64 %last, i64 %next
{moves}
  call void @block(ptr %moved, ptr null)
  ret void
}}

define void @run(ptr %table, ptr %arena) #0 {{
entry:
  %rows = load i64, ptr %table
  %more = add i64 %rows, {less}
  %tasks = sdiv i64 %more, {block}
  %cost = mul i64 %tasks, {cost}
  call void @fusewire_parallel(ptr @rows, ptr %table, i64 %tasks, i64 %cost)
  ret void
}}
"""
