"""Rows of affine layers, of dropouts, and of layers that only change shapes."""

from __future__ import annotations

from inputs import x
from layers.row import layer

layer("Linear", 4, 3, inputs=[x(2, 4)])
layer("Linear", 4, 3, bias=False, inputs=[x(2, 5, 4)])
layer("Linear", 4, 3, inputs=[x(4)], label="one row")
layer("Bilinear", 4, 2, 3, inputs=[x(5, 4), x(5, 2)], loose=8)
layer("Bilinear", 4, 2, 3, bias=False, inputs=[x(5, 2, 4), x(5, 2, 2)], loose=8)
layer("Identity", inputs=[x(2, 3)])
layer("Identity", 54, unused=0.1, inputs=[x(2, 3)])
layer("Flatten", inputs=[x(2, 3, 4)])
layer("Flatten", 0, 1, inputs=[x(2, 3, 4)])
layer("Unflatten", 1, (2, -1), inputs=[x(2, 6)])
layer("Unflatten", -2, [2, 3], inputs=[x(6, 4)])

# ---- at random while training
SHAPES = {"Dropout": (3, 4), "AlphaDropout": (3, 4), "FeatureAlphaDropout": (2, 3, 4),
          "Dropout1d": (2, 3, 4), "Dropout2d": (2, 3, 4, 2), "Dropout3d": (2, 3, 2, 2, 2)}
for name, shape in SHAPES.items():
    layer(name, inputs=[x(*shape)], random=True)
    layer(name, 0.2, True, inputs=[x(*shape)], random=True,
          call=lambda lib, module, a: module(a * 1))
    layer(name, 0.0, inputs=[x(*shape)])
    layer(name, 1.0, inputs=[x(*shape)])
