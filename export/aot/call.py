"""Holds the IR of a call, which checks all arguments and then runs the program.

One function serves every library. It writes only memory that the caller passes, memory that it
allocates for the call, and the stack.
"""

from __future__ import annotations

from ...codegen.llvm.control_vm import ENDED, UNKNOWN
from .abi import VERSION, Code

STACK_WORKSPACE = 4096  # bytes: workspaces up to this size are on the stack

CALL = f"""
; Runs the tasks of a step by the function of the call, or, if it is null, one after the other.
define internal void @fusewire_parallel(
  ptr %task, ptr %buffers, i64 %tasks, i64 %cost, ptr %call
) #0 {{
entry:
  %function.slot = getelementptr %call, ptr %call, i64 0, i32 11
  %context.slot = getelementptr %call, ptr %call, i64 0, i32 12
  %function = load ptr, ptr %function.slot
  %context = load ptr, ptr %context.slot
  %none = icmp eq ptr %function, null
  br i1 %none, label %alone, label %together
alone:
  call void @fusewire_serial(ptr %task, ptr %buffers, i64 %tasks)
  ret void
together:
  call void %function(ptr %context, ptr %task, ptr %buffers, i64 %tasks)
  ret void
}}

; Runs all steps of a program.
define internal void @fusewire_run(ptr %program, ptr %table, ptr %arena, ptr %call) #0 {{
  %steps.slot = getelementptr %program, ptr %program, i64 0, i32 8
  %steps = load i64, ptr %steps.slot
  call void @fusewire_steps(ptr %program, ptr %table, ptr %arena, i64 0, i64 %steps, ptr %call)
  ret void
}}

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Checks a call of a library, runs its program, and returns a code.
define internal i32 @fusewire_call(ptr %library, ptr %given) #0 {{
entry:
  %where = alloca ptr, align 8
  %widened = alloca [8 x i64], align 16
  %there = icmp ne ptr %given, null
  br i1 %there, label %version, label %null
version:
  %call = load %call, ptr %given
  %abi = extractvalue %call %call, 0
  %inputs = extractvalue %call %call, 1
  %input.count = extractvalue %call %call, 2
  %outputs = extractvalue %call %call, 3
  %output.count = extractvalue %call %call, 4
  %sizes = extractvalue %call %call, 5
  %size.count = extractvalue %call %call, 6
  %workspace = extractvalue %call %call, 7
  %workspace.bytes = extractvalue %call %call, 8
  %weights.given = extractvalue %call %call, 9
  %weights.bytes = extractvalue %call %call, 10
  %known = icmp eq i64 %abi, {VERSION}
  br i1 %known, label %counts, label %other.version
counts:
  %library.all = load %library, ptr %library
  %wanted.inputs = extractvalue %library %library.all, 2
  %wanted.outputs = extractvalue %library %library.all, 3
  %wanted.sizes = extractvalue %library %library.all, 4
  %states = extractvalue %library %library.all, 8
  %inputs.same = icmp eq i64 %input.count, %wanted.inputs
  %outputs.same = icmp eq i64 %output.count, %wanted.outputs
  %sizes.same = icmp eq i64 %size.count, %wanted.sizes
  %same.0 = and i1 %inputs.same, %outputs.same
  %same.1 = and i1 %same.0, %sizes.same
  br i1 %same.1, label %pointers, label %count
pointers:
  %inputs.none = icmp eq i64 %input.count, 0
  %sizes.none = icmp eq i64 %size.count, 0
  %inputs.there = icmp ne ptr %inputs, null
  %outputs.there = icmp ne ptr %outputs, null
  %sizes.there = icmp ne ptr %sizes, null
  %inputs.fine = or i1 %inputs.none, %inputs.there
  %sizes.fine = or i1 %sizes.none, %sizes.there
  %fine.0 = and i1 %inputs.fine, %sizes.fine
  %fine.1 = and i1 %fine.0, %outputs.there
  br i1 %fine.1, label %choose, label %null
choose:
  %variant.at = call ptr @variant_for(ptr %library, ptr %sizes)
  %variant.there = icmp ne ptr %variant.at, null
  br i1 %variant.there, label %chosen, label %size
chosen:
  %variant = load %variant, ptr %variant.at
  %image = extractvalue %variant %variant, 0
  %needed = extractvalue %variant %variant, 1
  %kinds = extractvalue %variant %variant, 3
  %constants = extractvalue %variant %variant, 6
  %constant.count = extractvalue %variant %variant, 7
  %arrays = add i64 %input.count, %output.count
  %first.output = add i64 %input.count, 2
  %first.state = sub i64 %input.count, %states
  %first.constant = add i64 %arrays, 2
  %entries = add i64 %first.constant, %constant.count
  %table = alloca ptr, i64 %entries, align 16
  %bytes = alloca i64, i64 %first.constant, align 16
  br label %array
array:
  %a = phi i64 [0, %chosen], [%a.up, %a.next]
  %a.left = icmp slt i64 %a, %arrays
  br i1 %a.left, label %a.one, label %memory
a.one:
  %a.up = add i64 %a, 1
  %a.is.input = icmp slt i64 %a, %input.count
  %a.number = sub i64 %a, %input.count
  %a.input = getelementptr %array, ptr %inputs, i64 %a
  %a.output = getelementptr %array, ptr %outputs, i64 %a.number
  %a.at = select i1 %a.is.input, ptr %a.input, ptr %a.output
  %a.later = add i64 %a, 2
  %a.index = select i1 %a.is.input, i64 %a, i64 %a.later
  %a.bytes = getelementptr i64, ptr %bytes, i64 %a.index
  %a.kind = getelementptr %kind, ptr %kinds, i64 %a
  %a.code = call i32 @match(ptr %variant.at, ptr %a.kind, ptr %sizes, ptr %a.at, ptr %a.bytes)
  %a.data = load ptr, ptr %a.at
  %a.entry = getelementptr ptr, ptr %table, i64 %a.index
  store ptr %a.data, ptr %a.entry
  %a.fine = icmp eq i32 %a.code, {Code.OK}
  br i1 %a.fine, label %a.next, label %mismatch
a.next:
  br label %array
mismatch:
  ret i32 %a.code
memory:
  %weights.code = call i32 @find_weights(ptr %library, ptr %weights.given, i64 %weights.bytes,
                                         ptr %where)
  %weights.fine = icmp eq i32 %weights.code, {Code.OK}
  br i1 %weights.fine, label %work, label %bad.weights
bad.weights:
  ret i32 %weights.code
work:
  %weights = load ptr, ptr %where
  %weights.entry = getelementptr ptr, ptr %table, i64 %input.count
  store ptr %weights, ptr %weights.entry
  %sizes.number = add i64 %input.count, 1
  %sizes.entry = getelementptr ptr, ptr %table, i64 %sizes.number
  store ptr %widened, ptr %sizes.entry
  %own.memory = icmp eq ptr %workspace, null
  br i1 %own.memory, label %first, label %given.memory
given.memory:
  %enough = icmp sge i64 %workspace.bytes, %needed
  br i1 %enough, label %work.aligned, label %small
work.aligned:
  %work.address = ptrtoint ptr %workspace to i64
  %work.off = and i64 %work.address, 63
  %work.fine = icmp eq i64 %work.off, 0
  br i1 %work.fine, label %first, label %not.aligned
first:
  br label %pair
pair:
  %o = phi i64 [%first.state, %first], [%o.up, %o.next]
  %o.left = icmp slt i64 %o, %first.constant
  br i1 %o.left, label %o.any, label %widen
o.any:
  %o.up = add i64 %o, 1
  %o.weights = icmp eq i64 %o, %input.count
  %o.sizes = icmp eq i64 %o, %sizes.number
  %o.neither = or i1 %o.weights, %o.sizes
  br i1 %o.neither, label %o.next, label %o.one
o.one:
  %o.entry = getelementptr ptr, ptr %table, i64 %o
  %o.data = load ptr, ptr %o.entry
  %o.bytes.slot = getelementptr i64, ptr %bytes, i64 %o
  %o.bytes = load i64, ptr %o.bytes.slot
  %o.work = call i1 @overlap(ptr %o.data, i64 %o.bytes, ptr %workspace, i64 %needed)
  %o.work.own = icmp ne ptr %workspace, null
  %o.taken = and i1 %o.work, %o.work.own
  br i1 %o.taken, label %overlaps, label %other
other:
  %p = phi i64 [0, %o.one], [%p.up, %p.next]
  %p.left = icmp slt i64 %p, %o
  br i1 %p.left, label %p.one, label %o.next
p.one:
  %p.up = add i64 %p, 1
  %p.weights = icmp eq i64 %p, %input.count
  %p.sizes = icmp eq i64 %p, %sizes.number
  %p.neither = or i1 %p.weights, %p.sizes
  br i1 %p.neither, label %p.next, label %p.look
p.look:
  %p.entry = getelementptr ptr, ptr %table, i64 %p
  %p.data = load ptr, ptr %p.entry
  %p.bytes.slot = getelementptr i64, ptr %bytes, i64 %p
  %p.bytes = load i64, ptr %p.bytes.slot
  %p.over = call i1 @overlap(ptr %o.data, i64 %o.bytes, ptr %p.data, i64 %p.bytes)
  br i1 %p.over, label %overlaps, label %p.next
p.next:
  br label %other
o.next:
  br label %pair
widen:
  %w = phi i64 [0, %pair], [%w.up, %w.one]
  %w.left = icmp slt i64 %w, %size.count
  br i1 %w.left, label %w.one, label %fill
w.one:
  %w.up = add i64 %w, 1
  %w.from = getelementptr i64, ptr %sizes, i64 %w
  %w.to = getelementptr i64, ptr %widened, i64 %w
  %w.size = load i64, ptr %w.from
  store i64 %w.size, ptr %w.to
  br label %widen
fill:
  %c = phi i64 [0, %widen], [%c.up, %c.one]
  %c.left = icmp slt i64 %c, %constant.count
  br i1 %c.left, label %c.one, label %take
c.one:
  %c.up = add i64 %c, 1
  %c.number = add i64 %first.constant, %c
  %c.entry = getelementptr ptr, ptr %table, i64 %c.number
  %c.data = getelementptr [32 x i8], ptr %constants, i64 %c
  store ptr %c.data, ptr %c.entry
  br label %fill
take:
  %little = icmp sle i64 %needed, {STACK_WORKSPACE}
  %scratch.bytes = select i1 %little, i64 %needed, i64 0
  %scratch = alloca i8, i64 %scratch.bytes, align 64
  %from.stack = and i1 %own.memory, %little
  %here = select i1 %own.memory, ptr %scratch, ptr %workspace
  %from.caller = xor i1 %own.memory, true
  %there.is = or i1 %from.caller, %from.stack
  br i1 %there.is, label %ready, label %allocate
allocate:
  %taken = call ptr @aligned_alloc(i64 64, i64 %needed)
  %failed = icmp eq ptr %taken, null
  br i1 %failed, label %no.memory, label %ready
ready:
  %arena = phi ptr [%here, %take], [%taken, %allocate]
  %mine = phi ptr [null, %take], [%taken, %allocate]
  call void @fusewire_control(ptr %image, ptr %table, ptr %arena, ptr %given)
  %end.slot = getelementptr i64, ptr %arena, i64 {ENDED}
  %end = load i64, ptr %end.slot
  call void @free(ptr %mine)
  %unknown = icmp eq i64 %end, {UNKNOWN}
  %code.wide = select i1 %unknown, i64 {Code.NUMBER}, i64 %end
  %code = trunc i64 %code.wide to i32
  ret i32 %code
null:
  ret i32 {Code.NULL}
other.version:
  ret i32 {Code.VERSION}
count:
  ret i32 {Code.COUNT}
size:
  ret i32 {Code.SIZE}
small:
  ret i32 {Code.WORKSPACE}
not.aligned:
  ret i32 {Code.ALIGNMENT}
overlaps:
  ret i32 {Code.OVERLAP}
no.memory:
  ret i32 {Code.MEMORY}
}}
"""
