"""The lines that random programs are made of.

A maker returns an expression over names of the pool, or None if it finds no operands that fit.
Whether the expression is valid, NumPy tells when it runs the line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .namespaces import INTEGERS
from .pool import Pool, Variable

POINTWISE = ("exp(-xp.abs({}))", "tanh({})", "sigmoid({})", "sin({})", "log1p(xp.abs({}))",
             "sqrt(xp.abs({}))", "softmax({}, axis=-1)", "expm1(xp.tanh({}))", "cos({})",
             "atan({})", "asinh({})", "log({})", "exp2(xp.tanh({}))")
EXACT_POINTWISE = ("negative({})", "abs({})", "square({})", "sign({})", "floor({})", "ceil({})",
                   "trunc({})", "round({})", "relu({})", "positive({})")
TESTS = ("isnan({})", "isinf({})", "isfinite({})")
ARITHMETIC = ("{} + {}", "{} - {}", "{} * {}")
QUOTIENTS = ("{} / {}", "{} * xp.reciprocal({})")
COMPARISONS = ("{} < {}", "{} <= {}", "{} == {}", "{} != {}", "{} > {}", "{} >= {}")
INTEGER = (*ARITHMETIC, "{} // {}", "{} % {}", "{} & {}", "{} | {}", "{} ^ {}",
           "{} << ({} & 7)", "{} >> ({} & 7)", "xp.maximum({}, {})", "xp.minimum({}, {})")
SLICES = ("[::-1]", "[1:]", "[:-1]", "[::2]", "[..., ::-1]", "[..., ::-2]", "[..., 1:]", "[-3:-1]",
          "[:, None]", "[0]", "[-1]", "[..., 0]", "[:, ::-1]", "[1:, 1:]", "[0:0]", "[..., -2::-1]")
INPLACE = ("{v}[::2] = {w}", "{v}[..., 0] = {w}", "{v}[-1] = {w}", "{v} += {w}", "{v} *= {w}",
           "{v}[::-1] = {w}", "{v}[{mask}] = {w}", "{v}[..., 1:] += {w}", "{v} -= {w}")


def exact(v: Variable) -> bool:
    return v.exact


def partner(rng: Any, pool: Pool, name: str, **options: Any) -> str | None:
    """Another operand of the same dtype whose shape broadcasts with that of `name` in all calls."""
    x = pool.variables[name]

    def fits(v: Variable) -> bool:
        if v.dtype != x.dtype:
            return False
        try:
            return all(np.prod(np.broadcast_shapes(a.shape, b.shape)) <= 20_000
                       for a, b in zip(v.values, x.values))
        except ValueError:
            return False
    return pool.pick(rng, x.kind, where=fits, **options)


def pointwise(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "f", ndim=1)
    return x and f"xp.{rng.choice(POINTWISE).format(x)}"


def exact_pointwise(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "fi", where=exact)
    return x and f"xp.{rng.choice(EXACT_POINTWISE).format(x)}"


def test(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "f", where=exact)
    forms = (*TESTS, "signbit({})") if x and pool.variables[x].signed_zero else TESTS
    return x and f"xp.{rng.choice(forms).format(x)}"


def arithmetic(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "f")
    y = x and partner(rng, pool, x)
    form = rng.choice([*ARITHMETIC, "{} / xp.exp(xp.tanh({}))", "xp.maximum({}, {})",
                       "xp.minimum({}, {})", *QUOTIENTS])
    if y and form in QUOTIENTS and not pool.variables[y].signed_zero:
        return None  # the sign of an infinity would be that of a zero
    return y and form.format(x, y)


def with_number(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "f", where=lambda v: v.dtype.kind == "f")  # not bfloat16: see NumPy's rules
    form = rng.choice(["{} * 0.5", "1 - {}", "{} + s.scale", "{} * s.scale", "{} / 4", "{} + s.k",
                       "s.k * {}", "xp.clip({}, -1.5, 2.25)", "2.0 - {}", "{} ** 2"])
    return x and form.format(x)


def integer(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "iu")
    y = x and partner(rng, pool, x)
    return y and str(rng.choice(INTEGER)).format(x, y)


def integer_with_number(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "iu")
    form = rng.choice(["{} + 1", "{} * 3", "{} // 2", "{} % 5", "{} + s.k", "{} * s.k", "~{}",
                       "{} >> 1", "{} << 2", "-{}", "xp.abs({})", "{} ** 2", "xp.clip({}, 1, 5)"])
    return x and form.format(x)


def boolean(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "b")
    y = x and partner(rng, pool, x)
    form = rng.choice(["{} & {}", "{} | {}", "{} ^ {}", "xp.logical_and({}, {})", "{} == {}"])
    return y and form.format(x, y)


def comparison(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "fiu", where=exact)
    y = x and partner(rng, pool, x)
    if not y or not pool.variables[y].exact:
        return None
    return str(rng.choice(COMPARISONS)).format(x, y)


def cast(rng: Any, pool: Pool) -> str | None:
    """Casts among integers wrap around; floats become integers only where these have them all."""
    x = pool.pick(rng, where=exact)
    if x is None:
        return None
    v, target = pool.variables[x], str(rng.choice(["F", "F", "D", "H", "bool", *INTEGERS]))
    if v.kind == "f" and target in INTEGERS:
        low, high = np.iinfo(target).min, np.iinfo(target).max
        if not all(np.isfinite(a).all() and (a >= low).all() and (a.astype(float) < high).all()
                   for a in v.values):
            return None
    return f"xp.astype({x}, xp.{target})"


def where(rng: Any, pool: Pool) -> str | None:
    mask, x = pool.pick(rng, "b"), pool.pick(rng)
    y = x and partner(rng, pool, x)
    return mask and y and f"xp.where({mask}, {x}, {y})"


def reduction(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "fiub", ndim=1)
    if x is None:
        return None
    kind, axis = pool.variables[x].kind, int(rng.integers(-1, pool.variables[x].ndim))
    names = {"f": ["sum", "mean", "max", "min", "prod"], "b": ["any", "all"]}.get(
        kind, ["sum", "max", "min", "prod", "any", "all"])
    options = rng.choice(["", "", ", keepdims=True"])
    return f"xp.{rng.choice(names)}({x}, axis={axis}{options})"


def whole_reduction(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "f")
    return x and f"xp.{rng.choice(['sum', 'mean', 'max', 'min'])}({x})"


def choice_of_index(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "fiu", ndim=1, where=exact)
    axis = x and int(rng.integers(pool.variables[x].ndim))
    return x and f"xp.{rng.choice(['argmax', 'argmin', 'argsort', 'sort'])}({x}, axis={axis})"


def scan(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "fi", ndim=1)
    return x and f"xp.cumulative_sum({x}, axis={int(rng.integers(pool.variables[x].ndim))})"


def view(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, ndim=1)
    if x is None:
        return None
    ndim = pool.variables[x].ndim
    order = tuple(int(a) for a in rng.permutation(ndim))
    axis = int(rng.integers(ndim))
    return str(rng.choice([
        f"xp.permute_dims({x}, {order})", f"xp.reshape({x}, (-1,))", f"xp.flip({x}, axis={axis})",
        f"xp.expand_dims({x}, axis={axis})", f"xp.broadcast_to({x}, (2, *{x}.shape))",
        f"xp.pad({x}, [(1, 2)] * {ndim})", f"xp.reshape({x}, {x}.shape[::-1])",
        f"xp.roll({x}, 2, axis={axis})", f"xp.concat([{x}, {x}], axis={axis})",
        f"xp.stack([{x}, {x}], axis={axis})", *[x + s for s in rng.choice(SLICES, 6)]]))


def joined(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, ndim=1)
    y = x and partner(rng, pool, x, ndim=1)
    return y and f"xp.{rng.choice(['concat', 'stack'])}([{x}, {y}], axis=0)"


def product(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "fi", ndim=1, where=lambda v: v.dtype.itemsize > 1)
    if x is None:
        return None
    dtype = pool.variables[x].dtype
    y = pool.pick(rng, "fi", ndim=1, where=lambda v: v.dtype == dtype)
    return y and str(rng.choice(["xp.matmul({}, {})", "xp.matmul({}, xp.permute_dims({}, (1, 0)))",
                                 "xp.matmul(xp.permute_dims({}, (1, 0)), {})"])).format(x, y)


def gather(rng: Any, pool: Pool) -> str | None:
    x, i = pool.pick(rng, ndim=1), pool.pick(rng, "i", ndim=1, where=lambda v: v.ndim == 1)
    if not x or not i:
        return None
    axis = int(rng.integers(pool.variables[x].ndim))
    low = rng.choice(["", f" - {x}.shape[{axis}]"])
    return f"xp.take({x}, xp.astype({i}, xp.int64) % {x}.shape[{axis}]{low}, axis={axis})"


def scatter(rng: Any, pool: Pool) -> str | None:
    """Rows added at indices with duplicates."""
    x = pool.pick(rng, "fi", ndim=1)
    y = x and pool.pick(rng, "fi", ndim=1, where=lambda v: v.dtype == pool.variables[x].dtype
                        and v.values[0].shape[1:] == pool.variables[x].values[0].shape[1:]
                        and v.ndim == pool.variables[x].ndim)
    i = pool.pick(rng, "i", where=lambda v: v.ndim == 1)
    if not y or not i:
        return None
    index = f"xp.astype({i}, xp.int64) % {x}.shape[0]"
    rows = f"xp.take({y}, xp.arange({i}.shape[0]) % {y}.shape[0], axis=0)"
    return f"xp.index_add({x}, 0, {index}, {rows})"


def branch(rng: Any, pool: Pool) -> str | None:
    """A choice by a Python value of the state, which changes between calls."""
    x = pool.pick(rng, "fiu")
    y = x and partner(rng, pool, x)
    return y and f"(xp.positive({x}) if s.flag else xp.positive({y}))"


def state_read(rng: Any, pool: Pool) -> str | None:
    x = pool.pick(rng, "f", where=lambda v: v.dtype == np.float32)
    return x and f"{x} * s.row[0] + s.row[-1]" if rng.random() < 0.5 else "s.row * 2"


MAKERS = (
    [pointwise] * 4 + [exact_pointwise] * 3 + [test] + [arithmetic] * 5 + [with_number] * 3
    + [integer] * 4 + [integer_with_number] * 3 + [boolean] + [comparison] * 2 + [cast] * 3
    + [where] * 2 + [reduction] * 3 + [whole_reduction, choice_of_index, scan] + [view] * 6
    + [joined] + [product] * 2 + [gather, scatter, branch, state_read])
UNSIGNED_ZERO = ("max", "min", "sum", "mean", "prod", "matmul", "relu", "clip", "sort", "round",
                 "index_add", "%", "softmax", "sign(", "argm", "pow")


def change(rng: Any, pool: Pool) -> str | None:
    """A statement that changes an array in place, or the state."""
    if rng.random() < 0.4:
        x = pool.pick(rng, "f", ndim=1, where=lambda v: v.ndim == 1)
        return str(rng.choice(["s.count = s.count + 1", "s.row = s.row * 0.5 + 1",
                               "s.log.append(s.k)", "s.k = s.k + 1",
                               f"s.last = {x} * 2" if x else "s.count = s.count + 2"]))
    v = pool.pick(rng, "fi", ndim=1, where=lambda v: v.owned)
    w = v and partner(rng, pool, v)
    mask = pool.pick(rng, "b", where=lambda m: v is not None
                     and [a.shape for a in m.values] == [a.shape for a in pool.variables[v].values])
    form = str(rng.choice(INPLACE))
    if not w or w == v or ("{mask}" in form and (not mask or pool.variables[w].ndim)):
        return None
    return form.format(v=v, w=w, mask=mask)
