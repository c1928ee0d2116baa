"""Holds the IR of functions that map a file of weights and check that it is complete."""

from __future__ import annotations

MAPPED = """
declare i32 @open(ptr, i32, ...)
declare i32 @close(i32)
declare i64 @lseek(i32, i64, i32)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)

; The code OK if a block of memory holds the weights of this library, to the last byte.
define i32 @{name}_check_weights(ptr %block, i64 %bytes) #0 {{
entry:
  %where = alloca ptr, align 8
  %code = call i32 @find_weights(ptr @library, ptr %block, i64 %bytes, ptr %where)
  %begins = icmp eq i32 %code, {ok}
  br i1 %begins, label %start, label %wrong
start:
  %words = getelementptr i64, ptr %block, i64 {head}
  %expected.slot = getelementptr i64, ptr @head, i64 4
  %expected = load i64, ptr %expected.slot
  br label %head
head:
  %i = phi i64 [0, %start], [%up, %one]
  %total = phi i64 [0, %start], [%sum, %one]
  %left = icmp slt i64 %i, {words}
  br i1 %left, label %one, label %done
one:
  %up = add i64 %i, 1
  %slot = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %slot
  %times = mul i64 %word, {factor}
  %high = lshr i64 %times, 32
  %mixed = xor i64 %times, %high
  %twice = shl i64 %i, 1
  %odd = or i64 %twice, 1
  %part = mul i64 %mixed, %odd
  %sum = add i64 %total, %part
  br label %head
done:
  %same = icmp eq i64 %total, %expected
  %found = select i1 %same, i32 {ok}, i32 {weights}
  ret i32 %found
wrong:
  ret i32 %code
}}

; Maps the file of weights. Stores its address and its size in bytes.
define i32 @{name}_map_weights(ptr %path, ptr %where, ptr %size) #0 {{
entry:
  %path.there = icmp ne ptr %path, null
  %where.there = icmp ne ptr %where, null
  %size.there = icmp ne ptr %size, null
  %both = and i1 %path.there, %where.there
  %all = and i1 %both, %size.there
  br i1 %all, label %begin, label %null
begin:
  %file = call i32 (ptr, i32, ...) @open(ptr %path, i32 0)
  %closed = icmp slt i32 %file, 0
  br i1 %closed, label %no.file, label %opened
opened:
  %bytes = call i64 @lseek(i32 %file, i64 0, i32 2)
  %long = icmp sge i64 %bytes, {bytes}
  br i1 %long, label %map, label %short
map:
  %block = call ptr @mmap(ptr null, i64 %bytes, i32 1, i32 2, i32 %file, i64 0)
  %ignored = call i32 @close(i32 %file)
  %number = ptrtoint ptr %block to i64
  %failed = icmp eq i64 %number, -1
  br i1 %failed, label %no.file, label %check
check:
  %code = call i32 @{name}_check_weights(ptr %block, i64 %bytes)
  %fine = icmp eq i32 %code, {ok}
  br i1 %fine, label %done, label %others
done:
  store ptr %block, ptr %where
  store i64 %bytes, ptr %size
  ret i32 {ok}
others:
  %ignored.2 = call i32 @munmap(ptr %block, i64 %bytes)
  ret i32 {weights}
short:
  %ignored.3 = call i32 @close(i32 %file)
  ret i32 {weights}
no.file:
  ret i32 {file}
null:
  ret i32 {null}
}}

define void @{name}_unmap_weights(ptr %block, i64 %bytes) #0 {{
entry:
  %there = icmp ne ptr %block, null
  br i1 %there, label %mapped, label %done
mapped:
  %ignored = call i32 @munmap(ptr %block, i64 %bytes)
  br label %done
done:
  ret void
}}
"""
