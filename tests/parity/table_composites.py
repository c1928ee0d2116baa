"""Functions that are made of other ops: arithmetic, comparisons, products, distances, slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from inputs import distinct, given, ints, made, specials, x
from parity.entry import Table

import fusewire as fw

TABLE = Table("composites")
FLAGS: dict[str, Any] = {"grad": False, "kinds": "fhiu"}
SPECIAL: dict[str, Any] = {"label": "specials", "kinds": "f", "only": ("values",)}

# ---- remainders, extremes, scales
TABLE("fmod", x(3, 4), x(3, 4, low=0.5), kinds="fhi",
      ours=lambda a, b: fw.fmod(a, b), theirs=lambda a, b: torch.fmod(a, b))
TABLE("fmod", given(7, -7, 6, -6), given(3, 3, -3, -3), label="signs", kinds="fhi", grad=False)
TABLE("frac", x(3, 4))
for name in ("gcd", "lcm"):
    TABLE(name, x(4, 5, low=0, high=100), x(5, low=0, high=9), kinds="iu", grad=False)
for name in ("fmax", "fmin"):
    TABLE(name, distinct(3, 4), x(3, 4), kinds="fhiu")
    TABLE(name, *specials(2), **SPECIAL)
TABLE("heaviside", x(3, 4), x(4), kinds="fi", grad=False)
TABLE("heaviside", given(-1.0, 0, 2), x(3), label="at 0", kinds="fi", grad=False)
for weight in (0.25, 0.75):
    TABLE("lerp", x(3, 4), x(4), ours=lambda a, b, w=weight: fw.lerp(a, b, w), kinds="fh",
          theirs=lambda a, b, w=weight: torch.lerp(a, b, w), label=f"{weight}")
TABLE("lerp", x(3, 4), x(4), x(3, 1), label="tensor", kinds="fh")
TABLE("deg2rad", x(3, 4, low=-360, high=360), kinds="fhi")
TABLE("float_power", x(3, 4, low=0.5), x(4), kinds="fi", loose=2, ours=lambda a, b:
      fw.float_power(a, b), theirs=lambda a, b: torch.float_power(a, b), grad=False)
TABLE("logaddexp2", x(3, 4), x(4), kinds="f", loose=2)
TABLE("frexp", x(3, 4), kinds="f", only=("values",))
TABLE("frexp", given(0.0, -0.0, 1.0, np.inf, 0.5, 8), label="corners", kinds="f", grad=False,
      ours=lambda a: fw.frexp(a).mantissa, theirs=lambda a: torch.frexp(a).mantissa)
# torch.ldexp has the gradient 0 for negative exponents: 2 ** exponent is an integer there.
TABLE("ldexp", x(3, 4), ints(4, low=-5, below=5), kinds="fh",
      theirs=lambda a, n: a * torch.exp2(n.to(a.dtype)))

# ---- comparisons
for name in ("isclose",):
    TABLE(name, given(1, 2, 3, 100), given(1, 2.1, 3.00001, 100.0001), **FLAGS)
    TABLE(name, *specials(2), **SPECIAL, more={"equal_nan": True}, grad=False)
TABLE("allclose", x(3, 4), label="equal", **FLAGS, ours=lambda a: fw.allclose(a, a),
      theirs=lambda a: torch.tensor(torch.allclose(a, a)))
TABLE("allclose", x(3, 4), label="apart", **FLAGS, ours=lambda a: fw.allclose(a, a + 1),
      theirs=lambda a: torch.tensor(torch.allclose(a, a + 1)))
for name in ("isneginf", "isposinf"):
    TABLE(name, *specials(1), kinds="fh", grad=False)
    TABLE(name, x(3), label="finite", kinds="iu", grad=False)
TABLE("isreal", x(3, 4), kinds="fhciub", grad=False)
TABLE("isreal", given(1, 1j, 0), label="some", kinds="c", grad=False)

# ---- scaled sums
SUMS = {"addmm": ((3, 5), (3, 4), (4, 5)), "addmv": ((3,), (3, 4), (4,)),
        "addr": ((3, 4), (3,), (4,)), "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5))}
for name, shapes in SUMS.items():
    TABLE(name, *[x(*s) for s in shapes], kinds="fci", loose=4)
    TABLE(name, *[x(*s) for s in shapes], kinds="f", more={"beta": 0.5, "alpha": 2.0}, loose=4)
# torch's kernel takes float8 only, and is compared in tests/parity/test_stored_dtypes_torch.py
TABLE("scaled_matmul", x(3, 4), x(4, 5), x(3, 1), x(1, 5), loose=4, kinds="f",
      theirs=lambda a, b, s, t: (a * s) @ (b * t))
TABLE("scaled_matmul", x(2, 3, 4), x(4, 5), x(), x(1), x(5), label="bias", loose=4, kinds="f",
      ours=lambda a, b, s, t, c: fw.scaled_matmul(a, b, s, t, bias=c),
      theirs=lambda a, b, s, t, c: (a * s) @ (b * t) + c)
TABLE("addcmul", x(3, 4), x(4), x(3, 1), kinds="fci", more={"value": 2})
TABLE("addcdiv", x(3, 4), x(4), x(3, 1, low=0.5), kinds="fc", more={"value": 2}, loose=2)
TABLE("inner", x(3, 4), x(2, 4), kinds="fci", loose=4)

# ---- diagonals, joined and split tensors
TABLE("block_diag", x(2, 3), x(2), x(1, 2), kinds="fhciub", ours=lambda *a: fw.block_diag(*a))
for k in (0, 1, -2):
    TABLE("diag_embed", x(2, 3), label=f"{k}", ours=lambda a, k=k: fw.diag_embed(a, k),
          theirs=lambda a, k=k: torch.diag_embed(a, k), kinds="fci")
    TABLE("diagflat", x(2, 3), label=f"{k}", ours=lambda a, k=k: fw.diagflat(a, k),
          theirs=lambda a, k=k: torch.diagflat(a, k), kinds="fci")
    TABLE("diagonal_scatter", x(3, 3), x(3 - abs(k)), label=f"{k}", kinds="fci",
          ours=lambda a, v, k=k: fw.diagonal_scatter(a, v, k),
          theirs=lambda a, v, k=k: torch.diagonal_scatter(a, v, k))
for name in ("dstack", "column_stack"):
    TABLE(name, x(3), x(3), kinds="fci", ours=lambda *a, n=name: getattr(fw, n)(a),
          theirs=lambda *a, n=name: getattr(torch, n)(a))
for name, shape in (("hsplit", (3, 4)), ("dsplit", (2, 3, 4))):
    for parts in (2, (1, 3)):
        TABLE(name, x(*shape), kinds="fci", label=f"{parts}",
              ours=lambda a, n=name, p=parts: getattr(fw, n)(a, p),
              theirs=lambda a, n=name, p=parts: getattr(torch, n)(a, p))
TABLE("cartesian_prod", x(2), x(3), kinds="fci", ours=lambda *a: fw.cartesian_prod(*a))
for r, again in ((2, False), (3, True)):
    TABLE("combinations", x(4), kinds="fci", label=f"{r}, {again}",
          ours=lambda a, r=r, w=again: fw.combinations(a, r, w),
          theirs=lambda a, r=r, w=again: torch.combinations(a, r, w))

# ---- distances and Cholesky factors
for p in (1.0, 2.0, 3.0, float("inf")):
    TABLE("cdist", x(2, 3, 4), x(2, 5, 4), label=f"p={p}", kinds="f", loose=10,
          ours=lambda a, b, p=p: fw.cdist(a, b, p), theirs=lambda a, b, p=p: torch.cdist(
              a, b, p, compute_mode="donot_use_mm_for_euclid_dist"),
          only=("values", "grad", "vmap"))
    TABLE("dist", x(3, 4), x(4), label=f"p={p}", ours=lambda a, b, p=p: fw.dist(a, b, p),
          theirs=lambda a, b, p=p: torch.dist(a, b, p), kinds="f", loose=10)
LOWER = made(lambda rng, d: (np.tril(rng.uniform(-0.5, 0.5, (3, 3)), -1) + np.eye(3) * 2).astype(d))
# In torch the triangle that cholesky_solve does not read has gradients, and cholesky_inverse is not
# symmetric in forward mode.
low = torch.tril
for upper in (False, True):
    TABLE("cholesky_solve", x(3, 2), LOWER, label=f"upper={upper}", kinds="f", loose=20,
          ours=lambda b, t, u=upper: fw.cholesky_solve(b, t.mT if u else t, u),
          theirs=lambda b, t, u=upper: torch.cholesky_solve(b, low(t).mT if u else low(t), u))
    TABLE("cholesky_inverse", LOWER, label=f"upper={upper}", kinds="f", loose=20,
          ours=lambda t, u=upper: fw.cholesky_inverse(t.mT if u else t, u),
          theirs=lambda t: torch.linalg.inv(low(t) @ low(t).mT))
TABLE("logdet", made(lambda rng, d: (rng.uniform(-0.5, 0.5, (2, 3, 3)) + 2 * np.eye(3)).astype(d)),
      kinds="f", loose=20)

# ---- reductions, statistics and search
TABLE("aminmax", distinct(3, 4), kinds="fhi", ours=lambda a: fw.aminmax(a),
      theirs=lambda a: torch.aminmax(a))
TABLE("aminmax", distinct(3, 4), kinds="fhi", label="axis=1", ours=lambda a: fw.aminmax(a, 1),
      theirs=lambda a: torch.aminmax(a, dim=1))
for right in (False, True):
    TABLE("bucketize", x(3, 4), given(-2.0, 0.0, 0.0, 1.5), label=f"right={right}", kinds="f",
          ours=lambda a, b, r=right: fw.bucketize(a, b, r), grad=False,
          theirs=lambda a, b, r=right: torch.bucketize(a, b, right=r))
COUNTS = {"dtype": "counts are whole numbers as NumPy's; torch gives floats"}
TABLE("histogramdd", x(30, 2), grad=False, kinds="f", differs=COUNTS, label="of given edges",
      ours=lambda a: fw.histogramdd(a, [5, 3], [(-2.0, 2.0), (-1.0, 3.0)]),
      theirs=lambda a: torch.histogramdd(a, [5, 3], range=[-2.0, 2.0, -1.0, 3.0]))
for order in (1, 2):
    TABLE("gradient", x(4, 5), kinds="f", label=f"edge_order={order}", loose=4,
          ours=lambda a, o=order: fw.gradient(a, 0.5, edge_order=o),
          theirs=lambda a, o=order: torch.gradient(a, spacing=0.5, edge_order=o))
    TABLE("gradient", x(5), given(0.0, 1, 1.5, 4, 4.25), kinds="f", label=f"by points, {order}",
          loose=4, ours=lambda a, t, o=order: fw.gradient(a, [t.detach()], edge_order=o),
          theirs=lambda a, t, o=order: torch.gradient(a, spacing=(t.detach(),), edge_order=o))
TABLE("cumulative_trapezoid", x(3, 5), kinds="f", ours=lambda a: fw.cumulative_trapezoid(a, dx=2.0),
      theirs=lambda a: torch.cumulative_trapezoid(a, dx=2.0))
TABLE("cumulative_trapezoid", x(3, 5), x(5), kinds="f", label="by coordinates")

# ---- slices at indices
for axis in (0, 1):
    TABLE("index_copy", x(4, 4), given(2, 0, dtype=np.int64), x(*((4, 2) if axis else (2, 4))),
          label=f"axis={axis}", kinds="fci",
          ours=lambda a, i, v, d=axis: fw.index_copy(a, d, i, v),
          theirs=lambda a, i, v, d=axis: torch.index_copy(a, d, i, v))
for how in ("prod", "mean", "amax", "amin"):
    for own in (True, False):
        TABLE("index_reduce", x(4, 3, low=0.5), given(2, 0, 2, dtype=np.int64), x(3, 3, low=0.5),
              label=f"{how}, {own}", kinds="f", only=("values", "grad"),
              ours=lambda a, i, v, h=how, w=own: fw.index_reduce(a, 0, i, v, h, w),
              theirs=lambda a, i, v, h=how, w=own: torch.index_reduce(
                  a, 0, i, v, h, include_self=w))
for add in (False, True):
    TABLE("index_put", x(3, 4, 2), given(0, 2, dtype=np.int64), given(1, 3, dtype=np.int64),
          x(2, 2), label=f"accumulate={add}", kinds="f",
          ours=lambda a, i, j, v, s=add: fw.index_put(a, (i, j), v, s),
          theirs=lambda a, i, j, v, s=add: torch.index_put(a, (i, j), v, s))
for base in (10.0, 2.0):
    TABLE("logspace", label=f"base={base}", grad=False, kinds="f",
          differs={"vmap": "has no inputs"},
          ours=lambda b=base: fw.logspace(0, 3, 7, base=b), loose=4,
          theirs=lambda b=base: torch.logspace(0, 3, 7, base=b))
