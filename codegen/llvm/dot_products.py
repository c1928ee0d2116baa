"""Packs two 16-bit numbers or four 8-bit integers into a 32-bit word, and sums products of such
words: in vectors, or in the tile registers of AMX.

A tile register has up to 16 rows of up to 16 words. Four hold sums, two by two; two hold rows and
two hold columns. So a step of the loop loads four tiles and multiplies them in four pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ir.loop_ir import TILE_SIDE, TileDot, TileShape, WordMatrix
from .affine import Affine, scaled
from .affine import total as sum_of
from .ir_builder import LlvmBuilder, LlvmModule, Value, listed

if TYPE_CHECKING:
    from .control_flow import LlvmControlFlow

_WORD_BYTES = 4
_SUMS, _ROWS, _COLUMNS = (0, 1, 2, 3), (4, 5), (6, 7)  # numbers of tile registers
_INSTRUCTIONS = {("bfloat16", "bfloat16"): "tdpbf16ps",
                 ("uint8", "int8"): "tdpbusd", ("int8", "uint8"): "tdpbsud",
                 ("int8", "int8"): "tdpbssd", ("uint8", "uint8"): "tdpbuud"}
"""(elements of rows, elements of columns) -> instruction"""
_MIN_LANES = 4  # lanes of the shortest vectors that the instructions take
_PAIR_SUM_INSTRUCTIONS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""lanes -> the instruction that adds products of integers; with the addition to a
sum it becomes `vpdpwssd` where there is one."""


def pair(k: LlvmBuilder, x: Value, y: Value) -> Value:
    """Packs two bfloat16 numbers into a word, the first in the low half."""
    low, high = k.match(*(k.cast("bitcast", v, "i32") for v in (x, y)))
    return k.binary("or", k.binary("lshr", low, 16), k.binary("and", high, -1 << 16))


def pair16(k: LlvmBuilder, x: Value, y: Value) -> Value:
    """Packs the lower 16 bits of two integers into a word, the first in the low half."""
    low, high = k.match(*(k.integer(v, "i32") for v in (x, y)))
    return k.binary("or", k.binary("and", low, 0xFFFF), k.binary("shl", high, 16))


def dot(k: LlvmBuilder, x: Value, y: Value) -> Value:
    """The sum of the products of two bfloat16 pairs."""
    (a, c), (b, d) = ([k.cast("bitcast", half, "float") for half in (
        k.binary("shl", v, 16), k.binary("and", v, -1 << 16))] for v in (x, y))
    return k.binary("fadd", k.binary("fmul", a, b), k.binary("fmul", c, d))


def dot16(k: LlvmBuilder, x: Value, y: Value) -> Value:
    """The sum of the products of two 16-bit integer pairs."""
    (a, c), (b, d) = ((k.binary("ashr", k.binary("shl", v, 16), 16), k.binary("ashr", v, 16))
                      for v in (x, y))
    return k.binary("add", k.binary("mul", a, b), k.binary("mul", c, d))


def quad8(k: LlvmBuilder, *values: Value) -> Value:
    """Packs the lower 8 bits of four integers into a word, the first lowest."""
    four = k.match(*(k.integer(v, "i32") for v in values))
    packed = k.binary("and", four[0], 0xFF)
    for n, value in enumerate(four[1:], 1):
        packed = k.binary("or", packed, k.binary("shl", k.binary("and", value, 0xFF), 8 * n))
    return packed


def dot8(k: LlvmBuilder, x: Value, y: Value) -> Value:
    """The sum of the products of four unsigned and four signed 8-bit integers."""
    total = None
    for n in range(4):
        first = k.binary("and", k.binary("lshr", x, 8 * n), 0xFF)
        second = k.binary("ashr", k.binary("shl", y, 24 - 8 * n), 24)
        product = k.binary("mul", first, second)
        total = product if total is None else k.binary("add", total, product)
    assert total is not None
    return total


def plus_dot(k: LlvmBuilder, total: Value, x: Value, y: Value) -> Value:
    """A float32 plus `dot`, by the processor's own instruction if it has one."""
    instruction = _plus_dot if k.module.target.dot else None
    return _multiply_add(k, instruction, "fadd", dot, *k.match(total, x, y))


def plus_dot16(k: LlvmBuilder, total: Value, x: Value, y: Value) -> Value:
    """An int32 plus `dot16`, by the processor's own instruction if it has one."""
    instruction = _plus_dot16 if k.module.target.dot16 else None
    return _multiply_add(k, instruction, "add", dot16, *k.match(total, x, y))


def plus_dot8(k: LlvmBuilder, total: Value, x: Value, y: Value) -> Value:
    """An int32 plus `dot8`, by the processor's own instruction if it has one."""
    instruction = _plus_dot8 if k.module.target.dot8 else None
    return _multiply_add(k, instruction, "add", dot8, *k.match(total, x, y))


def _multiply_add(k: LlvmBuilder, instruction: Callable[..., Value] | None, add: str,
                  product: Callable[..., Value],
                  total: Value, x: Value, y: Value) -> Value:
    """The total plus the product of two words, by the vector `instruction` or else by `add` and
    `product`."""
    if instruction is None or total.lanes < _MIN_LANES:
        return k.binary(add, total, product(k, x, y))
    return _vector_by_vector(k, instruction, total, x, y)


def _plus_dot8(k: LlvmBuilder, total: Value, x: Value, y: Value) -> Value:
    name = f"llvm.x86.avx512.vpdpbusd.{32 * total.lanes}"
    return k.call(name, [total, x, y], "i32", total.lanes)


def _plus_dot(k: LlvmBuilder, total: Value, *pairs: Value) -> Value:
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * total.lanes}"
    halves = [_halves(k, v, "bfloat") for v in pairs]
    return k.call(name, [total, *halves], "float", total.lanes)


def _plus_dot16(k: LlvmBuilder, total: Value, *pairs: Value) -> Value:
    halves = [_halves(k, v, "i16") for v in pairs]
    name = f"llvm.x86.{_PAIR_SUM_INSTRUCTIONS[total.lanes]}"
    return k.binary("add", total, k.call(name, halves, "i32", total.lanes))


def _halves(k: LlvmBuilder, words: Value, kind: str) -> Value:
    """The two numbers of each word as neighbouring lanes."""
    count = 2 * words.lanes
    return k.instruction(f"bitcast {words.typed} to <{count} x {kind}>", kind, count, words.depth)


def _vector_by_vector(k: LlvmBuilder, one: Callable[..., Value], *values: Value) -> Value:
    """`one` of as many lanes as the processor's vectors have, for all lanes."""
    lanes = values[0].lanes
    width = min(lanes, k.module.target.vector_bytes // 4)
    parts = [one(k, *(_lanes(k, v, first, width) for v in values))
             for first in range(0, lanes, width)]
    while len(parts) > 1:
        parts = [_concat(k, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _lanes(k: LlvmBuilder, x: Value, first: int, count: int) -> Value:
    """Some neighbouring lanes of a vector."""
    if count == x.lanes:
        return x
    selection = listed(range(first, first + count), "i32").typed
    text = f"shufflevector {x.typed}, {x.full} poison, {selection}"
    return k.instruction(text, x.type, count, x.depth)


def _concat(k: LlvmBuilder, x: Value, y: Value) -> Value:
    """The lanes of two vectors, those of the first in front."""
    selection = listed(range(2 * x.lanes), "i32").typed
    text = f"shufflevector {x.typed}, {y.typed}, {selection}"
    return k.instruction(text, x.type, 2 * x.lanes, max(x.depth, y.depth))


# ---- tiles
def set_tile_shape(k: LlvmControlFlow, s: TileShape) -> None:
    """Writes the instruction that gives tile registers their shapes; they become 0."""
    name = _shape_constant(k.module, s)
    _call(k, "ldtilecfg", f"ptr {name}")


def release_tiles(k: LlvmControlFlow) -> None:
    """Writes the instruction that frees the tile registers."""
    _call(k, "tilerelease", "")


def multiply_tiles(k: LlvmControlFlow, s: TileDot) -> None:
    """Writes a tile of sums: it is loaded or cleared, added to step by step, and stored."""
    if k.lane is not None:
        raise ValueError("tiles cannot be multiplied inside a lane loop")
    row_tiles, column_tiles = (range(-(-n // TILE_SIDE)) for n in (s.shape.rows, s.width))
    sums = {(i, j): (_SUMS[2 * i + j], _tile_address(k, s, i, j))
            for i in row_tiles for j in column_tiles}
    pitch = s.pitch * _WORD_BYTES
    for number, address in sums.values():
        if s.adds:
            _move(k, "tileloadd64", number, address, pitch)
        else:
            _call(k, "tilezero", f"i8 {number}")
    instruction = _INSTRUCTIONS[s.rows.elements.name, s.columns.elements.name]

    def step(index: Affine, values: list[Value]) -> list[Value]:
        for j in column_tiles:
            _load_columns(k, s.columns, index, j)
        for i in row_tiles:
            _load_rows(k, s.rows, index, i)
            for j in column_tiles:
                _call(k, instruction, f"i8 {sums[i, j][0]}, i8 {_ROWS[i]}, i8 {_COLUMNS[j]}")
        return values

    k.counted_loop(Affine({}), k.affine(s.depth), s.shape.depth, [], frozenset({s.buffer}), step)
    for number, address in sums.values():
        _move(k, "tilestored64", number, address, pitch)
    k.changed(s.buffer)


def _tile_address(k: LlvmControlFlow, s: TileDot, i: int, j: int) -> Value:
    offset = Affine({}, TILE_SIDE * (i * s.pitch + j))
    return k.pointer(s.buffer, sum_of(k.affine(s.index), offset))


def _load_rows(k: LlvmControlFlow, m: WordMatrix, depth: Affine, i: int) -> None:
    size = m.buffer.dtype.itemsize
    index = sum_of(k.affine(m.index), scaled(depth, _WORD_BYTES // size))
    first = k.pointer(m.buffer, sum_of(index, Affine({}, i * TILE_SIDE * m.pitch)))
    _move(k, "tileloadd64", _ROWS[i], first, m.pitch * size)


def _load_columns(k: LlvmControlFlow, m: WordMatrix, depth: Affine, j: int) -> None:
    index = sum_of(k.affine(m.index), scaled(depth, m.pitch))
    first = k.pointer(m.buffer, sum_of(index, Affine({}, j * TILE_SIDE)))
    _move(k, "tileloadd64", _COLUMNS[j], first, m.pitch * m.buffer.dtype.itemsize)


def _move(k: LlvmControlFlow, instruction: str, tile: int, address: Value, pitch: int) -> None:
    _call(k, instruction, f"i8 {tile}, {address.typed}, i64 {pitch}")


def _call(k: LlvmControlFlow, instruction: str, operands: str) -> None:
    """Writes an instruction on tiles, in order with all others."""
    types = [operand.split()[0] for operand in operands.split(", ") if operand]
    k.module.declare("void", f"llvm.x86.{instruction}", types)
    k.raw(f"call void @llvm.x86.{instruction}({operands})")


def _shape_constant(module: LlvmModule, s: TileShape) -> str:
    """The name of the constant that describes the shapes of all tile registers."""
    first, second = min(s.rows, TILE_SIDE), max(1, s.rows - TILE_SIDE)
    rows = [first, first, second, second, first, second, s.depth, s.depth]
    widths = [TILE_SIDE] * 4 + [s.depth] * 2 + [TILE_SIDE] * 2
    content = [1, *[0] * 15, *(b for n in widths for b in (n * _WORD_BYTES, 0)), *[0] * 16,
               *rows, *[0] * 8]
    name = f"@fw.tiles.{s.rows}.{s.depth}"
    text = ", ".join(f"i8 {b}" for b in content)
    module.declarations[f"{name} = internal constant [64 x i8] [{text}], align 64"] = None
    return name
