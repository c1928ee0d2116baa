"""Holds the IR of the checks before a program runs: sizes, arrays, weights.

One text serves every library. It reads the constants that `library_module.py` writes.
"""

from __future__ import annotations

from .abi import Code

TYPES = """
; Structs of callers: an array (elements, shape, rank, dtype), and a call (version; inputs, their
; number; outputs, their number; sizes, their number; workspace, its bytes; weights, their bytes;
; parallel_for, its context).
%array = type {ptr, ptr, i32, i32}
%call = type {i64, ptr, i64, ptr, i64, ptr, i64, ptr, i64, ptr, i64, ptr, ptr}

; A size is a factor times the product of dynamic sizes, plus an offset: (factor, offset, the first
; of their numbers in a list, the end). An array: dtype, bytes of an element, rank, its first size.
%size = type {i64, i64, i64, i64}
%kind = type {i64, i64, i64, i64}

; A variant: its control image, bytes of workspace; the least and the largest value of each size;
; arrays, sizes, numbers of the dynamic sizes in them; constants in records of 32 bytes, their
; number.
%variant = type {ptr, i64, ptr, ptr, ptr, ptr, ptr, i64}

; A library: its variants, their number; numbers of inputs, outputs, sizes; the embedded weights, or
; null; bytes of weights, or 0; the head of the weights; the number of states among the inputs.
%library = type {ptr, i64, i64, i64, i64, ptr, i64, ptr, i64}
"""

LOOKS = f"""
; The value of a size.
define internal i64 @size_at(ptr %variant, i64 %number, ptr %sizes) #0 {{
entry:
  %all.slot = getelementptr %variant, ptr %variant, i64 0, i32 4
  %symbols.slot = getelementptr %variant, ptr %variant, i64 0, i32 5
  %all = load ptr, ptr %all.slot
  %symbols = load ptr, ptr %symbols.slot
  %size.slot = getelementptr %size, ptr %all, i64 %number
  %size = load %size, ptr %size.slot
  %factor = extractvalue %size %size, 0
  %more = extractvalue %size %size, 1
  %first = extractvalue %size %size, 2
  %end = extractvalue %size %size, 3
  br label %head
head:
  %i = phi i64 [%first, %entry], [%up, %multiply]
  %product = phi i64 [%factor, %entry], [%next, %multiply]
  %left = icmp slt i64 %i, %end
  br i1 %left, label %multiply, label %done
multiply:
  %which.slot = getelementptr i64, ptr %symbols, i64 %i
  %which = load i64, ptr %which.slot
  %own.slot = getelementptr i64, ptr %sizes, i64 %which
  %own = load i64, ptr %own.slot
  %next = mul i64 %product, %own
  %up = add i64 %i, 1
  br label %head
done:
  %sum = add i64 %product, %more
  ret i64 %sum
}}

; The variant for these sizes, or null if there is none.
define internal ptr @variant_for(ptr %library, ptr %sizes) #0 {{
entry:
  %library.all = load %library, ptr %library
  %variants = extractvalue %library %library.all, 0
  %variant.count = extractvalue %library %library.all, 1
  %size.count = extractvalue %library %library.all, 4
  br label %head
head:
  %v = phi i64 [0, %entry], [%v.up, %other]
  %v.left = icmp slt i64 %v, %variant.count
  br i1 %v.left, label %look, label %none
look:
  %variant = getelementptr %variant, ptr %variants, i64 %v
  %ranges.slot = getelementptr %variant, ptr %variant, i64 0, i32 2
  %ranges = load ptr, ptr %ranges.slot
  br label %compare
compare:
  %i = phi i64 [0, %look], [%up, %fits]
  %left = icmp slt i64 %i, %size.count
  br i1 %left, label %one, label %found
one:
  %up = add i64 %i, 1
  %size.slot = getelementptr i64, ptr %sizes, i64 %i
  %least.slot = getelementptr [2 x i64], ptr %ranges, i64 %i
  %most.slot = getelementptr i64, ptr %least.slot, i64 1
  %size = load i64, ptr %size.slot
  %least = load i64, ptr %least.slot
  %most = load i64, ptr %most.slot
  %below = icmp sle i64 %size, %most
  %above = icmp sge i64 %size, %least
  %fit = and i1 %below, %above
  br i1 %fit, label %fits, label %other
fits:
  br label %compare
other:
  %v.up = add i64 %v, 1
  br label %head
found:
  ret ptr %variant
none:
  ret ptr null
}}

; The code OK if an array of a call fits a program. Stores the bytes of its elements.
define internal i32 @match(ptr %variant, ptr %kind, ptr %sizes, ptr %array, ptr %bytes) #0 {{
entry:
  %wanted = load %kind, ptr %kind
  %wanted.dtype = extractvalue %kind %wanted, 0
  %itemsize = extractvalue %kind %wanted, 1
  %wanted.rank = extractvalue %kind %wanted, 2
  %first = extractvalue %kind %wanted, 3
  %argument = load %array, ptr %array
  %data = extractvalue %array %argument, 0
  %shape = extractvalue %array %argument, 1
  %rank.narrow = extractvalue %array %argument, 2
  %dtype.narrow = extractvalue %array %argument, 3
  %rank = sext i32 %rank.narrow to i64
  %dtype = sext i32 %dtype.narrow to i64
  %dtype.same = icmp eq i64 %dtype, %wanted.dtype
  br i1 %dtype.same, label %typed, label %other.dtype
typed:
  %rank.same = icmp eq i64 %rank, %wanted.rank
  br i1 %rank.same, label %ranked, label %other.rank
ranked:
  %scalar = icmp eq i64 %rank, 0
  %shape.there = icmp ne ptr %shape, null
  %shaped = or i1 %scalar, %shape.there
  br i1 %shaped, label %head, label %no.pointer
head:
  %i = phi i64 [0, %ranked], [%up, %equal]
  %product = phi i64 [%itemsize, %ranked], [%next, %equal]
  %left = icmp slt i64 %i, %rank
  br i1 %left, label %axis, label %whole
axis:
  %up = add i64 %i, 1
  %number = add i64 %first, %i
  %size = call i64 @size_at(ptr %variant, i64 %number, ptr %sizes)
  %own.slot = getelementptr i64, ptr %shape, i64 %i
  %own = load i64, ptr %own.slot
  %next = mul i64 %product, %size
  %same = icmp eq i64 %own, %size
  br i1 %same, label %equal, label %other.shape
equal:
  br label %head
whole:
  store i64 %product, ptr %bytes
  %empty = icmp eq i64 %product, 0
  %data.there = icmp ne ptr %data, null
  %usable = or i1 %empty, %data.there
  br i1 %usable, label %aligned, label %no.pointer
aligned:
  %address = ptrtoint ptr %data to i64
  %mask = sub i64 %itemsize, 1
  %off = and i64 %address, %mask
  %fine = icmp eq i64 %off, 0
  br i1 %fine, label %ok, label %not.aligned
ok:
  ret i32 {Code.OK}
other.dtype:
  ret i32 {Code.DTYPE}
other.rank:
  ret i32 {Code.RANK}
other.shape:
  ret i32 {Code.SHAPE}
no.pointer:
  ret i32 {Code.NULL}
not.aligned:
  ret i32 {Code.ALIGNMENT}
}}

; True if two ranges of bytes overlap.
define internal i1 @overlap(ptr %a, i64 %a.bytes, ptr %b, i64 %b.bytes) #0 {{
  %a.first = ptrtoint ptr %a to i64
  %b.first = ptrtoint ptr %b to i64
  %a.end = add i64 %a.first, %a.bytes
  %b.end = add i64 %b.first, %b.bytes
  %a.before = icmp ult i64 %a.first, %b.end
  %b.before = icmp ult i64 %b.first, %a.end
  %both = and i1 %a.before, %b.before
  %a.some = icmp ne i64 %a.bytes, 0
  %b.some = icmp ne i64 %b.bytes, 0
  %some = and i1 %a.some, %b.some
  %found = and i1 %both, %some
  ret i1 %found
}}

; The code OK if weights are those of a library. Stores their address.
define internal i32 @find_weights(ptr %library, ptr %argument, i64 %bytes, ptr %where) #0 {{
entry:
  %library.all = load %library, ptr %library
  %inside = extractvalue %library %library.all, 5
  %needed = extractvalue %library %library.all, 6
  %expected = extractvalue %library %library.all, 7
  %none = icmp eq i64 %needed, 0
  %own = icmp ne ptr %inside, null
  %known = or i1 %none, %own
  br i1 %known, label %ours, label %theirs
ours:
  store ptr %inside, ptr %where
  ret i32 {Code.OK}
theirs:
  %null = icmp eq ptr %argument, null
  br i1 %null, label %no.pointer, label %long
long:
  %address = ptrtoint ptr %argument to i64
  %off = and i64 %address, 63
  %aligned = icmp eq i64 %off, 0
  br i1 %aligned, label %sized, label %not.aligned
sized:
  %enough = icmp sge i64 %bytes, %needed
  br i1 %enough, label %head, label %others
head:
  %i = phi i64 [0, %sized], [%up, %same]
  %left = icmp slt i64 %i, 8
  br i1 %left, label %word, label %fine
word:
  %up = add i64 %i, 1
  %a.slot = getelementptr i64, ptr %argument, i64 %i
  %b.slot = getelementptr i64, ptr %expected, i64 %i
  %a = load i64, ptr %a.slot
  %b = load i64, ptr %b.slot
  %equal = icmp eq i64 %a, %b
  br i1 %equal, label %same, label %others
same:
  br label %head
fine:
  store ptr %argument, ptr %where
  ret i32 {Code.OK}
no.pointer:
  ret i32 {Code.NULL}
not.aligned:
  ret i32 {Code.ALIGNMENT}
others:
  ret i32 {Code.WEIGHTS}
}}
"""
