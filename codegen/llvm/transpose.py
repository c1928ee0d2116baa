"""Square blocks turned in registers, each by a function of its module.

LLVM takes 0.2 ms for every exchange of two registers, and a program turns blocks of one size in
many places: there it calls one function, which costs nothing beside the turning.
"""

from __future__ import annotations

from .text import Builder, Module, Value, listed, suffix


def transposing(module: Module, kind: str, size: int, rows: int, align: int) -> str:
    """The name of the function that turns `rows` rows of `size` elements. It is given where the
    first row is, the bytes from one to the next, and the same of what it writes."""
    name = f"fw.transpose.{suffix(Value('', kind, size))}.{rows}"
    if name not in module.helpers:
        module.helpers[name] = _function(Builder(module), name, kind, size, rows, align)
    return name


def _function(k: Builder, name: str, kind: str, size: int, rows: int, align: int) -> str:
    held = [Value("zeroinitializer", kind, size)] * size
    for r, p in enumerate(_lines(k, "%source", "%pitch", rows)):
        held[r] = k.place(f"load {held[r].full}, {p.typed}, align {align}", kind, size, 0)
    step = 1
    while step < size:
        held = _exchanged(k, held, step)
        step *= 2
    for row, p in zip(held, _lines(k, "%target", "%step", size)):
        k.raw(f"store {_first(k, row, rows).typed}, {p.typed}, align {align}")
    head = f"define internal void @{name}(ptr %source, i64 %pitch, ptr %target, i64 %step) #0 {{"
    return f"{head}\nentry:\n{k.body()}\n  ret void\n}}"


def _lines(k: Builder, first: str, bytes_between: str, count: int) -> list[Value]:
    """Where the lines of a block begin."""
    found = [Value(first, "ptr")]
    while len(found) < count:
        text = f"getelementptr i8, {found[-1].typed}, i64 {bytes_between}"
        found.append(k.place(text, "ptr", 0, 0))
    return found


def _exchanged(k: Builder, rows: list[Value], step: int) -> list[Value]:
    """Rows `step` apart, with the blocks of `step` elements off their diagonals exchanged."""
    size, out = len(rows), list(rows)
    first = listed([e if not e & step else size + e - step for e in range(size)], "i32")
    second = listed([e + step if not e & step else size + e for e in range(size)], "i32")
    for r in range(size):
        if r & step:
            continue
        a, b = rows[r], rows[r + step]
        for place, mask in ((r, first), (r + step, second)):
            text = f"shufflevector {a.typed}, {b.typed}, {mask.typed}"
            out[place] = k.place(text, a.type, size, 0)
    return out


def _first(k: Builder, row: Value, count: int) -> Value:
    """The first elements of a vector."""
    if count == row.lanes:
        return row
    mask = listed(list(range(count)), "i32").typed
    return k.place(f"shufflevector {row.typed}, {row.typed}, {mask}", row.type, count, 0)
