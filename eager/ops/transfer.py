"""Moves tensors between devices, as an op, so that gradients are moved back."""

from __future__ import annotations

from ..arrays import devices
from ..core.dispatch import apply
from ..core.op import Op, define, each
from ..core.tensor import Tensor
from .declare import alias

transfer_op = define(Op(
    "transfer", "opaque", lambda x, device: x, lambda xp, x, device: devices.moved(x, device),
    vjp=each(lambda g, out, x, device: transfer(g, x.device)), onnx="Identity",
    why={"meaning": "it moves elements without changing them"}, stored=True))


def transfer(x: Tensor, device: str) -> Tensor:
    """`x` on the device of that name, as a new tensor."""
    if x.device == device:
        return alias(x)
    return apply(transfer_op, (x,), {"device": device})


def beside(x: Tensor, y: Tensor) -> Tensor:
    """`x` on the device of `y`; returns `x` itself if it is there already."""
    return x if x.device == y.device else transfer(x, y.device)
