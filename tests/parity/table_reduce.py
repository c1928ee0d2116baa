"""Reductions, running results and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from inputs import bools, distinct, given, ints, made, x
from parity.entry import Table

import fusewire as fw

TABLE = Table("reductions")
AXES: list[dict[str, Any]] = [{}, {"axis": 1}, {"axis": (0, -1)}, {"axis": 0, "keepdims": True}]

UNSIGNED = "the standard's sums and products of unsigned numbers are unsigned; torch's are int64"
TRUTH = "the standard's any and all are bool; torch's of uint8 are uint8"


def reduction(name: str, kinds: str, theirs: Any = None, **how: Any) -> None:
    """Entries over some, one and all axes."""
    for more in AXES:
        def other(a: Any, name: str = theirs or name, more: Any = more) -> Any:
            fn = getattr(torch, name)
            if "axis" not in more:
                return fn(a)
            return fn(a, more["axis"], keepdim=more.get("keepdims", False))

        TABLE(name, x(2, 3, 4), more=more, theirs=other, kinds=kinds, **how)


def products(a: Any, axes: Any, keepdim: bool = False) -> Any:
    """torch.prod takes one axis only."""
    for axis in sorted([n % a.ndim for n in np.atleast_1d(axes)], reverse=True):
        a = torch.prod(a, int(axis), keepdim=keepdim)
    return a


reduction("sum", "fhcib")
reduction("mean", "fhc", loose=2)
reduction("max", "fhib", theirs="amax")
reduction("min", "fhib", theirs="amin")
reduction("any", "fib")
reduction("all", "fib")
for name, why in (("sum", UNSIGNED), ("prod", UNSIGNED), ("any", TRUTH), ("all", TRUTH)):
    TABLE(name, x(2, 3, low=0), kinds="u", label="uint8", differs={"dtype": why})
TABLE("prod", x(2, 3, 4), kinds="fhci", loose=4)
TABLE("prod", x(2, 3, 4), more={"axis": 1}, theirs=lambda a: torch.prod(a, 1), kinds="fcihb")
TABLE("prod", x(2, 3, 4), more={"axis": (0, 2), "keepdims": True}, kinds="fhc", loose=2,
      theirs=lambda a: products(a, (0, 2), True))
TABLE("prod", given([2.0, 0, 3], [0, 0, 5], [1, 2, 3]), more={"axis": 1}, label="zeros",
      kinds="fhc", theirs=lambda a: torch.prod(a, 1))
TABLE("sum", x(2, 3), ours=lambda a: fw.sum(a, dtype=fw.float64), label="dtype", kinds="fhi",
      theirs=lambda a: torch.sum(a, dtype=torch.float64))
for name, theirs in (("max", "amax"), ("min", "amin")):
    TABLE(name, given([2.0, 1, 2], [1, 1, 1]), theirs=theirs, label="ties")
    TABLE(name, given([2.0, 1, 2], [1, 1, 1]), label="ties along an axis",
          ours=lambda a, n=name: getattr(fw, n)(a, axis=1),
          theirs=lambda a, n=theirs: getattr(torch, n)(a, 1))
    TABLE(name, given([np.nan, 1, 2], [1, 1, np.inf]), label="nan", only=("values", "grad"),
          ours=lambda a, n=name: getattr(fw, n)(a, axis=1),
          theirs=lambda a, n=theirs: getattr(torch, n)(a, 1))
for name in ("var", "std"):
    for more in ({"axis": 1}, {"axis": (0, 2), "correction": 1, "keepdims": True},
                 {"correction": 0.5}):
        TABLE(name, x(3, 4, 2), more=more, loose=4, kinds="fh",
              theirs=lambda a, n=name, m=dict(more): getattr(torch, n)(
                  a, m.get("axis"), correction=m.get("correction", 0),
                  keepdim=m.get("keepdims", False)))
TABLE("count_nonzero", given([0, 1, 2], [0, 0, 1]), kinds="fcib")
TABLE("count_nonzero", given([0, 1, 2], [0, 0, 1]), more={"axis": 1}, kinds="fhib")
for name in ("logsumexp",):
    TABLE(name, x(2, 3, 4), more={"axis": 1}, theirs=lambda a: torch.logsumexp(a, 1), kinds="fh")
    TABLE(name, x(2, 3, 4), more={"axis": (0, 2), "keepdims": True},
          theirs=lambda a: torch.logsumexp(a, (0, 2), True))
    TABLE(name, given([0.0, -np.inf], [-np.inf, -np.inf]), label="-inf", more={"axis": 1},
          theirs=lambda a: torch.logsumexp(a, 1), only=("values", "grad"))
for name in ("softmax", "log_softmax"):
    for axis in (-1, 0):
        TABLE(name, x(2, 3, 4), ours=lambda a, n=name, d=axis: getattr(fw, n)(a, axis=d),
              theirs=lambda a, n=name, d=axis: getattr(torch, n)(a, d), label=f"axis={axis}",
              kinds="fh")

    TABLE(name, given([0.0, -np.inf, 1.0], [2.0, 1000.0, -1000.0]), label="far and -inf",
          ours=lambda a, n=name: getattr(fw, n)(a, axis=1), only=("values", "grad"),
          theirs=lambda a, n=name: getattr(torch, n)(a, 1))

# ---- running results
for ours, theirs in (("cumulative_sum", "cumsum"), ("cumulative_prod", "cumprod")):
    def initial(a: Any, name: str = theirs) -> Any:
        done = getattr(torch, name)(a, 1)
        return torch.cat([torch.full_like(done[:, :1], name == "cumprod"), done], 1)

    TABLE(ours, x(2, 3, 4), more={"axis": 1}, theirs=lambda a, n=theirs: getattr(torch, n)(a, 1),
          kinds="fcihb", loose=2)
    TABLE(ours, x(5), theirs=lambda a, n=theirs: getattr(torch, n)(a, 0), kinds="fhci", loose=2)
    TABLE(ours, x(2, 3), more={"axis": 1, "include_initial": True}, theirs=initial, kinds="fhci",
          loose=2)
TABLE("cumulative_prod", given([2.0, 0, 3, 4], [0, 1, 0, 5], [1, 2, 3, 4]), more={"axis": 1},
      theirs=lambda a: torch.cumprod(a, 1), label="zeros", kinds="fhc")
for name in ("cumsum", "cumprod"):
    TABLE(name, x(2, 3, 4), kinds="fhci", ours=lambda a, n=name: getattr(fw, n)(a, 1), loose=2,
          theirs=lambda a, n=name: getattr(torch, n)(a, 1))
for name in ("cummax", "cummin"):
    TABLE(name, distinct(3, 4), kinds="fh", ours=lambda a, n=name: getattr(fw, n)(a, 1),
          theirs=lambda a, n=name: getattr(torch, n)(a, 1))
    TABLE(name, given(1.0, 3, 3, 2, 1, 1, 3), ours=lambda a, n=name: getattr(fw, n)(a, 0),
          theirs=lambda a, n=name: getattr(torch, n)(a, 0), label="ties", kinds="fhi")
TABLE("logcumsumexp", x(2, 5), ours=lambda a: fw.logcumsumexp(a, 1),
      theirs=lambda a: torch.logcumsumexp(a, 1))
for n in (1, 2):
    TABLE("diff", x(3, 5), ours=lambda a, n=n: fw.diff(a, n=n), label=f"n={n}", kinds="fhci",
          theirs=lambda a, n=n: torch.diff(a, n))
TABLE("diff", x(3, 5), x(1, 5), x(2, 5), label="prepend, append", kinds="fhci",
      ours=lambda a, b, c: fw.diff(a, axis=0, prepend=b, append=c),
      theirs=lambda a, b, c: torch.diff(a, dim=0, prepend=b, append=c))

# ---- statistics
HOLES = made(lambda rng, d: np.where(rng.random((3, 5)) < 0.3, np.nan,
                                     rng.permutation(15).reshape(3, 5)).astype(d))
for name in ("nansum", "nanmean"):
    TABLE(name, HOLES)
    TABLE(name, HOLES, ours=lambda a, n=name: getattr(fw, n)(a, axis=0), label="axis=0",
          theirs=lambda a, n=name: getattr(torch, n)(a, 0))
for name in ("nanmax", "nanmin"):
    TABLE(name, HOLES, label="axis=1", ours=lambda a, n=name: getattr(fw, n)(a, axis=1),
          theirs=lambda a, sign=1 if name == "nanmax" else -1: sign * torch.amax(
              torch.where(torch.isnan(a), -torch.inf, sign * a), 1))


def spread(a: Any, correction: float) -> Any:
    """The variance along axis 1 of what is not nan, from its definition."""
    count = (~torch.isnan(a)).sum(1)
    apart = torch.where(torch.isnan(a), 0.0, a - torch.nanmean(a, 1, keepdim=True))
    return torch.sum(apart * apart, 1) / (count - correction)


for correction in (0, 1):
    TABLE("nanvar", HOLES, label=f"correction={correction}", loose=4,
          ours=lambda a, c=correction: fw.nanvar(a, axis=1, correction=c),
          theirs=lambda a, c=correction: spread(a, c))
    TABLE("nanstd", HOLES, label=f"correction={correction}", loose=4,
          ours=lambda a, c=correction: fw.nanstd(a, axis=1, correction=c),
          theirs=lambda a, c=correction: spread(a, c) ** 0.5)
TABLE("nanmedian", HOLES, ours=lambda a: fw.nanmedian(a, axis=1),
      theirs=lambda a: torch.nanquantile(a, 0.5, 1))
TABLE("nanquantile", HOLES, ours=lambda a: fw.nanquantile(a, 0.3, axis=1), loose=4,
      theirs=lambda a: torch.nanquantile(a, 0.3, 1))
TABLE("cov", x(3, 6), kinds="fhc", loose=4)
TABLE("cov", x(3, 6), ints(6, low=1, below=4), x(6, low=0.5), label="weights", loose=4,
      ours=lambda a, f, w: fw.cov(a, correction=0, fweights=f, aweights=w.detach()),
      theirs=lambda a, f, w: torch.cov(a, correction=0, fweights=f, aweights=w.detach()))
TABLE("corrcoef", x(3, 6), kinds="fhc", loose=8)
for axis in (0, 1):
    TABLE("median", distinct(5, 5), label=f"axis={axis}, odd",
          ours=lambda a, d=axis: fw.median(a, axis=d),
          theirs=lambda a, d=axis: torch.quantile(a, 0.5, d))
    TABLE("median", distinct(4, 6), label=f"axis={axis}, even", differs={"even": (
        "of an even count the mean of the two in the middle, as NumPy's; torch takes the lower")},
        ours=lambda a, d=axis: fw.median(a, axis=d),
        theirs=lambda a, d=axis: torch.quantile(a, 0.5, d))
for q in (0.3, [0.1, 0.5, 1.0]):
    TABLE("quantile", distinct(4, 6), label=f"q={q}", ours=lambda a, q=q: fw.quantile(a, q, axis=1),
          theirs=lambda a, q=q: torch.quantile(a, torch.tensor(q, dtype=a.dtype), 1), loose=4)
TABLE("bincount", ints(20, below=6), kinds="i")
TABLE("bincount", ints(20, below=6), x(20), label="weights", grad=False)
TABLE("histogram", x(30), ours=lambda a: fw.histogram(a, bins=5, range=(-2.0, 2.0)), grad=False,
      differs={"dtype": "counts are whole numbers as NumPy's; torch gives floats"},
      theirs=lambda a: torch.histogram(a, bins=5, range=(-2.0, 2.0)))
TABLE("histogram", given(0.0, 1, 2, 3, 4, 1), label="edges", grad=False,
      differs={"dtype": "counts are whole numbers as NumPy's; torch gives floats"},
      ours=lambda a: fw.histogram(a, bins=4), theirs=lambda a: torch.histogram(a, bins=4))
TABLE("any", bools(0, 3), kinds="b", label="of nothing", more={"axis": 0},
      theirs=lambda a: torch.any(a, 0))
TABLE("sum", x(0, 3), label="of nothing", kinds="fhci", more={"axis": 0},
      theirs=lambda a: torch.sum(a, 0))
TABLE("std", given([1.0, 1, 1], [2, 3, 4]), label="of equal numbers", more={"axis": 1},
      differs={"grad grad": "there is no second derivative where all numbers are equal"},
      theirs=lambda a: torch.std(a, 1, correction=0))
