"""Transposes square blocks in registers, by one function per block size of a module.

LLVM takes 0.2 ms to compile every exchange of two registers, and a program transposes blocks of one
size in many places: these call one function, at no cost. Where processors have masked stores,
blocks with fewer rows than elements in a vector share one function for all row counts.
"""

from __future__ import annotations

from . import masked_stores
from .ir_builder import LlvmBuilder, LlvmModule, Value, constant, lane_numbers, listed, suffix

_ROWS = Value("%rows", "i64")


def transpose_function(module: LlvmModule, kind: str, size: int, rows: int, align: int) -> str:
    """The name of the function that transposes `rows` rows of `size` elements. Its arguments are
    the first row and the row pitch in bytes of source and target, and the number of rows."""
    masks = rows < size and align >= 4 and size * align >= 32  # stored by one instruction
    name = f"fw.transpose.{suffix(Value('', kind, size))}.{'some' if masks else rows}"
    if name not in module.helpers:
        module.helpers[name] = _function(LlvmBuilder(module), name, kind, size,
                                         0 if masks else rows, align)
    return name


def _function(k: LlvmBuilder, name: str, kind: str, size: int, rows: int, align: int) -> str:
    """The text of the function; with `rows` 0 it takes any number of rows."""
    vectors = [Value("zeroinitializer", kind, size)] * size
    for r, p in enumerate(_lines(k, "%source", "%pitch", rows)
                          if rows else _clamped_lines(k, size)):
        vectors[r] = k.instruction(f"load {vectors[r].full}, {p.typed}, align {align}", kind, size,
                                   0)
    step = 1
    while step < size:
        vectors = _exchange(k, vectors, step)
        step *= 2
    for row, p in zip(vectors, _lines(k, "%target", "%step", size)):
        if rows:
            k.raw(f"store {_first(k, row, rows).typed}, {p.typed}, align {align}")
        else:
            _store_some(k, row, p, align)
    arguments = "ptr %source, i64 %pitch, ptr %target, i64 %step, i64 %rows"
    head = f"define internal void @{name}({arguments}) #0 {{"
    return f"{head}\nentry:\n{k.body()}\n  ret void\n}}"


def _lines(k: LlvmBuilder, first: str, bytes_between: str, count: int) -> list[Value]:
    """The addresses of the rows of a block."""
    addresses = [Value(first, "ptr")]
    while len(addresses) < count:
        text = f"getelementptr i8, {addresses[-1].typed}, i64 {bytes_between}"
        addresses.append(k.instruction(text, "ptr", 0, 0))
    return addresses


def _clamped_lines(k: LlvmBuilder, size: int) -> list[Value]:
    """The addresses of the rows of a block; the last row's address for rows beyond it."""
    addresses = [Value("%source", "ptr")]
    for r in range(1, size):
        pitch = k.select(k.compare("ult", constant(r, "i64"), _ROWS), Value("%pitch", "i64"), 0)
        addresses.append(k.instruction(f"getelementptr i8, {addresses[-1].typed}, {pitch.typed}",
                                       "ptr", 0, 0))
    return addresses


def _store_some(k: LlvmBuilder, row: Value, address: Value, align: int) -> None:
    """Stores the first elements of a row, as many as there are rows."""
    opaque_count = masked_stores.opaque(k, k.integer(_ROWS, "i32"))
    mask = k.compare("ult", lane_numbers(row.lanes), opaque_count)
    masked_stores.store(k, row, address, align, mask)


def _exchange(k: LlvmBuilder, rows: list[Value], step: int) -> list[Value]:
    """Rows `step` apart, with the blocks of `step` elements off their diagonals exchanged."""
    size, out = len(rows), list(rows)
    first = listed([e if not e & step else size + e - step for e in range(size)], "i32")
    second = listed([e + step if not e & step else size + e for e in range(size)], "i32")
    for r in range(size):
        if r & step:
            continue
        a, b = rows[r], rows[r + step]
        for target, mask in ((r, first), (r + step, second)):
            text = f"shufflevector {a.typed}, {b.typed}, {mask.typed}"
            out[target] = k.instruction(text, a.type, size, 0)
    return out


def _first(k: LlvmBuilder, row: Value, count: int) -> Value:
    """The first elements of a vector."""
    if count == row.lanes:
        return row
    mask = listed(list(range(count)), "i32").typed
    return k.instruction(f"shufflevector {row.typed}, {row.typed}, {mask}", row.type, count, 0)
