"""Computes the value ranges of index expressions.

Indices that fit are computed in 32 bits: this takes half as many registers and a fraction of
the time of 64 bits.
"""

from __future__ import annotations

from ..ir.loop_ir import INT, Call, Const, Expr, Var

Range = tuple[int, int]  # lowest and highest value
INT32_MAX = (1 << 31) - 1
BIT_OPS = {"and", "xor", "shl", "shr"}
SUPPORTED_OPS = {"add", "sub", "mul", "idiv", "imod", "minimum", "maximum", "where", "neg",
                 *BIT_OPS}


class Ranges:
    """The value ranges of integer expressions, derived from those of their variables."""

    def __init__(self) -> None:
        self._variable_ranges: dict[Var, Range | None] = {}
        self._cache: dict[Expr, Range | None] = {}

    def bind(self, var: Var, start: Range | None, stop: Range | None) -> None:
        """Sets the range of a variable that counts from `start` to before `stop`."""
        value_range = (start[0], max(start[0], stop[1] - 1)) if start and stop else None
        if var in self._variable_ranges and self._variable_ranges[var] != value_range:
            self._cache.clear()
        self._variable_ranges[var] = value_range

    def fits(self, e: Expr) -> bool:
        """True if an integer expression is known to fit into 32 bits."""
        limits = self.of(e)
        return limits is not None and -INT32_MAX <= limits[0] and limits[1] <= INT32_MAX

    def of(self, e: Expr) -> Range | None:
        """The range of an integer expression; None if it is unknown."""
        if isinstance(e, Const):
            return int(e.value), int(e.value)
        if isinstance(e, Var):
            return self._variable_ranges.get(e)
        if e not in self._cache:
            self._cache[e] = self._call_range(e) if isinstance(e, Call) and e.dtype == INT else None
        return self._cache[e]

    def _call_range(self, e: Call) -> Range | None:
        if e.op not in SUPPORTED_OPS:
            return None
        operands = e.args[1:] if e.op == "where" else e.args
        if any(x.dtype != INT for x in operands):
            return None
        operand_ranges = [self.of(x) for x in operands]
        if e.op in ("minimum", "maximum") and None in operand_ranges:
            return self._clamp_range(e, operand_ranges)
        if None in operand_ranges:
            return None
        range_of = _bit_op_range if e.op in BIT_OPS else _arithmetic_range
        return range_of(e.op, operand_ranges)  # type: ignore[arg-type]

    def _clamp_range(self, e: Call, operand_ranges: list[Range | None]) -> Range | None:
        """The range of a clamp: min(max(x, 0), 7) lies in 0 ... 7 for every x."""
        constant_range = next((r for r in operand_ranges if r is not None), None)
        unbounded = next((x for x, r in zip(e.args, operand_ranges) if r is None), None)
        if constant_range is None or not isinstance(unbounded, Call) or e.op == unbounded.op \
                or unbounded.op not in ("minimum", "maximum"):
            return None
        inner_range = next((r for r in map(self.of, unbounded.args) if r is not None), None)
        if inner_range is None:
            return None
        if e.op == "minimum":
            return min(inner_range[0], constant_range[0]), constant_range[1]
        return constant_range[0], max(inner_range[1], constant_range[1])


def _bit_op_range(op: str, operand_ranges: list[Range]) -> Range | None:
    """The range of a bit operation; None for most negative operands and for large shifts, which
    stay in 64 bits."""
    (a, b), (c, d) = operand_ranges
    if op == "and" and max(a, c) >= 0:
        return 0, min(high for low, high in operand_ranges if low >= 0)
    if a < 0 or c < 0 or (op != "xor" and d >= 31):
        return None
    return {"xor": (0, (1 << max(b, d).bit_length()) - 1),
            "shl": (a << c, b << d), "shr": (a >> d, b >> c)}[op]


def _arithmetic_range(op: str, operand_ranges: list[Range]) -> Range:
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
