"""Between which numbers indices lie: those that fit are computed in 32 bits, half as many registers
and a fraction of the time of 64."""

from __future__ import annotations

from ..ir.loop_ir import INT, Call, Const, Expr, Var

Range = tuple[int, int]  # lowest and highest value
_MOST = (1 << 31) - 1
_BITS = {"and", "xor", "shl", "shr"}
_OPS = {"add", "sub", "mul", "idiv", "imod", "minimum", "maximum", "where", "neg", *_BITS}


class Ranges:
    """The ranges of whole numbers, by those of the variables they are made of."""

    def __init__(self) -> None:
        self._bound: dict[Var, Range | None] = {}
        self._memo: dict[Expr, Range | None] = {}

    def bind(self, var: Var, start: Range | None, stop: Range | None) -> None:
        """From here on a variable counts from `start` to before `stop`."""
        found = (start[0], max(start[0], stop[1] - 1)) if start and stop else None
        if var in self._bound and self._bound[var] != found:
            self._memo.clear()
        self._bound[var] = found

    def fits(self, e: Expr) -> bool:
        """Whether a whole number is known to fit into 32 bits."""
        found = self.of(e)
        return found is not None and -_MOST <= found[0] and found[1] <= _MOST

    def of(self, e: Expr) -> Range | None:
        """The range of a whole number, None where nothing is known."""
        if isinstance(e, Const):
            return int(e.value), int(e.value)
        if isinstance(e, Var):
            return self._bound.get(e)
        if e not in self._memo:
            self._memo[e] = self._of_call(e) if isinstance(e, Call) and e.dtype == INT else None
        return self._memo[e]

    def _of_call(self, e: Call) -> Range | None:
        if e.op not in _OPS:
            return None
        parts = e.args[1:] if e.op == "where" else e.args
        if any(x.dtype != INT for x in parts):
            return None
        known = [self.of(x) for x in parts]
        if e.op in ("minimum", "maximum") and None in known:
            return self._one_end(e, known)
        if None in known:
            return None
        return (_of_bits if e.op in _BITS else _combined)(e.op, known)  # type: ignore[arg-type]

    def _one_end(self, e: Call, known: list[Range | None]) -> Range | None:
        """min(max(x, 0), 7) lies in 0 ... 7, whatever x is."""
        other = next((r for r in known if r is not None), None)
        inner = next((x for x, r in zip(e.args, known) if r is None), None)
        if other is None or not isinstance(inner, Call) or e.op == inner.op \
                or inner.op not in ("minimum", "maximum"):
            return None
        bound = next((r for r in map(self.of, inner.args) if r is not None), None)
        if bound is None:
            return None
        low, high = (bound[0], other[1]) if e.op == "minimum" else (other[0], bound[1])
        return (min(low, other[0]), high) if e.op == "minimum" else (low, max(high, other[1]))


def _of_bits(op: str, known: list[Range]) -> Range | None:
    """Most of numbers below 0, and shifts out of the word, are left to 64 bits."""
    (a, b), (c, d) = known
    if op == "and" and max(a, c) >= 0:
        return 0, min(high for low, high in known if low >= 0)
    if a < 0 or c < 0 or (op != "xor" and d >= 31):
        return None
    return {"xor": (0, (1 << max(b, d).bit_length()) - 1),
            "shl": (a << c, b << d), "shr": (a >> d, b >> c)}[op]


def _combined(op: str, known: list[Range]) -> Range:
    (a, b), (c, d) = known[0], known[-1]
    if op == "mul":
        ends = [a * c, a * d, b * c, b * d]
        return min(ends), max(ends)
    if op == "idiv":
        return (min(a, 0) if a < 0 else a // max(d, 1)), max(b, 0) // max(c, 1)
    if op == "imod":
        return (1 - d if a < 0 else 0), min(d - 1, max(b, 0))
    return {
        "add": (a + c, b + d), "sub": (a - d, b - c), "neg": (-b, -a),
        "minimum": (min(a, c), min(b, d)), "maximum": (max(a, c), max(b, d)),
        "where": (min(a, c), max(b, d)),
    }[op]  # fmt: skip
