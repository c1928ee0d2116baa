"""Defines the linear layer whose weight has few bits, with a scale for each group of inputs.

Its buffers stand for the weight, as `ops/products/grouped_product.py` says. Compiled code converts
the codes inside of the product, as long as there are few rows; it multiplies many rows with the
converted weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtypes
from ..core.tensor import Tensor, tensor
from ..errors import ShapeError
from ..nn.base.module import Module
from ..nn.utils import lora
from ..ops.elementwise.pointwise import cast
from ..ops.products.grouped_product import grouped_matrix, grouped_product

__all__ = ["BITS", "GroupedLinear", "why_not"]

BITS = {"int8": 8, "int4": 4}


class GroupedLinear(Module):
    """A linear layer whose weight has few bits: (..., inputs) -> (..., outputs).

    Inputs, sums and results are floats. Gradients flow to the input.

    Args:
        codes: (outputs, inputs), whole numbers of `bits` bits in uint8.
        scale: (outputs, groups), float32; each belongs to inputs / groups neighbouring inputs.
        least: (outputs, groups), float32: the number of the code 0.
        bias: (outputs,), or None.
        bits: 4 or 8. With 4, half of the inputs are a multiple of a group.
    """

    codes: Tensor
    scale: Tensor
    least: Tensor

    def __init__(self, codes: Any, scale: Any, least: Any, bias: Any, bits: int) -> None:
        super().__init__()
        self.out_features, self.in_features = codes.shape
        self.bits, self.group = bits, self.in_features // scale.shape[1]
        self.register_buffer("codes", tensor(_packed(codes, bits)))
        self.register_buffer("scale", tensor(scale))
        self.register_buffer("least", tensor(least))
        self.register_buffer("bias", None if bias is None else tensor(bias))

    @classmethod
    def rounded(cls, layer: Any, bits: int, group: int) -> GroupedLinear:
        """The form of a Linear layer in which each group has 2**bits evenly spaced numbers.

        The smallest and the largest number of a group are exact, as in Q4_1 of llama.cpp.

        Args:
            group: neighbouring inputs with a scale of their own; see `why_not` for its limits.
        """
        weight = layer.weight.detach().numpy().astype(np.float32)
        codes, scale, least = _grid(weight.reshape(len(weight), -1, group), bits)
        bias = None if layer.bias is None else layer.bias.detach().numpy()
        return cls(codes.reshape(weight.shape), scale, least, bias, bits)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise ShapeError(f"Linear: takes (..., {self.in_features}), got shape {x.shape}",
                             "the last axis has the inputs of the layer")
        out = grouped_product(x, self.codes, self.scale, self.least, self.bits)
        return out if self.bias is None else out + cast(self.bias, out.dtype)

    @property
    def weight(self) -> Tensor:
        """The weight that the codes stand for, in float32: (outputs, inputs)."""
        return grouped_matrix(self.codes, self.scale, self.least, self.bits)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bits={self.bits}, group={self.group}"


lora.register(GroupedLinear, lora.LinearAdapter)


def _grid(weight: Any, bits: int) -> tuple[Any, Any, Any]:
    """Codes, scales and smallest numbers of groups: (outputs, groups, group) -> the same shape,
    (outputs, groups), (outputs, groups)."""
    least, most = weight.min(-1), weight.max(-1)
    scale = ((most - least) / ((1 << bits) - 1)).astype(np.float32)
    safe = np.where(scale > 0, scale, 1)[..., None]
    codes = np.rint((weight - least[..., None]) / safe).clip(0, (1 << bits) - 1)
    return codes.astype(np.uint8), scale, least


def _packed(codes: Any, bits: int) -> Any:
    """Bytes of codes: (outputs, inputs) -> (outputs, inputs * bits / 8)."""
    if bits == 8:
        return codes
    low, high = np.split(codes, 2, axis=1)
    return low | high << 4


def why_not(layer: Any, bits: int, group: int) -> str:
    """The reason why the layer cannot have such a weight, or an empty text."""
    inputs = layer.weight.shape[1]
    multiple = group * 8 // bits
    if layer.weight.dtype not in (dtypes.float32, dtypes.bfloat16, dtypes.float16):
        return f"its weight is {layer.weight.dtype.name}, not float32, bfloat16 or float16"
    return "" if inputs % multiple == 0 else \
        f"its {inputs} inputs are no multiple of {multiple}; choose a smaller group"
