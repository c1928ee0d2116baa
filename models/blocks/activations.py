"""Maps the names that config.json gives to activations to functions."""

from __future__ import annotations

from collections.abc import Callable

import fusewire as fw
import fusewire.nn.functional as F


def gelu_tanh(x: fw.Tensor) -> fw.Tensor:
    """GELU by the tanh formula, elementwise: the shape of `x`."""
    return F.gelu(x, approximate="tanh")


def quick_gelu(x: fw.Tensor) -> fw.Tensor:
    """x * sigmoid(1.702 x), elementwise: the shape of `x`."""
    return x * F.sigmoid(x * 1.702)


ACTIVATIONS: dict[str, Callable[[fw.Tensor], fw.Tensor]] = {
    "gelu": F.gelu, "gelu_new": gelu_tanh, "gelu_fast": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh, "quick_gelu": quick_gelu,
    "relu": F.relu, "silu": F.silu, "swish": F.silu, "tanh": fw.tanh,
}
