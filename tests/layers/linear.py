"""Rows of affine layers."""

from __future__ import annotations

from inputs import x
from layers.row import layer

layer("Linear", 4, 3, inputs=[x(2, 4)])
layer("Linear", 4, 3, bias=False, inputs=[x(2, 5, 4)])
