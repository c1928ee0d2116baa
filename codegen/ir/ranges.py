"""Computes the ranges of integer operations, by interval arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

Range = tuple[int, int]  # lowest and highest value
_BIT_OPS = {"and", "xor", "shl", "shr"}
OPS_WITH_RANGE = {"add", "sub", "mul", "idiv", "imod", "minimum", "maximum", "where", "neg",
                  *_BIT_OPS}


def range_of(op: str, operand_ranges: Sequence[Range]) -> Range | None:
    """The range of a scalar operation of `OPS_WITH_RANGE` whose operands have these ranges, those
    of the two values of a `where`; None if it is unknown."""
    by_kind = _bit_op_range if op in _BIT_OPS else _arithmetic_range
    return by_kind(op, operand_ranges)


def _bit_op_range(op: str, operand_ranges: Sequence[Range]) -> Range | None:
    """The range of a bit operation; None for most negative operands and for large shifts, which
    stay in 64 bits."""
    (a, b), (c, d) = operand_ranges
    if op == "and" and max(a, c) >= 0:
        return 0, min(high for low, high in operand_ranges if low >= 0)
    if a < 0 or c < 0 or (op != "xor" and d >= 31):
        return None
    return {"xor": (0, (1 << max(b, d).bit_length()) - 1),
            "shl": (a << c, b << d), "shr": (a >> d, b >> c)}[op]


def _arithmetic_range(op: str, operand_ranges: Sequence[Range]) -> Range:
    """The range of an arithmetic operation, by interval arithmetic."""
    (a, b), (c, d) = operand_ranges[0], operand_ranges[-1]
    if op == "mul":
        corners = [a * c, a * d, b * c, b * d]
        return min(corners), max(corners)
    if op == "idiv":
        return (min(a, 0) if a < 0 else a // max(d, 1)), max(b, 0) // max(c, 1)
    if op == "imod":
        return (1 - d if a < 0 else 0), min(d - 1, max(b, 0))
    return {
        "add": (a + c, b + d), "sub": (a - d, b - c), "neg": (-b, -a),
        "minimum": (min(a, c), min(b, d)), "maximum": (max(a, c), max(b, d)),
        "where": (min(a, c), max(b, d)),
    }[op]  # fmt: skip
