"""Layers as functions."""

from __future__ import annotations

import torch.nn.functional as F
from inputs import distinct, given, ints, x
from parity.entry import Table
from parity.functional import functions

import fusewire as fw

TABLE = Table("layers as functions")
layer = functions(TABLE)

layer("linear", x(2, 4), x(3, 4), x(3))
layer("linear", x(2, 5, 4), x(3, 4), label="no bias")
for more in ({}, {"stride": 2, "padding": 1}, {"dilation": (2, 1), "padding": "valid"},
             {"padding": "same"}):
    layer("conv2d", x(2, 3, 6, 5), x(4, 3, 3, 3), x(4), more=more, loose=20)
layer("max_pool2d", distinct(1, 2, 6, 4), args=(2,))
layer("max_pool2d", given([[[1.0, 1, 0, 0], [1, 1, 0, 0]]]), args=(2,), label="ties")
layer("max_pool2d", distinct(1, 2, 7, 7), more={"kernel_size": 3, "stride": 2, "padding": 1})
for name in "relu sigmoid tanh silu softplus elu leaky_relu gelu".split():
    layer(name, x(3, 4), kinds="fh", loose=8)
    layer(name, given(30.0, -30.0), label="far", loose=8)
    layer(name, given(0.0), label="at 0", loose=8, differs={
        "grad grad": "the first derivative has a bend at 0"} if name == "elu" else {})
layer("gelu", x(3, 4), more={"approximate": "tanh"}, loose=8)
layer("elu", x(3, 4), args=(0.5,))
layer("leaky_relu", x(3, 4), args=(0.3,))
layer("softplus", x(3, 4), args=(2.0, 3.0))
for name in ("softmax", "log_softmax"):
    layer(name, x(3, 4), more={"dim": 1}, kinds="fh")
for reduction in ("mean", "sum", "none"):
    layer("mse_loss", x(3, 4), x(3, 4), more={"reduction": reduction})
    layer("cross_entropy", x(3, 4), ints(3, below=4), more={"reduction": reduction})
    layer("nll_loss", x(3, 4), ints(3, below=4), more={"reduction": reduction})
layer("cross_entropy", x(2, 4, 3), ints(2, 3, below=4), label="positions")
layer("cross_entropy", x(3, 4), ints(3, below=4), more={"label_smoothing": 0.1})
layer("cross_entropy", x(3, 4), ints(3, below=4), more={"ignore_index": 1})
layer("cross_entropy", x(3, 4), given(1, 1, 1, dtype="i8"), more={"ignore_index": 1},
      label="all are ignored", differs=dict.fromkeys(("grad", "grad grad"), (
          "the mean of nothing is nan, and so is its gradient; torch's gradient is 0")))
layer("cross_entropy", x(3, 4), x(3, 4, low=0), label="probabilities")
layer("cross_entropy", x(3, 4), ints(3, below=4), x(4, low=0.5), label="weights",
      ours=lambda a, t, w: fw.nn.functional.cross_entropy(a, t, w.detach()),
      theirs=lambda a, t, w: F.cross_entropy(a, t, w.detach()))
layer("one_hot", ints(3, 2, below=4), args=(4,), kinds="i")
layer("dropout", x(3, 4), args=(0.5, False), label="not training")
layer("dropout", x(3, 4), args=(0.0, True), label="p=0")

# ---- images
layer("pad", x(2, 3, 5), args=((1, 2),), more={"value": 0.5})
layer("pad", x(1, 2, 4, 5), args=((1, -1, 0, 2),))
for mode in ("reflect", "replicate", "circular"):
    layer("pad", x(2, 3, 5), args=((1, 2),), more={"mode": mode})
    layer("pad", x(1, 2, 4, 5), args=((1, 2, 2, 1),), more={"mode": mode})
for more in ({"size": 7, "mode": "nearest"}, {"scale_factor": 2, "mode": "linear"},
             {"size": 4, "mode": "linear", "align_corners": True}, {"size": 3, "mode": "area"}):
    layer("interpolate", x(2, 3, 5), more=more, loose=8)
for more in ({"scale_factor": 2, "mode": "nearest"}, {"size": (3, 9), "mode": "nearest-exact"},
             {"size": (6, 3), "mode": "bilinear"}, {"size": (3, 2), "mode": "area"},
             {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
             {"size": (7, 6), "mode": "bicubic"}, {"scale_factor": 1.5, "mode": "bicubic"}):
    layer("interpolate", x(1, 2, 4, 5), more=more, loose=8)
layer("interpolate", x(1, 2, 3, 4, 2), more={"scale_factor": 2, "mode": "trilinear"}, loose=8)
for more in ({}, {"mode": "nearest"}, {"padding_mode": "border", "align_corners": True},
             {"padding_mode": "reflection"}):
    layer("grid_sample", x(2, 2, 4, 5), x(2, 3, 3, 2, low=-1.2, high=1.2), loose=20,
          more={"align_corners": False, **more}, kinds="f")
layer("affine_grid", x(2, 2, 3), args=((2, 1, 3, 4),), more={"align_corners": False})
layer("unfold", x(2, 3, 5, 6), args=(3,), more={"padding": 1, "stride": 2})
layer("fold", x(2, 12, 12), args=((4, 5), 2))
layer("pixel_shuffle", x(2, 8, 2, 3), args=(2,))
layer("pixel_unshuffle", x(2, 2, 4, 6), args=(2,))
