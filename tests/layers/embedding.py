"""Rows of layers that look vectors up by numbers."""

from __future__ import annotations

import numpy as np
from inputs import given, ints, x
from layers.row import layer

layer("Embedding", 6, 4, inputs=[ints(2, 3, below=6)])
layer("Embedding", 6, 4, padding_idx=-2, inputs=[given(4, 1, 4, 0, dtype="i8")])
layer("Embedding", 6, 4, padding_idx=1, scale_grad_by_freq=True,
      inputs=[given(1, 1, 0, 3, 3, 3, dtype="i8")],
      differs={"grad grad": "torch's second gradient leaves out what the first is divided by"})
LIMITED = {"differs": {"evaluation": "rows that are looked up are shortened there as well"}}
layer("Embedding", 6, 4, max_norm=1.0, inputs=[ints(5, below=6)], **LIMITED)
layer("Embedding", 6, 4, max_norm=0.5, norm_type=1.0, inputs=[given(2, 2, 5, dtype="i8")],
      **LIMITED)
layer("Embedding", 3, 2, _weight=np.arange(6.0, dtype="f4").reshape(3, 2), draws=False,
      inputs=[ints(4, below=3)])
ONCE = {"second": False}  # torch has no second derivatives of bags
for mode in ("sum", "mean", "max"):
    layer("EmbeddingBag", 6, 4, mode=mode, inputs=[ints(3, 2, below=6)], **ONCE)
    layer("EmbeddingBag", 6, 4, mode=mode, label=f"{mode}, offsets with an empty bag",
          inputs=[ints(7, below=6), given(0, 2, 2, 5, dtype="i8")], **ONCE)
    layer("EmbeddingBag", 6, 4, mode=mode, padding_idx=2, label=f"{mode}, padding",
          inputs=[given(2, 2, 1, 3, 2, dtype="i8"), given(0, 2, 3, dtype="i8")], **ONCE)
    layer("EmbeddingBag", 6, 4, mode=mode, padding_idx=2, label=f"{mode}, padding, even",
          inputs=[given([2, 2], [1, 2], [4, 5], dtype="i8")], **ONCE)
    layer("EmbeddingBag", 6, 4, mode=mode, include_last_offset=True,
          inputs=[ints(5, below=6), given(0, 2, 5, dtype="i8")], **ONCE)
for mode in ("sum", "mean"):  # of indices that are equally frequent: torch mixes up frequencies
    layer("EmbeddingBag", 6, 4, mode=mode, max_norm=1.0, scale_grad_by_freq=True,
          inputs=[given([1, 4], [5, 1], [4, 5], dtype="i8")], **ONCE, **LIMITED)
layer("EmbeddingBag", 6, 4, mode="sum", label="weights of samples",
      inputs=[ints(3, 2, below=6), x(3, 2)],
      call=lambda lib, module, i, w: module(i, per_sample_weights=w), **ONCE)
layer("EmbeddingBag", 6, 4, mode="sum", label="weights of samples, offsets",
      inputs=[ints(5, below=6), given(0, 3, dtype="i8"), x(5)], **ONCE)
