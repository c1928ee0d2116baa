"""Rows of layers of images: padding, other sizes, windows as columns, channels as pixels."""

from __future__ import annotations

from typing import Any

from inputs import x
from layers.row import layer

SPACE: dict[int, Any] = {1: (5,), 2: (4, 5), 3: (3, 4, 5)}
for d, space in SPACE.items():
    for uneven in (1, tuple(range(1, 2 * d + 1)) if d == 1 else (1, 2, 2, 1, 0, 1)[:2 * d]):
        for kind in ("Zero", "Reflection", "Replication", "Circular"):
            layer(f"{kind}Pad{d}d", uneven, inputs=[x(2, 3, *space)])
        layer(f"ConstantPad{d}d", uneven, 2.5, inputs=[x(2, 3, *space)])
    for kind in ("Zero", "Reflection", "Replication", "Circular"):
        layer(f"{kind}Pad{d}d", 2, inputs=[x(3, *space)], label="without samples")
layer("ZeroPad2d", (-1, 2, 0, -1), inputs=[x(2, 3, 4, 5)])
layer("ConstantPad1d", (-1, -2), 1.0, inputs=[x(2, 3, 5)])
layer("CircularPad1d", (-1, 2), inputs=[x(2, 3, 5)])
layer("ReflectionPad1d", (2, -1), inputs=[x(2, 3, 5)])

UPSAMPLED: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {"size": 7}), (1, {"scale_factor": 2, "mode": "linear"}), (2, {"scale_factor": 2}),
    (2, {"scale_factor": (2, 1.5)}), (2, {"size": (3, 9), "mode": "nearest-exact"}),
    (2, {"size": (6, 3), "mode": "bilinear"}), (2, {"scale_factor": 1.7, "mode": "bicubic"}),
    (2, {"scale_factor": 2, "mode": "bilinear", "align_corners": True}),
    (2, {"scale_factor": 1.3, "mode": "bilinear", "recompute_scale_factor": True}),
    (3, {"scale_factor": 2, "mode": "trilinear"}), (3, {"size": (2, 5, 3), "mode": "area"}))
for d, more in UPSAMPLED:
    layer("Upsample", kwargs=more, inputs=[x(2, 3, *SPACE[d])], loose=8,
          label=", ".join(f"{k}={v}" for k, v in more.items()))
for name in ("UpsamplingNearest2d", "UpsamplingBilinear2d"):
    layer(name, scale_factor=2, inputs=[x(2, 3, 4, 5)], loose=8)
    layer(name, size=(3, 7), inputs=[x(2, 3, 4, 5)], loose=8)

layer("Unfold", 2, inputs=[x(2, 3, 4, 5)])
layer("Unfold", (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1), inputs=[x(2, 3, 4, 5)])
layer("Unfold", 2, inputs=[x(3, 4, 5)], label="without samples")
layer("Fold", (4, 5), 2, inputs=[x(2, 12, 12)])
layer("Fold", (5, 6), (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1),
      inputs=[x(2, 12, 18)])
layer("Fold", (4, 5), 2, inputs=[x(12, 12)], label="without samples")
layer("PixelShuffle", 2, inputs=[x(2, 8, 2, 3)])
layer("PixelShuffle", 3, inputs=[x(9, 2, 3)], label="without samples")
layer("PixelUnshuffle", 2, inputs=[x(2, 3, 4, 6)])
layer("ChannelShuffle", 2, inputs=[x(2, 6, 3, 4)])
layer("ChannelShuffle", 3, inputs=[x(2, 6, 3)], label="signals")
