"""Calls functions out of line: the C library for each lane, and helpers that contain branches."""

from __future__ import annotations

from collections.abc import Callable

from .ir_builder import LlvmBuilder, Value, constant, suffix


def per_lane(k: LlvmBuilder, name: str, *args: Value | float) -> Value:
    """A function of the C library, called once for each lane."""
    xs = k.match(*args)
    kind, lanes = xs[0].type, xs[0].lanes
    symbol = name + ("f" if kind == "float" else "")
    k.module.symbols.add(symbol)
    if not lanes:
        return k.call(symbol, xs, kind, 0)
    helper = f"fw.{symbol}.{suffix(xs[0])}"
    if helper not in k.module.helpers:
        k.module.declare(kind, symbol, [kind] * len(xs))
        k.module.helpers[helper] = _lane_by_lane(helper, symbol, xs)
    return k.call(helper, xs, kind, lanes)


def _lane_by_lane(helper: str, symbol: str, xs: list[Value]) -> str:
    kind, full = xs[0].type, xs[0].full
    head = ", ".join(f"{full} %x{j}" for j in range(len(xs)))
    lines = [f"define internal {full} @{helper}({head}) #0 {{"]
    result = "poison"
    for i in range(xs[0].lanes):
        for j in range(len(xs)):
            lines.append(f"  %e{i}_{j} = extractelement {full} %x{j}, i64 {i}")
        args = ", ".join(f"{kind} %e{i}_{j}" for j in range(len(xs)))
        lines.append(f"  %c{i} = call {kind} @{symbol}({args})")
        lines.append(f"  %r{i} = insertelement {full} {result}, {kind} %c{i}, i64 {i}")
        result = f"%r{i}"
    return "\n".join([*lines, f"  ret {full} {result}", "}"])


def outlined(k: LlvmBuilder, name: str, xs: list[Value], write: Callable[..., Value]) -> Value:
    """A call of a function whose body `write(builder, *xs)` writes, with blocks if it likes."""
    helper = f"fw.{name}.{suffix(xs[0])}"
    if helper not in k.module.helpers:
        inner = LlvmBuilder(k.module)
        parameters = [x._replace(text=f"%x{j}", depth=0) for j, x in enumerate(xs)]
        result = write(inner, *parameters)
        head = ", ".join(x.typed for x in parameters)
        k.module.helpers[helper] = (
            f"define internal {result.full} @{helper}({head}) #0 {{\n"
            f"entry:\n{inner.body()}\n  ret {result.typed}\n}}"
        )
    return k.call(helper, xs, xs[0].type, xs[0].lanes)


def corrected(k: LlvmBuilder, fast: Value, wrong: Value, slow: Callable[[], Value]) -> Value:
    """`fast`, except in the lanes that are `wrong`: there `slow()`, computed only if there are any.
    """
    some = wrong
    if wrong.lanes:
        some = k.reduce_bits("or", wrong)
    before = k.label
    k.raw(f"br i1 {some.text}, label %slow, label %done")
    k.block("slow")
    right = k.select(wrong, slow(), fast)
    k.raw("br label %done")
    k.block("done")
    name = k.fresh()
    k.raw(f"{name} = phi {fast.full} [{fast.text}, %{before}], [{right.text}, %slow]")
    return Value(name, fast.type, fast.lanes)


def integer_pow(k: LlvmBuilder, x: Value, y: Value, signed: bool) -> Value:
    """x to the power of an integer, wrapping; negative powers are 0 but for those of 1 and -1."""
    if y.text.isdigit() and int(y.text) <= 4:
        result = constant(1, x.type, x.lanes)
        for _ in range(int(y.text)):
            result = k.binary("mul", result, x)
        return result
    xs = k.match(x, y)
    power = outlined(k, "ipow", xs, _square_and_multiply)
    if not signed:
        return power
    odd = k.compare("ne", k.binary("and", y, 1), 0)
    one, zero = constant(1, x.type), constant(0, x.type)
    inverse = k.select(k.compare("eq", x, 1), one, zero)
    inverse = k.select(k.compare("eq", x, -1), k.select(odd, constant(-1, x.type), one), inverse)
    return k.select(k.compare("slt", y, 0), inverse, power)


def _square_and_multiply(k: LlvmBuilder, x: Value, y: Value) -> Value:
    one, zero = constant(1, x.type, x.lanes), constant(0, x.type, x.lanes)
    base, left, result = (Value(f"%{name}", x.type, x.lanes) for name in ("base", "left", "result"))
    phis: list[str] = []
    k.raw("br label %loop")
    k.block("loop")
    k.lines.append(phis)
    odd = k.compare("ne", k.binary("and", left, 1), zero)
    product = k.select(odd, k.binary("mul", result, base), result)
    square = k.binary("mul", base, base)
    rest = k.binary("lshr", left, 1)
    more = k.compare("ne", rest, zero)
    some = more
    if more.lanes:
        some = k.reduce_bits("or", more)
    k.raw(f"br i1 {some.text}, label %loop, label %end")
    k.block("end")
    for phi, start, following in ((base, x, square), (left, y, rest), (result, one, product)):
        phis.append(
            f"  {phi.text} = phi {x.full} [{start.text}, %entry], [{following.text}, %loop]"
        )
    return product
