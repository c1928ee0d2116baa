"""Rows of activation layers."""

from __future__ import annotations

from typing import Any

from inputs import x
from layers.row import layer

# ---- of single elements: those that may change their input in place, and others
IN_PLACE: dict[str, tuple[tuple[Any, ...], ...]] = {
    "CELU": ((), (0.5,)), "ELU": ((), (0.5,)), "Hardsigmoid": ((),), "Hardswish": ((),),
    "Hardtanh": ((), (-2, 0.5)), "LeakyReLU": ((), (0.3,)), "Mish": ((),), "ReLU": ((),),
    "ReLU6": ((),), "SELU": ((),), "SiLU": ((),), "Threshold": ((0.5, 2.0),)}
OTHERS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "GELU": ((), ("tanh",)), "Hardshrink": ((), (1.0,)), "LogSigmoid": ((),), "Sigmoid": ((),),
    "Softplus": ((), (2.0, 3.0)), "Softshrink": ((), (1.0,)), "Softsign": ((),), "Tanh": ((),),
    "Tanhshrink": ((),)}
DIFFERS: dict[str, Any] = {"Hardsigmoid": {
    "grad": "torch's derivative is 1 / 6 rounded to float32", "grad grad": "torch has none"}}
for name, ways in (IN_PLACE | OTHERS).items():
    for args in ways:
        layer(name, *args, inputs=[x(3, 4)], loose=8, differs=DIFFERS.get(name, {}))
for name, ways in IN_PLACE.items():
    layer(name, *ways[-1], inplace=True, inputs=[x(3, 4)], loose=8, differs=DIFFERS.get(name, {}),
          call=lambda lib, module, a: module(a * 1))
layer("RReLU", inputs=[x(3, 4)], random=True)
layer("RReLU", 0.1, 0.3, True, inputs=[x(3, 4)], random=True,
      call=lambda lib, module, a: module(a * 1))
layer("PReLU", inputs=[x(3, 4)])
layer("PReLU", 4, 0.1, inputs=[x(2, 4, 3)])

# ---- along an axis
layer("GLU", inputs=[x(3, 4)])
layer("GLU", 1, inputs=[x(2, 4, 3)])
for name in ("Softmax", "Softmin", "LogSoftmax"):
    layer(name, 1, inputs=[x(3, 4)])
    layer(name, dim=-2, inputs=[x(2, 3, 4)])
layer("Softmax2d", inputs=[x(2, 3, 2, 2)])
layer("Softmax2d", inputs=[x(3, 2, 2)], label="one image")
