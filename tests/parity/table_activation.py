"""Activations, dropouts and affine functions."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from inputs import given, x
from parity.entry import Table
from parity.functional import functions

import fusewire as fw

TABLE = Table("activations")
layer = functions(TABLE)

BENT = {"grad grad": "the first derivative has a bend there"}
# What differs of a function wherever it is called.
DIFFERS: dict[str, dict[str, str]] = {"hardsigmoid": {
    **dict.fromkeys(("grad", "forward"), "torch's derivative is 1 / 6 rounded to float32"),
    "grad grad": "torch has none"}}

# ---- affine
layer("linear", x(2, 4), x(3, 4), x(3))
layer("linear", x(2, 5, 4), x(3, 4), label="no bias")
layer("linear", x(4), x(3, 4), x(3), label="one row")
layer("bilinear", x(3, 4), x(3, 2), x(5, 4, 2), x(5))
layer("bilinear", x(2, 3, 4), x(2, 3, 2), x(1, 4, 2), label="no bias")
layer("bilinear", x(4), x(2), x(5, 4, 2), x(5), label="one row")

# ---- of one tensor: usual numbers, far from 0, at corners, nan and inf
CORNERS: dict[str, tuple[float, ...]] = {
    "relu6": (0.0, 6.0), "hardtanh": (-1.0, 1.0), "hardsigmoid": (-3.0, 3.0),
    "hardswish": (-3.0, 3.0), "hardshrink": (-0.5, 0.5), "softshrink": (-0.5, 0.5)}
BENDS = {"elu", "celu", "selu", "softsign", "hardswish"}  # of the derivative
for name in ("celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish "
             "relu relu6 rrelu selu sigmoid silu softplus softshrink softsign tanh tanhshrink"
             ).split():
    layer(name, x(3, 4), loose=8, differs=DIFFERS.get(name))
    layer(name, given(30.0, -30.0, 7.0), label="far", loose=8, differs=DIFFERS.get(name))
    layer(name, given(0.0, *CORNERS.get(name, ())), label="at corners", loose=8,
          differs=BENT if name in BENDS else DIFFERS.get(name))
    layer(name, given(float("nan")), label="nan", only=("values",))
layer("threshold", x(3, 4), args=(0.5, -2.0))
layer("threshold", given(1.0, 0.9, float("nan")), args=(1.0, 20.0), label="at the threshold",
      only=("values", "grad"))
layer("gelu", x(3, 4), more={"approximate": "tanh"}, loose=8)
layer("elu", x(3, 4), args=(0.5,))
layer("celu", x(3, 4), args=(0.5,))
layer("leaky_relu", x(3, 4), args=(0.3,))
layer("softplus", x(3, 4), args=(2.0, 3.0))
layer("softplus", given(10.05, 9.95, -4.0), more={"beta": 2}, label="near the threshold")
layer("hardtanh", x(3, 4), args=(-0.5, 2.0))
layer("hardshrink", x(3, 4), args=(1.0,))
layer("softshrink", x(3, 4), args=(1.0,))
layer("rrelu", x(3, 4), args=(0.1, 0.5))
layer("glu", x(3, 4))
layer("glu", x(2, 6, 3), more={"dim": 1})
layer("prelu", x(3, 4), x(1), label="one slope")
layer("prelu", x(3, 4), x(4), label="a slope for each channel")
layer("prelu", x(2, 4, 3), x(4), label="channels in the middle")
layer("prelu", x(5), x(1), label="no channels")
layer("prelu", given(0.0, 1.0), x(1), label="at 0", differs={
    **BENT, "forward": "torch's slope at 0 is 1 there, and the weight in its gradient"})

# ---- in place
for name, args in (("relu_", ()), ("elu_", (0.5,)), ("celu_", ()), ("selu_", ()), ("hardtanh_", ()),
                   ("leaky_relu_", (0.2,)), ("threshold_", (0.1, 2.0)), ("rrelu_", ())):
    def both(lib: Any, name: str = name, args: tuple[float, ...] = args) -> Any:
        def call(a: Any) -> Any:
            changed = a * 1
            return getattr(lib, name)(changed, *args) + changed

        return call

    layer(name, x(3, 4), ours=both(fw.nn.functional), theirs=both(F), loose=8)
for name in "relu elu hardswish mish silu relu6 hardsigmoid leaky_relu hardtanh celu selu".split():
    layer(name, x(3, 4), label="inplace", loose=8, differs=DIFFERS.get(name),
          ours=lambda a, n=name: getattr(fw.nn.functional, n)(a * 1, inplace=True),
          theirs=lambda a, n=name: getattr(F, n)(a * 1, inplace=True))

# ---- along an axis
for name in ("softmax", "log_softmax", "softmin"):
    layer(name, x(3, 4), more={"dim": 1})
    layer(name, x(2, 3, 4), more={"dim": -2})
layer("softmax", x(3, 4), label="in float64", kinds="f",
      ours=lambda a: fw.nn.functional.softmax(a, 1, dtype=fw.float64),
      theirs=lambda a: F.softmax(a, 1, dtype=a.new_zeros(1).double().dtype))

# ---- dropouts, where they do nothing at random
for name, shape in (("dropout", (3, 4)), ("alpha_dropout", (3, 4)), ("dropout1d", (2, 3, 4)),
                    ("dropout2d", (2, 3, 4, 2)), ("dropout3d", (2, 3, 2, 2, 2)),
                    ("feature_alpha_dropout", (2, 3, 4))):
    layer(name, x(*shape), args=(0.5, False), label="not training")
    layer(name, x(*shape), args=(0.0, True), label="p=0")
    layer(name, x(*shape), args=(1.0, True), label="p=1")
