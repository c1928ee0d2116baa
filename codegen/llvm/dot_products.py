"""Packs two 16-bit numbers or four 8-bit integers into a 32-bit word, and sums products of such
words."""

from __future__ import annotations

from collections.abc import Callable

from .ir_builder import LlvmBuilder, Value, listed

_MIN_LANES = 4  # lanes of the shortest vectors that the instructions take
_PAIR_SUM_INSTRUCTIONS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""lanes -> the instruction that adds products of integers; with what they are added to it becomes
`vpdpwssd` where there is one."""


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
