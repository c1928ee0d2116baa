"""Losses and distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.nn.functional as F
from inputs import Input, bools, given, ints, made, x
from parity.entry import Table
from parity.functional import functions

import fusewire as fw

TABLE = Table("losses")
layer = functions(TABLE)

REDUCTIONS = ("mean", "sum", "none")
ONCE = dict.fromkeys(("grad grad", "forward"), "torch has its gradient only")


def fixed(name: str, *inputs: Any, label: str = "", more: Any = None, differs: Any = None,
          **tensors: Input) -> None:
    """An entry whose further `tensors`, by keyword, no gradient is taken by."""
    count, given = len(inputs), more or {}

    def call(lib: Any) -> Any:
        return lambda *a: getattr(lib, name)(*a[:count], **given, **{
            key: tensor.detach() for key, tensor in zip(tensors, a[count:])})

    label = label or ", ".join([*tensors, *(f"{k}={v}" for k, v in given.items())])
    layer(name, *inputs, *tensors.values(), label=label, ours=call(fw.nn.functional),
          theirs=call(F), differs=differs)


def signs(*shape: int) -> Input:
    """1 and -1, as whole numbers: no gradient is taken by them."""
    return made(lambda rng, d: rng.choice([-1, 1], shape))


def share(*shape: int) -> Input:
    """Numbers between 0 and 1, not too near to either."""
    return x(*shape, low=0.1, high=0.9)


# ---- of values
for reduction in REDUCTIONS:
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        layer(name, x(3, 4), x(3, 4), more={"reduction": reduction})
    layer("soft_margin_loss", x(3, 4), signs(3, 4), more={"reduction": reduction})
    layer("binary_cross_entropy", share(3, 4), share(3, 4), more={"reduction": reduction}, loose=8)
    layer("binary_cross_entropy_with_logits", x(3, 4), share(3, 4), more={"reduction": reduction})
    layer("poisson_nll_loss", x(3, 4), x(3, 4, low=0), more={"reduction": reduction})
for reduction in (*REDUCTIONS, "batchmean"):
    for log_target in (False, True):
        layer("kl_div", x(3, 4), x(3, 4, low=-2 if log_target else 0.1), loose=8,
              more={"reduction": reduction, "log_target": log_target})
layer("kl_div", x(3, 4), given([0.0, 1.0, 0.5, 0.0]), label="targets of 0, repeated",
      only=("values",), more={"reduction": "sum"})
for beta in (0.0, 0.5, 2.0):
    layer("smooth_l1_loss", x(3, 4), x(3, 4), more={"beta": beta})
layer("huber_loss", x(3, 4), x(3, 4), more={"delta": 0.5})
layer("huber_loss", given(0.0, 1.0, -1.0), given(0.0, 0.0, 0.0), label="at corners",
      only=("values", "grad"))
layer("smooth_l1_loss", given(0.0, 1.0, -1.0), given(0.0, 0.0, 0.0), label="at corners",
      only=("values", "grad"))
for name in ("huber_loss", "smooth_l1_loss"):
    layer(name, given(np.inf, -np.inf), given(0.0, 0.0), label="infinitely far",
          only=("values", "grad"))
layer("l1_loss", given(0.0, 1.0), given(0.0, 0.0), label="at 0", only=("values", "grad"))
layer("soft_margin_loss", given(50.0, -50.0), given(1.0, 1.0), label="far", only=("values",))
layer("binary_cross_entropy", given(0.0, 0.0, 1.0, 1.0), given(0.0, 1.0, 0.0, 1.0), label="certain",
      only=("values",))
layer("binary_cross_entropy", given(0.0, 1.0, 1.0), given(1, 0, 1, dtype="f8"), label="wrong",
      only=("values",), kinds="f", ours=lambda a, t: fw.nn.functional.binary_cross_entropy(
          a, t.astype(a.dtype)), theirs=lambda a, t: F.binary_cross_entropy(a, t.to(a.dtype)))
layer("binary_cross_entropy_with_logits", given(100.0, -100.0), given(0.0, 1.0), label="far")
for name, low in (("binary_cross_entropy", 0.1), ("binary_cross_entropy_with_logits", -3)):
    fixed(name, x(3, 4, low=low, high=0.9), share(3, 4), weight=x(3, 4, low=0.1))
    fixed(name, x(3, 4, low=low, high=0.9), share(3, 4), weight=x(4, low=0.1), label="one row")
fixed("binary_cross_entropy_with_logits", x(3, 4), share(3, 4), pos_weight=x(4, low=0.1))
fixed("binary_cross_entropy_with_logits", x(3, 4), share(3, 4), weight=x(3, 1, low=0.1),
      pos_weight=x(4, low=0.1), more={"reduction": "none"})
for name in ("mse_loss", "l1_loss", "huber_loss"):
    for reduction in REDUCTIONS:
        fixed(name, x(3, 4), x(3, 4), weight=x(3, 4, low=0.1), more={"reduction": reduction})
for log_input in (True, False):
    for full in (True, False):
        layer("poisson_nll_loss", x(3, 4, low=0.1), x(3, 4, low=0), loose=8,
              more={"log_input": log_input, "full": full, "eps": 0.01})
for full in (True, False):
    for reduction in REDUCTIONS:
        layer("gaussian_nll_loss", x(3, 4), x(3, 4), x(3, 4, low=0.1), loose=8,
              more={"full": full, "reduction": reduction})
layer("gaussian_nll_loss", x(3, 4), x(3, 4), x(3, low=0.1), label="a variance for each row",
      loose=8)
layer("gaussian_nll_loss", x(3, 4), x(3, 1), x(3, 1, low=0.1), label="broadcast", loose=8)
layer("gaussian_nll_loss", x(3), x(3), given(0.0, 1e-8, 1.0), label="small variances", loose=8,
      kinds="f", differs={"forward": "torch's forward mode does not see where var is limited"})
layer("gaussian_nll_loss", x(3), x(3), args=(0.5,), label="one variance", loose=8)

# ---- of classes
LABELS = given([1, 3, -1, 0], [0, -1, 2, 2], [-1, 1, 2, 3], dtype="i8")
for reduction in REDUCTIONS:
    for name in ("cross_entropy", "nll_loss"):
        layer(name, x(3, 4), ints(3, below=4), more={"reduction": reduction})
        layer(name, x(3, 4), given(1, -100, 3, dtype="i8"), label=f"one is ignored, {reduction}",
              more={"reduction": reduction})
        layer(name, x(3, 4), ints(3, below=4), more={"ignore_index": 1, "reduction": reduction})
        layer(name, x(2, 4, 3), ints(2, 3, below=4), label=f"positions, {reduction}",
              more={"reduction": reduction})
        layer(name, x(2, 4, 3, 2), ints(2, 3, 2, below=4), label=f"images, {reduction}",
              more={"reduction": reduction})
        fixed(name, x(3, 4), ints(3, below=4), weight=x(4, low=0.5), more={"reduction": reduction})
        fixed(name, x(3, 4), ints(3, below=4), weight=x(4, low=0.5),
              more={"reduction": reduction, "ignore_index": 2})
        layer(name, x(3, 4), given(1, 1, 1, dtype="i8"), label=f"all are ignored, {reduction}",
              more={"ignore_index": 1, "reduction": reduction})
    layer("cross_entropy", x(3, 4), x(3, 4, low=0), label=f"probabilities, {reduction}",
          more={"reduction": reduction})
    for more in ({"label_smoothing": 0.1}, {"label_smoothing": 0.3, "ignore_index": 1}):
        layer("cross_entropy", x(3, 4), ints(3, below=4), more={**more, "reduction": reduction})
        fixed("cross_entropy", x(2, 4, 3), ints(2, 3, below=4), weight=x(4, low=0.5),
              more={**more, "reduction": reduction}, label=f"weight, {more}, {reduction}")
    fixed("cross_entropy", x(3, 4), x(3, 4, low=0), weight=x(4, low=0.5), label=(
        f"weighted probabilities, {reduction}"), more={
            "label_smoothing": 0.2, "reduction": reduction})
    for p, margin in ((1, 1.0), (2, 0.5)):
        layer("multi_margin_loss", x(3, 4), ints(3, below=4), differs=ONCE,
              more={"p": p, "margin": margin, "reduction": reduction})
        fixed("multi_margin_loss", x(3, 4), ints(3, below=4), weight=x(4, low=0.5), differs=ONCE,
              more={"p": p, "margin": margin, "reduction": reduction})
    layer("multilabel_margin_loss", x(3, 4), LABELS, more={"reduction": reduction}, differs=ONCE)
    layer("multilabel_soft_margin_loss", x(3, 4), bools(3, 4), label=f"labels, {reduction}",
          ours=lambda a, t, r=reduction: fw.nn.functional.multilabel_soft_margin_loss(
              a, t.astype(a.dtype), reduction=r),
          theirs=lambda a, t, r=reduction: F.multilabel_soft_margin_loss(
              a, t.to(a.dtype), reduction=r))
fixed("multilabel_soft_margin_loss", x(3, 4), share(3, 4), weight=x(4, low=0.5))
layer("cross_entropy", x(4), made(lambda rng, d: np.array(2)), label="one row")
layer("cross_entropy", x(3, 4), ints(3, below=4), more={"label_smoothing": 0.1},
      label="all are smoothed", kinds="fh")
layer("cross_entropy", x(3, 4), given(1, 1, 1, dtype="i8"), label="all are ignored, smoothed",
      more={"ignore_index": 1, "label_smoothing": 0.1})
layer("multi_margin_loss", given([1.0, 0.0, 2.0]), given(0, dtype="i8"), label="at corners",
      only=("values", "grad"))
layer("multilabel_margin_loss", x(4), given(1, 0, -1, 2, dtype="i8"), label="one row",
      differs=ONCE)
for shape in ((3, 4), (4,)):
    layer("linear_cross_entropy", x(*shape), x(5, 4), ints(*shape[:-1], below=5),
          label=f"{shape}", loose=8)
layer("linear_cross_entropy", x(3, 4), x(5, 2, 4), ints(3, 2, below=5), label="positions", loose=8)
layer("linear_cross_entropy", x(3, 4), x(5, 4), ints(3, below=5), x(5), label="bias", loose=8,
      ours=lambda a, w, t, b: fw.nn.functional.linear_cross_entropy(a, w, t, linear_bias=b),
      theirs=lambda a, w, t, b: F.linear_cross_entropy(a, w, t, linear_bias=b))

# ---- of pairs and triples
for reduction in REDUCTIONS:
    layer("margin_ranking_loss", x(5), x(5), signs(5), more={"margin": 0.5, "reduction": reduction})
    layer("hinge_embedding_loss", x(3, 4), signs(3, 4), more={"reduction": reduction})
    layer("cosine_embedding_loss", x(6, 4), x(6, 4), signs(6), loose=8,
          more={"margin": 0.1, "reduction": reduction})
    for more in ({}, {"swap": True}, {"p": 1, "margin": 2.0}):
        layer("triplet_margin_loss", x(6, 4), x(6, 4), x(6, 4), loose=8,
              more={**more, "reduction": reduction})
    layer("triplet_margin_with_distance_loss", x(6, 4), x(6, 4), x(6, 4), loose=8,
          more={"swap": True, "reduction": reduction})
layer("hinge_embedding_loss", x(3, 4), signs(3, 4), more={"margin": 0.3})
layer("cosine_embedding_loss", x(4), x(4), signs(), label="one pair", loose=8)
layer("triplet_margin_with_distance_loss", x(6, 4), x(6, 4), x(6, 4), label="a distance given",
      ours=lambda *xs: fw.nn.functional.triplet_margin_with_distance_loss(
          *xs, distance_function=lambda a, b: ((a - b) ** 2).sum(1)),
      theirs=lambda *xs: F.triplet_margin_with_distance_loss(
          *xs, distance_function=lambda a, b: ((a - b) ** 2).sum(1)), loose=8)

# ---- distances
for dim in (1, 0, -1):
    layer("cosine_similarity", x(3, 4), x(3, 4), more={"dim": dim}, loose=8)
layer("cosine_similarity", x(3, 1, 4), x(2, 4), more={"dim": -1}, label="broadcast", loose=8)
layer("cosine_similarity", given([0.0, 0.0], [3.0, 4.0]), x(2, 2), label="a vector of zeros",
      only=("values", "grad"), loose=8)
for p in (2.0, 1.0, 3.0, float("inf"), 0.0):
    layer("pairwise_distance", x(3, 4), x(3, 4), more={"p": p}, loose=8)
    layer("pdist", x(4, 3), more={"p": p}, loose=8, differs=ONCE)
layer("pairwise_distance", x(3, 4), x(4), more={"keepdim": True}, loose=8)
layer("pairwise_distance", x(4), x(4), label="one pair", loose=8)
layer("pdist", x(1, 3), label="one row", differs=ONCE)
layer("pdist", given([1.0, 2.0], [1.0, 2.0], [0.0, 0.0]), label="equal rows",
      only=("values", "grad"))

# ---- sequences

def ctc(time: int, n: int, classes: int, targets: Input, times: Any, sizes: Any, label: str,
        differs: Any = None, **more: Any) -> None:
    """Through log_softmax: torch's gradient by log_probs is right behind one only, ours everywhere.
    """
    def call(lib: Any) -> Any:
        return lambda a, t: lib.ctc_loss(lib.log_softmax(a, -1), t, times, sizes, **more)

    shape = (time, n, classes) if n else (time, classes)
    layer("ctc_loss", x(*shape), targets, ours=call(fw.nn.functional), theirs=call(F), label=label,
          kinds="f", loose=8, differs={**ONCE, **(differs or {})})


for reduction in REDUCTIONS:
    ctc(8, 3, 5, ints(3, 3, low=1, below=5), (8, 7, 8), (3, 2, 1), f"padded, {reduction}",
        reduction=reduction)
ctc(8, 3, 5, ints(6, low=1, below=5), (8, 7, 8), (3, 2, 1), "one after the other",
    differs=dict.fromkeys(("vmap", "vmap of grad"), "the length of targets decides on shapes"))
ctc(7, 2, 4, given([1, 1, 2], [2, 2, 2], dtype="i8"), (7, 6), (3, 3), "repeated labels")
ctc(6, 2, 4, given([0, 1], [2, 0], dtype="i8"), (6, 6), (2, 2), "another blank", blank=3)
ctc(6, 2, 4, given([1, 2], [3, 1], dtype="i8"), (6, 5), (0, 2), "an empty target")
ctc(2, 2, 4, given([1, 2, 3], [1, 2, 3], dtype="i8"), (2, 2), (3, 1), "impossible",
    zero_infinity=True)
ctc(6, 0, 4, given(1, 2, dtype="i8"), (6,), (2,), "one sequence")
layer("ctc_loss", x(2, 2, 4), given([1, 2, 3], [1, 1, 3], dtype="i8"), only=("values",), kinds="f",
      args=((2, 2), (3, 2)), label="inf")
