"""Square blocks turned in registers, each by a function of its module.

LLVM takes 0.2 ms for every exchange of two registers, and a program turns blocks of one size in
many places: there it calls one function, which costs nothing beside the turning. Blocks with fewer
rows than a vector has elements have one for all numbers of rows, where processors have masks.
"""

from __future__ import annotations

from . import masked_stores
from .ir_builder import LlvmBuilder, LlvmModule, Value, constant, lane_numbers, listed, suffix

_ROWS = Value("%rows", "i64")


def transposing(module: LlvmModule, kind: str, size: int, rows: int, align: int) -> str:
    """The name of the function that turns `rows` rows of `size` elements. It is given where the
    first row is, the bytes from one to the next, the same of what it writes, and the rows."""
    masks = rows < size and align >= 4 and size * align >= 32  # stored by one instruction
    name = f"fw.transpose.{suffix(Value('', kind, size))}.{'some' if masks else rows}"
    if name not in module.helpers:
        module.helpers[name] = _function(LlvmBuilder(module), name, kind, size,
                                         0 if masks else rows, align)
    return name


def _function(k: LlvmBuilder, name: str, kind: str, size: int, rows: int, align: int) -> str:
    """The text of the function; of any number of rows for 0."""
    held = [Value("zeroinitializer", kind, size)] * size
    for r, p in enumerate(_lines(k, "%source", "%pitch", rows) if rows else _those_there(k, size)):
        held[r] = k.place(f"load {held[r].full}, {p.typed}, align {align}", kind, size, 0)
    step = 1
    while step < size:
        held = _exchanged(k, held, step)
        step *= 2
    for row, p in zip(held, _lines(k, "%target", "%step", size)):
        if rows:
            k.raw(f"store {_first(k, row, rows).typed}, {p.typed}, align {align}")
        else:
            _store_some(k, row, p, align)
    arguments = "ptr %source, i64 %pitch, ptr %target, i64 %step, i64 %rows"
    head = f"define internal void @{name}({arguments}) #0 {{"
    return f"{head}\nentry:\n{k.body()}\n  ret void\n}}"


def _lines(k: LlvmBuilder, first: str, bytes_between: str, count: int) -> list[Value]:
    """Where the lines of a block begin."""
    found = [Value(first, "ptr")]
    while len(found) < count:
        text = f"getelementptr i8, {found[-1].typed}, i64 {bytes_between}"
        found.append(k.place(text, "ptr", 0, 0))
    return found


def _those_there(k: LlvmBuilder, size: int) -> list[Value]:
    """Where the rows of a block begin; in the place of those that are not there, the last one."""
    found = [Value("%source", "ptr")]
    for r in range(1, size):
        pitch = k.select(k.compare("ult", constant(r, "i64"), _ROWS), Value("%pitch", "i64"), 0)
        found.append(k.place(f"getelementptr i8, {found[-1].typed}, {pitch.typed}", "ptr", 0, 0))
    return found


def _store_some(k: LlvmBuilder, row: Value, place: Value, align: int) -> None:
    """Stores as many elements as there are rows."""
    few = masked_stores.opaque(k, k.integer(_ROWS, "i32"))
    mask = k.compare("ult", lane_numbers(row.lanes), few)
    masked_stores.store(k, row, place, align, mask)


def _exchanged(k: LlvmBuilder, rows: list[Value], step: int) -> list[Value]:
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


def _first(k: LlvmBuilder, row: Value, count: int) -> Value:
    """The first elements of a vector."""
    if count == row.lanes:
        return row
    mask = listed(list(range(count)), "i32").typed
    return k.place(f"shufflevector {row.typed}, {row.typed}, {mask}", row.type, count, 0)
