"""Rows of losses and distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from inputs import Input, bools, given, ints, made, x
from layers.row import layer

REDUCTIONS = ("mean", "sum", "none")
WEIGHT = np.array([0.5, 2.0, 1.0, 1.5], np.float32)  # of classes, or of columns
SHARE = x(3, 4, low=0.1, high=0.9)
SIGNS = made(lambda rng, d: rng.choice([-1, 1], (3, 4)))
CLASSES = ints(3, below=4)


def each(name: str, *inputs: Input, **more: Any) -> None:
    """A row for each reduction."""
    label = more.pop("label", "")
    for reduction in REDUCTIONS:
        layer(name, reduction=reduction, inputs=inputs, label=label and f"{label}, {reduction}",
              **{"loose": 8, **more})


def labels(lib: Any, module: Any, a: Any, t: Any) -> Any:
    """Truth values as the numbers that a loss takes."""
    return module(a, t.astype(a.dtype) if hasattr(t, "astype") else t.to(a.dtype))


# ---- of values
for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
    each(name, x(3, 4), x(3, 4))
each("SmoothL1Loss", x(3, 4), x(3, 4), beta=0.5)
each("HuberLoss", x(3, 4), x(3, 4), delta=0.5)
each("SoftMarginLoss", x(3, 4), SIGNS)
each("BCELoss", SHARE, SHARE)
each("BCELoss", SHARE, SHARE, weight=WEIGHT, label="weight")
each("BCEWithLogitsLoss", x(3, 4), SHARE)
each("BCEWithLogitsLoss", x(3, 4), SHARE, weight=WEIGHT, pos_weight=WEIGHT[::-1].copy())
for reduction in (*REDUCTIONS, "batchmean"):
    for log_target in (False, True):
        layer("KLDivLoss", reduction=reduction, log_target=log_target, loose=8,
              inputs=[x(3, 4), x(3, 4, low=-2 if log_target else 0.1)])
each("PoissonNLLLoss", x(3, 4), x(3, 4, low=0))
each("PoissonNLLLoss", x(3, 4, low=0.1), x(3, 4, low=0), log_input=False, full=True, eps=0.01)
each("GaussianNLLLoss", x(3, 4), x(3, 4), x(3, 4, low=0.1))
each("GaussianNLLLoss", x(3, 4), x(3, 4), x(3, low=0.1), full=True)

# ---- of classes
for name in ("CrossEntropyLoss", "NLLLoss"):
    each(name, x(3, 4), CLASSES)
    each(name, x(3, 4), given(-100, 2, 1, dtype="i8"), label="ignored")
    each(name, x(2, 4, 3, 2), ints(2, 3, 2, below=4), weight=WEIGHT, ignore_index=1)
each("CrossEntropyLoss", x(3, 4), CLASSES, label_smoothing=0.1)
each("CrossEntropyLoss", x(3, 4), CLASSES, weight=WEIGHT, label_smoothing=0.1, ignore_index=2)
each("CrossEntropyLoss", x(3, 4), x(3, 4, low=0), weight=WEIGHT, label="probabilities")
each("LinearCrossEntropyLoss", x(3, 4), ints(3, below=5), in_features=4, num_classes=5)
each("LinearCrossEntropyLoss", x(3, 4), ints(3, 2, below=4), in_features=4, num_classes=4,
     out_features=(2,), bias=True, weight=WEIGHT, label_smoothing=0.1)
layer("AdaptiveLogSoftmaxWithLoss", 8, 12, [3, 7], div_value=2.0, loose=8,
      inputs=[x(6, 8), given(0, 3, 11, 6, 2, 7, dtype="i8")])
layer("AdaptiveLogSoftmaxWithLoss", 8, 12, [3, 7], 2.0, True, loose=8, label="log_prob, predict",
      call=lambda lib, module, a: (module.log_prob(a), module.predict(a)), inputs=[x(6, 8)])
layer("AdaptiveLogSoftmaxWithLoss", 8, 12, [5], inputs=[x(8), made(lambda rng, d: np.array(7))],
      label="one row", loose=8)
each("MultiMarginLoss", x(3, 4), CLASSES, second=False)
each("MultiMarginLoss", x(3, 4), CLASSES, p=2, margin=0.5, weight=WEIGHT, second=False)
each("MultiLabelMarginLoss", x(2, 4), given([1, 3, -1, 0], [0, -1, 2, 2], dtype="i8"),
     second=False)
each("MultiLabelSoftMarginLoss", x(3, 4), bools(3, 4), call=labels)
each("MultiLabelSoftMarginLoss", x(3, 4), SHARE, weight=WEIGHT)

# ---- of pairs and triples
each("MarginRankingLoss", x(3, 4), x(3, 4), SIGNS)
each("MarginRankingLoss", x(3, 4), x(3, 4), SIGNS, margin=0.5)
each("HingeEmbeddingLoss", x(3, 4), SIGNS)
each("CosineEmbeddingLoss", x(3, 4), x(3, 4), made(lambda rng, d: np.array([1, -1, 1])))
each("CosineEmbeddingLoss", x(3, 4), x(3, 4), made(lambda rng, d: np.array([1, -1, -1])),
     margin=0.2)
each("TripletMarginLoss", x(5, 4), x(5, 4), x(5, 4))
each("TripletMarginLoss", x(5, 4), x(5, 4), x(5, 4), margin=2.0, p=1, swap=True)
each("TripletMarginWithDistanceLoss", x(5, 4), x(5, 4), x(5, 4), swap=True)
each("TripletMarginWithDistanceLoss", x(5, 4), x(5, 4), x(5, 4), label="a distance given",
     distance_function=lambda lib: lib.nn.PairwiseDistance(1.0))
for dim in (1, -1, 0):
    layer("CosineSimilarity", dim, inputs=[x(3, 4), x(3, 4)], loose=8)
layer("PairwiseDistance", inputs=[x(3, 4), x(3, 4)], loose=8)
layer("PairwiseDistance", 1.0, keepdim=True, inputs=[x(3, 4), x(3, 4)], loose=8)


# ---- sequences
def ctc(lib: Any, module: Any, a: Any, t: Any) -> Any:
    """Through log_softmax, behind which torch's gradients are those of ours."""
    return module(lib.nn.functional.log_softmax(a, 2), t, (7, 6, 7), (3, 1, 2))


each("CTCLoss", x(7, 3, 5), ints(3, 3, low=1, below=5), call=ctc, second=False)
each("CTCLoss", x(7, 3, 5), ints(6, below=4), call=ctc, second=False, blank=4, zero_infinity=True)
