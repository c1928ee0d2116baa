"""Rows of complex numbers: their parts, and every op that takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, b1, c8, c16, f4, f8, i8, row

import fusewire as fw
from fusewire.eager.ops.elementwise import complex as parts
from fusewire.eager.ops.elementwise import pointwise
from fusewire.eager.ops.reduction import reduce
from fusewire.eager.ops.shape import view


def away_from_cuts(rng: Any, shape: Any, dtype: Any) -> Array:
    """Numbers in all quadrants, not near 0, 1, -1 or the axes, where the functions have cuts."""
    size, angle = rng.uniform(0.3, 0.8, shape), rng.uniform(0.2, 1.3, shape)
    turned = angle + rng.integers(0, 4, shape) * np.pi / 2
    return np.asarray(size * np.exp(1j * turned), dtype=dtype)


def some(count: int) -> list[Any]:
    """Inputs of `count` complex tensors: single and double, empty, 0-d, not contiguous."""
    shapes: list[Any] = [((3, 2), c8), ((2, 3), c16), ((), c16), ((0, 2), c8)]
    makers = [lambda rng, s=s, d=d: tuple(away_from_cuts(rng, s, d) for _ in range(count))
              for s, d in shapes]
    return [*makers, lambda rng: tuple(away_from_cuts(rng, (4, 3), c16).T for _ in range(count))]


# ---- parts
no_string = "takes tensors, not str"
for name in ("conj", "real", "imag"):
    row(name, getattr(parts, name), some(1), getattr(np, name), errors=(
        Bad(lambda f=name: getattr(parts, f)("x"), f"{name}: {no_string}"),))
row("angle", parts.angle, [*some(1), arrays((5,)), arrays((5,), dtypes=f8), arrays((4,), dtypes=i8),
                           lambda rng: (np.array([0.0, -0.0, np.nan, -np.inf]),)], np.angle,
    smooth=False)
row("angle", parts.angle, some(1), np.angle, label="complex")
row("complex", parts.complex,
    [arrays((3, 2), (2,)), arrays((2,), (3, 1), dtypes=f8), arrays((), (0,)),
     arrays((2,), (2,), dtypes=(f4, f8)), arrays((2,), (2,), dtypes=(i8, b1))],
    lambda x, y: x + 1j * y, errors=(
        Bad(lambda: parts.complex(fw.zeros(2), fw.zeros(3)), "complex: shapes (2,) and (3,)"),
        Bad(lambda: parts.complex(fw.tensor([1j]), 1.0), "complex: takes real floating")))

# ---- pointwise
NUMPY = {"negative": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square,
         "reciprocal": np.reciprocal, "rsqrt": lambda x: 1 / np.sqrt(x),
         "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "positive": np.positive}
for name in ("negative abs sign square reciprocal rsqrt sigmoid sqrt exp exp2 expm1 log log1p log2 "
             "log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh").split():
    row(name, getattr(pointwise, name), some(1), NUMPY.get(name) or getattr(np, name),
        label="complex", tolerance=1e-5)
row("round", lambda x: pointwise.round(x * 5), some(1), lambda x: np.rint(x * 5), label="complex",
    grad=False)
for name in "add subtract multiply divide pow".split():
    row(name, getattr(pointwise, name), some(2), getattr(np, name), label="complex",
        tolerance=1e-5)
for name in ("equal", "not_equal"):
    row(name, getattr(pointwise, name), some(2), getattr(np, name), label="complex", grad=False)
for name in ("isnan", "isinf", "isfinite"):
    row(name, getattr(pointwise, name),
        [lambda rng: (np.array([1, complex(np.nan, 0), complex(0, np.inf)]),)],
        getattr(np, name), label="complex", grad=False)
row("pow", lambda x: pointwise.pow(x, 3), some(1), lambda x: x ** 3, label="complex cubed",
    tolerance=1e-5)
row("pow", lambda x: pointwise.pow(2j, x), some(1), lambda x: 2j ** x, label="of 2j",
    tolerance=1e-5)
row("multiply", lambda x: x * 2j, [arrays((3,)), arrays((3,), dtypes=f8), arrays((2,), dtypes=i8)],
    lambda x: x * 2j, label="real by imaginary")
row("multiply", lambda x, y: x * y, [lambda rng: (away_from_cuts(rng, (3, 2), c16),
                                                  rng.standard_normal(2))],
    lambda x, y: x * y, label="complex by real")
row("where", lambda c, x, y: pointwise.where(c, x, y),
    [lambda rng: (rng.integers(0, 2, 3) == 1, away_from_cuts(rng, (2, 3), c8), rng.random(3)),
     lambda rng: (np.array([True, False]), away_from_cuts(rng, (2,), c16), np.array(0.5))],
    np.where, label="complex")
row("cast", lambda x: pointwise.astype(x, fw.complex128), [arrays((3,)), *some(1)[:1]],
    lambda x: x, label="to complex", grad=False)
row("cast", lambda x: pointwise.astype(x, fw.complex128), [arrays((3,), dtypes=f8)],
    lambda x: x + 0j, label="float64 to complex")
row("cast", lambda x: pointwise.astype(x, fw.float64), [lambda rng: (away_from_cuts(rng, 3, c16),)],
    np.real, label="to the real part")

# ---- reductions and views
row("sum", lambda x: reduce.sum(x, 0), some(1)[:2], lambda x: x.sum(0), label="complex")
row("prod", lambda x: reduce.prod(x, 1), some(1)[:2], lambda x: x.prod(1), label="complex")
row("prod", reduce.prod, [lambda rng: (np.array([0j, 1 + 2j, 3 - 1j]),)], lambda x: x.prod(),
    label="complex with a zero")
row("sum", reduce.mean, some(1)[:2], lambda x: x.mean(), label="complex mean")
row("sum", lambda x: reduce.var(x, 0, correction=1), some(1)[:2], lambda x: x.var(0, ddof=1),
    label="complex var")
row("sum", reduce.std, some(1)[:2], np.std, label="complex std")
for name, call in {
        "reshape": lambda x: view.reshape(x, (-1,)), "permute_dims": lambda x: x.mT,
        "slice": lambda x: x[::-1, 1:], "broadcast_to": lambda x: view.broadcast_to(x, (2, 2, 3)),
}.items():
    row(name, call, [lambda rng: (away_from_cuts(rng, (2, 3), c16),)],
        {"reshape": lambda x: x.reshape(-1), "permute_dims": lambda x: x.T,
         "slice": lambda x: x[::-1, 1:],
         "broadcast_to": lambda x: np.broadcast_to(x, (2, 2, 3))}[name], label="complex")
