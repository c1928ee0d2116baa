"""Functions made of several ops: conversions, replaced slices, modes, integrals, spectra."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from inputs import bools, distinct, given, ints, x
from parity.entry import Table
from parity.table_linalg import square

import fusewire as fw

TABLE = Table("composed functions")
COUNTS = {"vmap": "the number of elements differs between examples"}
NOTHING = {"vmap": "has no inputs"}

# ---- conversions
TABLE("nan_to_num", x(3, 4), kinds="fhiub")
TABLE("nan_to_num", given(np.nan, np.inf, -np.inf, 1.0), label="special", kinds="f")
TABLE("nan_to_num", given(np.nan, np.inf, -np.inf, 1.0), kinds="fh",
      more={"nan": 2.0, "posinf": 3.0, "neginf": -4.0})
TABLE("nan_to_num", given(np.nan, np.inf, -np.inf, 1.0), kinds="c", label="complex", grad=False)
TABLE("rad2deg", x(3, 4), kinds="fhi")
TABLE("polar", x(3, 4, low=0.1), x(4), kinds="f",
      theirs=lambda a, b: torch.polar(*torch.broadcast_tensors(a, b)))
TABLE("view_as_real", x(2, 3), kinds="c")
TABLE("view_as_complex", x(2, 3, 2), kinds="f")

# ---- axes
for k, axes in ((1, (0, 1)), (-1, (2, 0)), (2, (1, 2)), (4, (0, 1))):
    TABLE("rot90", x(2, 3, 4), label=f"{k}, {axes}", kinds="fhciub",
          ours=lambda a, k=k, d=axes: fw.rot90(a, k, d),
          theirs=lambda a, k=k, d=axes: torch.rot90(a, k, d))
for parts in (2, (1, 3)):
    TABLE("vsplit", x(4, 3), label=f"{parts}", kinds="fci", ours=lambda a, p=parts: fw.vsplit(a, p),
          theirs=lambda a, p=parts: torch.vsplit(a, p))

# ---- statistics
for name in ("var_mean", "std_mean"):
    for axis, correction, keep in ((None, 0, False), ((0, 2), 1, True), (1, 0.5, False)):
        TABLE(name, x(3, 4, 5), label=f"axis={axis}, correction={correction}", kinds="fc", loose=4,
              ours=lambda a, n=name, d=axis, c=correction, k=keep: getattr(fw, n)(a, d, c, k),
              theirs=lambda a, n=name, d=axis, c=correction, k=keep: getattr(torch, n)(
                  a, d, correction=c, keepdim=k))
for axis, keep in ((0, True), (-1, False)):
    TABLE("mode", ints(4, 9, below=4), label=f"axis={axis}", kinds="i", theirs=lambda a, d=axis,
          k=keep: tuple(torch.mode(a, d, k)), ours=lambda a, d=axis, k=keep: fw.mode(a, d, k))
TABLE("mode", distinct(3, 5), label="of different numbers", kinds="fh",
      theirs=lambda a: tuple(torch.mode(a)), ours=lambda a: fw.mode(a))
for axis in (0, -1):
    TABLE("trapezoid", x(3, 4), label=f"axis={axis}", loose=4,
          ours=lambda a, d=axis: fw.trapezoid(a, axis=d),
          theirs=lambda a, d=axis: torch.trapezoid(a, dim=d))
TABLE("trapezoid", x(3, 4), label="dx", loose=4, ours=lambda a: fw.trapezoid(a, dx=0.3),
      theirs=lambda a: torch.trapezoid(a, dx=0.3))
TABLE("trapezoid", x(3, 4), x(4), label="positions", kinds="fc", loose=4)
TABLE("trapezoid", x(3, 4), x(3, 4), label="all positions", kinds="fc", loose=4)
for axis in (None, 0, 1):
    TABLE("unique_consecutive", given([3, 3, 1, 1], [3, 3, 1, 1], [2, 2, 1, 1]), kinds="fhiu",
          label=f"axis={axis}", differs=COUNTS, grad=False,
          ours=lambda a, d=axis: fw.unique_consecutive(a, True, True, d),
          theirs=lambda a, d=axis: torch.unique_consecutive(a, True, True, d))

# ---- values at indices
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    for own in (True, False):
        TABLE("scatter_reduce", distinct(3, 4), ints(5, 4, below=3), distinct(5, 4),
              label=f"{reduce}{', without x' * (not own)}", kinds="fi", loose=4,
              differs={"forward": "torch's is 0"} if reduce == "prod" else {},
              ours=lambda a, i, v, r=reduce, o=own: fw.scatter_reduce(a, 0, i, v, r, o),
              theirs=lambda a, i, v, r=reduce, o=own: torch.scatter_reduce(
                  a, 0, i, v, r, include_self=o))
for reduce in ("sum", "prod", "mean", "max", "min"):
    for label, key, values in (("lengths", "lengths", [2, 0, 3]), ("offsets", "offsets",
                                                                   [0, 1, 4, 5])):
        TABLE("segment_reduce", distinct(5, 3), label=f"{reduce}, {label}", kinds="f", loose=4,
              differs={"forward": "torch has none", "grad grad": "torch has none"},
              ours=lambda a, r=reduce, k=key, v=values: fw.segment_reduce(
                  a, r, **{k: fw.tensor(v)}),
              theirs=lambda a, r=reduce, k=key, v=values: torch.segment_reduce(
                  a, r, **{k: torch.tensor(v)}))
for accumulate in (False, True):
    TABLE("put", x(3, 4), given([5, 0], [7, 3], dtype="i8"), x(2, 2), label=f"{accumulate}",
          kinds="fci", ours=lambda a, i, v, c=accumulate: fw.put(a, i, v, c),
          theirs=lambda a, i, v, c=accumulate: torch.put(a, i, v, c))
TABLE("masked_scatter", x(3, 4), bools(3, 4), x(4, 4), kinds="fhciu")
TABLE("masked_scatter", x(3, 4), bools(3, 1), x(4, 4), label="broadcast", kinds="fci")
for kinds in ("fhiub", "c"):  # torch has no gradients of complex numbers here
    TABLE("select_scatter", x(3, 4), x(3), kinds=kinds, label=kinds, grad=kinds != "c",
          ours=lambda a, v: fw.select_scatter(a, v, 1, -2),
          theirs=lambda a, v: torch.select_scatter(a, v, 1, -2))
    TABLE("slice_scatter", x(3, 7), x(3, 3), kinds=kinds, label=kinds, grad=kinds != "c",
          ours=lambda a, v: fw.slice_scatter(a, v, 1, 1, 6, 2),
          theirs=lambda a, v: torch.slice_scatter(a, v, 1, 1, 6, 2))
for name in ("tril_indices", "triu_indices"):
    for k in (0, -1, 2):
        TABLE(name, label=f"k={k}", kinds="f", grad=False, differs=NOTHING,
              ours=lambda n=name, k=k: getattr(fw, n)(3, 4, k=k),
              theirs=lambda n=name, k=k: tuple(getattr(torch, n)(3, 4, k)))
TABLE("unravel_index", ints(3, 4, below=24), kinds="i", ours=lambda a: fw.unravel_index(
    a, (2, 3, 4)), theirs=lambda a: torch.unravel_index(a, (2, 3, 4)), differs={
        "dtype": "that of the indices; torch's is int64"})

# ---- linear maps between tensors, and norms of slices
TABLE("linalg.tensorinv", square(6, 6), kinds="fc", loose=100,
      ours=lambda a: fw.linalg.tensorinv(a.reshape(6, 2, 3), 1),
      theirs=lambda a: torch.linalg.tensorinv(a.reshape(6, 2, 3), 1))
TABLE("linalg.tensorsolve", square(6, 6), x(2, 3), kinds="fc", loose=100,
      ours=lambda a, b: fw.linalg.tensorsolve(a.reshape(2, 3, 6), b),
      theirs=lambda a, b: torch.linalg.tensorsolve(a.reshape(2, 3, 6), b))
TABLE("linalg.tensorsolve", square(6, 6), x(2, 3), kinds="fc", loose=100, label="axes",
      ours=lambda a, b: fw.linalg.tensorsolve(a.reshape(6, 2, 3), b, (0,)),
      theirs=lambda a, b: torch.linalg.tensorsolve(a.reshape(6, 2, 3), b, (0,)))


def renorm(a: Any, p: float, axis: int, maxnorm: float) -> Any:
    """torch's, which divides by the norm and 1e-7, without the 1e-7."""
    norms = torch.linalg.vector_norm(a, p, tuple(d for d in range(a.ndim) if d != axis), True)
    return torch.where(norms > maxnorm, a * (maxnorm / norms), a)


for p in (1, 2, np.inf):
    TABLE("linalg.renorm", x(3, 4, 2), label=f"p={p}", kinds="fc", loose=4,
          ours=lambda a, p=p: fw.linalg.renorm(a, p, 1, 4.0),
          theirs=lambda a, p=p: renorm(a, p, 1, 4.0))


# ---- spectra of frames
def stft(label: str, *inputs: Any, kinds: str = "f", **how: Any) -> None:
    TABLE("stft", *inputs, label=label, kinds=kinds, loose=8,
          ours=lambda a, w=None: fw.stft(a, 8, window=w, **how),
          theirs=lambda a, w=None: torch.stft(a, 8, window=w, return_complex=True, **how))


stft("", x(2, 20))
stft("window", x(2, 20), x(6, low=0.1), win_length=6)
stft("not centred", x(20), center=False, hop_length=3)
stft("complex", x(2, 20), kinds="c", pad_mode="circular")
stft("normalized, two sides", x(2, 20), normalized=True, onesided=False)


# ---- windows
W = torch.signal.windows
MORE: dict[str, list[dict[str, Any]]] = {
    "general_cosine": [{"a": [0.4, 0.5, 0.1]}], "general_hamming": [{}, {"alpha": 0.6}],
    "gaussian": [{}, {"std": 2.5}], "exponential": [{}, {"tau": 3.0}],
    "kaiser": [{}, {"beta": 5.0}]}
for name in W.__all__:
    for more in MORE.get(name, [{}]):
        for count, sym in ((7, True), (8, True), (8, False), (1, True), (1, False), (0, True)):
            TABLE(f"signal.windows.{name}", label=f"{count}, sym={sym}, {more}", kinds="f",
                  grad=False, differs=NOTHING, loose=10,
                  ours=lambda n=name, m=count, s=sym, o=more: getattr(fw.signal.windows, n)(
                      m, sym=s, dtype=fw.float64, **o),
                  theirs=lambda n=name, m=count, s=sym, o=more: getattr(W, n)(
                      m, sym=s, dtype=torch.float64, **o))
TABLE("signal.windows.exponential", label="center", kinds="f", grad=False, differs=NOTHING,
      ours=lambda: fw.signal.windows.exponential(5, center=1.5, sym=False),
      theirs=lambda: W.exponential(5, center=1.5, sym=False))
TABLE("signal.stft", x(2, 20), kinds="f", loose=8, ours=lambda a: fw.signal.stft(a, 8),
      theirs=lambda a: torch.stft(a, 8, return_complex=True))


# ---- signals from spectra
def istft(label: str, *inputs: Any, **how: Any) -> None:
    n = how.pop("n", 8)
    TABLE("istft", *inputs, label=label, kinds="c", loose=8,
          ours=lambda a: fw.istft(a, n, **how),
          theirs=lambda a: torch.istft(a, n, **how))


istft("", x(2, 5, 9))
istft("odd", x(2, 4, 9), n=7, length=20)
istft("longer", x(5, 6), hop_length=3, length=30)
istft("not centred", x(5, 6), hop_length=3, center=False)
istft("two sides", x(8, 6), onesided=False, return_complex=True, normalized=True)
TABLE("istft", x(5, 6), x(6, low=0.5), label="window", kinds="f", loose=8, grad=False,
      ours=lambda a, w: fw.istft(a + 0j, 8, 2, 6, w),
      theirs=lambda a, w: torch.istft(a + 0j, 8, 2, 6, w))
TABLE("signal.istft", x(5, 6), kinds="c", loose=8, ours=lambda a: fw.signal.istft(a, 8),
      theirs=lambda a: torch.istft(a, 8))
