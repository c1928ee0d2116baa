"""Layers as functions."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from parity.entry import Table, distinct, given, ints, x

import fusewire as fw

TABLE = Table("layers as functions")


def layer(name: str, *inputs: Any, args: tuple[Any, ...] = (), label: str = "", theirs: Any = None,
          ours: Any = None, **how: Any) -> None:
    """An entry of the same name in both, called with the tensors, `args` and `more`."""
    more = how.pop("more", {})

    def mine(*a: Any) -> Any:
        return getattr(fw.nn.functional, name)(*a, *args, **more)

    def other(*a: Any) -> Any:
        return getattr(F, name)(*a, *args, **more)

    label = label or ", ".join([*map(str, args), *(f"{k}={v}" for k, v in more.items())])
    TABLE(f"nn.functional.{name}", *inputs, label=label, ours=ours or mine, theirs=theirs or other,
          **{"loose": 4, **how})


layer("linear", x(2, 4), x(3, 4), x(3))
layer("linear", x(2, 5, 4), x(3, 4), label="no bias")
for more in ({}, {"stride": 2, "padding": 1}, {"dilation": (2, 1), "padding": "valid"},
             {"padding": "same"}):
    layer("conv2d", x(2, 3, 6, 5), x(4, 3, 3, 3), x(4), more=more, loose=20)
layer("max_pool2d", distinct(1, 2, 6, 4), args=(2,))
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
layer("one_hot", ints(3, 2, below=4), args=(4,), kinds="i",
      differs={"vmap": "torch's and ours take the number of classes from their argument alone"})
layer("dropout", x(3, 4), args=(0.5, False), label="not training")
layer("dropout", x(3, 4), args=(0.0, True), label="p=0")
