"""Sorting, searching, sets; and what makes tensors out of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from inputs import distinct, given, ints, x
from parity.entry import Table

import fusewire as fw

TABLE, CREATE = Table("sorting and searching"), Table("creation")
COUNTS = {"vmap": "the number of elements differs between examples"}
NOTHING = {"vmap": "has no inputs"}

for axis in (-1, 0):
    for down in (False, True):
        label = f"axis={axis}, descending={down}"
        TABLE("sort", distinct(3, 5), label=label, kinds="fhiu",
              ours=lambda a, d=axis, r=down: fw.sort(a, axis=d, descending=r),
              theirs=lambda a, d=axis, r=down: torch.sort(a, d, r).values)
        TABLE("argsort", x(3, 5), label=label, kinds="fhiu",
              ours=lambda a, d=axis, r=down: fw.argsort(a, axis=d, descending=r),
              theirs=lambda a, d=axis, r=down: torch.argsort(
                  a, dim=d, descending=r, stable=True))
TABLE("sort", given([2.0, 1, 2], [0, 0, 0]), label="ties", ours=lambda a: fw.sort(a),
      theirs=lambda a: torch.sort(a, stable=True).values)
TABLE("sort", given([np.nan, 1, -np.inf]), label="nan", grad=False, ours=lambda a: fw.sort(a),
      theirs=lambda a: torch.sort(a).values)
for largest in (True, False):
    TABLE("topk", distinct(3, 5), label=f"largest={largest}", kinds="fhi",
          ours=lambda a, v=largest: fw.topk(a, 2, largest=v),
          theirs=lambda a, v=largest: torch.topk(a, 2, largest=v))
    TABLE("topk", distinct(2, 120), label=f"of many, largest={largest}", kinds="fhi",
          ours=lambda a, v=largest: fw.topk(a, 5, largest=v),
          theirs=lambda a, v=largest: torch.topk(a, 5, largest=v))
TABLE("topk", distinct(4, 2), label="axis=0", ours=lambda a: fw.topk(a, 3, 0),
      theirs=lambda a: torch.topk(a, 3, 0))
for k in (1, 4):
    TABLE("kthvalue", distinct(3, 5), label=f"k={k}", ours=lambda a, k=k: fw.kthvalue(a, k),
          theirs=lambda a, k=k: torch.kthvalue(a, k))
TABLE("argwhere", given([0, 1, 2], [0, 0, 3]), kinds="fciub", differs=COUNTS, grad=False)
for name in ("argmax", "argmin"):
    for axis, keepdims in ((None, False), (0, False), (-1, True)):
        TABLE(name, distinct(3, 5), label=f"axis={axis}, keepdims={keepdims}", kinds="fhiu",
              ours=lambda a, n=name, d=axis, k=keepdims: getattr(fw, n)(a, axis=d, keepdims=k),
              theirs=lambda a, n=name, d=axis, k=keepdims: getattr(torch, n)(a, d, k))
    TABLE(name, given([1.0, np.nan, 3], [2, 2, 2]), label="nan and ties", grad=False,
          ours=lambda a, n=name: getattr(fw, n)(a, axis=1),
          theirs=lambda a, n=name: getattr(torch, n)(a, 1))
TABLE("nonzero", given([0, 1, 2], [0, 0, 3]), kinds="fciub", differs=COUNTS,
      theirs=lambda a: torch.nonzero(a, as_tuple=True), grad=False)
for side in ("left", "right"):
    TABLE("searchsorted", given(-2.0, 0.0, 0.0, 1.5), x(3, 4), label=side, grad=False, kinds="f",
          ours=lambda a, v, s=side: fw.searchsorted(a, v, side=s),
          theirs=lambda a, v, s=side: torch.searchsorted(a, v, side=s))
TABLE("isin", ints(3, 4, below=9), ints(5, below=9), kinds="i")
TABLE("unique_values", given([3, 1, 3], [2, 2, 1]), kinds="fhiu", differs=COUNTS, grad=False,
      theirs="unique")
TABLE("unique_counts", given([3, 1, 3], [2, 2, 1]), kinds="fhiu", differs=COUNTS, grad=False,
      theirs=lambda a: torch.unique(a, return_counts=True))
TABLE("unique_inverse", given([3, 1, 3], [2, 2, 1]), kinds="fhiu", differs=COUNTS, grad=False,
      theirs=lambda a: torch.unique(a, return_inverse=True))


def unique_all(a: Any) -> Any:
    """torch.unique and, which torch leaves out, where each value stands first."""
    values, inverse, counts = torch.unique(a, return_inverse=True, return_counts=True)
    first = torch.stack([(a.flatten() == v).nonzero()[0, 0] for v in values])
    return values, first, inverse, counts


TABLE("unique_all", given([3, 1, 3], [2, 2, 1]), kinds="fhiu", differs=COUNTS, grad=False,
      theirs=unique_all)


# ---- out of nothing
def create(name: str, *args: Any, theirs: Any = None, label: str = "", **more: Any) -> None:
    """An entry without inputs."""
    CREATE(name, label=label or ", ".join([*map(str, args), *map(str, more)]), grad=False,
           kinds="f", ours=lambda: getattr(fw, name)(*args, **more), differs=NOTHING,
           theirs=theirs or (lambda: getattr(torch, name)(*args)))


create("arange", 5)
create("arange", 2, 9, 3)
create("arange", 5, 0, -2)
create("arange", 0.0, 1.0, 0.25)
create("linspace", 0.0, 1.0, 5)
create("linspace", 2, -3, 4)
create("eye", 3)
create("eye", 2, 4)
create("zeros", (2, 3))
create("ones", (2, 3))
create("full", (2, 3), 1.5)
create("full", (2, 3), 7)
create("full", (), True)
create("asarray", [[1, 2], [3, 4]])
create("asarray", [1.0, 2.5])
create("tensor", [[1.0, 2.0]])
create("tensor", [1, 2])
create("tensor", [True, False])
create("tensor", [1 + 2j])
CREATE("empty", ours=lambda: fw.zeros_like(fw.empty((2, 3))), grad=False, differs=NOTHING,
       kinds="f", theirs=lambda: torch.zeros(2, 3))
for name in ("zeros_like", "ones_like"):
    CREATE(name, x(2, 3), kinds="fciub", grad=False)
CREATE("full_like", x(2, 3), kinds="fcih", grad=False, ours=lambda a: fw.full_like(a, 3),
       theirs=lambda a: torch.full_like(a, 3))
CREATE("empty_like", x(2, 3), kinds="fcih", grad=False,
       ours=lambda a: fw.zeros_like(fw.empty_like(a)),
       theirs=lambda a: torch.zeros_like(a))
