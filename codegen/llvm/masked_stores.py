"""Stores vectors under a mask, in forms that LLVM compiles correctly.

LLVM 22 makes a scalar store of a masked store whose mask has a single lane. On AVX-512, if the
elements were narrowed from wider integers, it stores the wide integer: four bytes in place of two,
over the bytes behind. So a mask that is known to have one lane becomes a scalar store here, and all
other masks are hidden from LLVM's constant folding.
"""

from __future__ import annotations

from .ir_builder import LlvmBuilder, Value, constant, listed, suffix

_WIDEST = 8  # bytes of an integer that is narrowed from no other


def store(k: LlvmBuilder, value: Value, p: Value, size: int, mask: Value) -> None:
    """Stores the elements of `value`, of `size` bytes each, whose lanes are in the mask: a literal,
    or a value that is no constant to LLVM (`first_lanes`, `unknown`)."""
    lanes = _listed(mask)
    if lanes is None or len(lanes) > 1:
        by_intrinsic(k, "store", value, p, size, mask)
    elif lanes:
        _store_lane(k, value, p, size, lanes[0])


def by_intrinsic(k: LlvmBuilder, kind: str, value: Value, p: Value, size: int, mask: Value) -> None:
    """Writes the intrinsic itself: "store" to one address, or "scatter" to one for each lane."""
    name = f"llvm.masked.{kind}.{suffix(value)}.{suffix(p)}"
    k.module.declare("void", name, [value.full, p.full, "i32", mask.full])
    k.raw(f"call void @{name}({value.typed}, {p.typed}, i32 {size}, {mask.typed})")


def strided(k: LlvmBuilder, value: Value, p: Value, size: int, step: int) -> None:
    """Stores the elements of `value`, of `size` bytes each, `step` elements apart: one masked store
    for each vector of the span, whose other elements stay as they are."""
    lanes = value.lanes
    for first in range(0, lanes * step, lanes):
        places = {n * step - first: n for n in range(lanes) if first <= n * step < first + lanes}
        numbers = listed([places.get(n, 0) for n in range(lanes)], "i32")
        spread = k.instruction(f"shufflevector {value.typed}, {value.full} poison, {numbers.typed}",
                               value.type, lanes, value.depth)
        at = k.instruction(f"getelementptr i8, {p.typed}, i64 {first * size}", "ptr", 0, p.depth)
        store(k, spread, at, size, listed([n in places for n in range(lanes)], "i1"))


def opaque(k: LlvmBuilder, x: Value) -> Value:
    """The same scalar integer, hidden from LLVM's optimizer; this takes no instruction."""
    if not k.module.target.x86:
        return x
    return k.instruction(f'call {x.type} asm "", "=r,0"({x.typed})', x.type, 0, x.depth)


def unknown(k: LlvmBuilder, mask: Value, size: int) -> Value:
    """The same mask, hidden from LLVM's optimizer, for a store of elements of `size` bytes."""
    if size == _WIDEST or not k.module.target.x86:
        return mask
    on = k.compare("ne", opaque(k, constant(1, "i32")), 0)
    return k.binary("and", mask, on)


def _listed(mask: Value) -> list[int] | None:
    """The lanes of a literal mask; None for a mask that is computed."""
    if not mask.text.startswith("<"):
        return None
    return [n for n, lane in enumerate(mask.text[1:-1].split(", ")) if lane == "i1 true"]


def _store_lane(k: LlvmBuilder, value: Value, p: Value, size: int, lane: int) -> None:
    element = k.instruction(f"extractelement {value.typed}, i64 {lane}", value.type, 0, value.depth)
    at = k.instruction(f"getelementptr i8, {p.typed}, i64 {lane * size}", "ptr", 0, p.depth)
    k.raw(f"store {element.typed}, {at.typed}, align {size}")
