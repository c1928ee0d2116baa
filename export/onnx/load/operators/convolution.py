"""Defines convolutions, and the padding of windows."""

from __future__ import annotations

from typing import Any

from .....eager.errors import ImportModelError
from .....eager.nn import functional as F
from .....eager.ops.shape import padding
from ..runtime.table import Tensor, operator

__all__: list[str] = []

Pads = list[tuple[Any, Any]]
_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def pads_of(auto_pad: str, pads: Any, space: Any, kernel: Any, strides: Any, dilations: Any
            ) -> Pads:
    """(before, after) padding of each spatial axis."""
    d = len(kernel)
    if auto_pad in ("NOTSET", ""):
        return [(pads[i], pads[i + d]) for i in range(d)] if pads else [(0, 0)] * d
    if auto_pad == "VALID":
        return [(0, 0)] * d
    widths = []
    for n, k, s, r in zip(space, kernel, strides, dilations):
        total = (-(-n // s) - 1) * s + (k - 1) * r + 1 - n
        total = total if total > 0 else 0
        half = total // 2
        widths.append((half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half))
    return widths


def padded(x: Tensor, pads: Pads, value: Any = 0) -> Tensor:
    """`x` padded along its spatial axes."""
    if all(type(n) is int and n == 0 for pair in pads for n in pair):
        return x
    lead = x.ndim - len(pads)
    return padding.pad(x, [*[(0, 0)] * lead, *pads], constant_values=value)


def of_space(table: dict[int, Any], name: str, d: int) -> Any:
    """The function for `d` spatial axes. Raises ImportModelError if there is none."""
    if d not in table:
        raise ImportModelError(f"{name} over {d} spatial axes is not supported",
                               f"supported are {', '.join(map(str, table))}")
    return table[d]


@operator("Conv")
def _conv(x: Tensor, w: Tensor, b: Tensor | None = None, auto_pad: str = "NOTSET",
          dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
          strides: Any = None) -> Tensor:
    d = x.ndim - 2
    kernel = w.shape[2:]
    strides, dilations = strides or (1,) * d, dilations or (1,) * d
    widths = pads_of(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    even = all(a == b for a, b in widths)
    x, around = (x, [a for a, _ in widths]) if even else (padded(x, widths), [0] * d)
    return of_space(_CONV, "Conv", d)(
        x, w, b, stride=strides, padding=around, dilation=dilations, groups=group)


@operator("ConvTranspose")
def _conv_transpose(x: Tensor, w: Tensor, b: Tensor | None = None, auto_pad: str = "NOTSET",
                    dilations: Any = None, group: int = 1, kernel_shape: Any = None,
                    output_padding: Any = None, output_shape: Any = None, pads: Any = None,
                    strides: Any = None) -> Tensor:
    """The full transposed convolution, from which the pads are cut."""
    d = x.ndim - 2
    strides, dilations = strides or (1,) * d, dilations or (1,) * d
    more = output_padding or (0,) * d
    full = of_space(_TRANSPOSE, "ConvTranspose", d)(
        x, w, None, stride=strides, dilation=dilations, groups=group)
    whole = [n + m for n, m in zip(full.shape[2:], more)]
    if output_shape:
        target: Any = output_shape[-d:]
        total = [n - m for n, m in zip(whole, target)]
        cuts = [(t - t // 2, t // 2) if auto_pad != "SAME_UPPER" else (t // 2, t - t // 2)
                for t in total]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        total = [n - m * s for n, m, s in zip(whole, x.shape[2:], strides)]
        cuts = [(t // 2, t - t // 2) if auto_pad == "SAME_UPPER" else (t - t // 2, t // 2)
                for t in total]
    else:
        cuts = pads_of(auto_pad, pads, x.shape[2:], w.shape[2:], strides, dilations)
    out = _cut(full, [(a, b - m) for (a, b), m in zip(cuts, more)])
    return out if b is None else out + b.reshape((-1, *[1] * d))


def _cut(x: Tensor, cuts: Pads) -> Tensor:
    """`x` cut along its spatial axes; a negative cut appends zeros."""
    x = padded(x, [(max(-a, 0), max(-b, 0)) for a, b in cuts])
    index = [slice(max(a, 0), n - max(b, 0)) for (a, b), n in zip(cuts, x.shape[2:])]
    return x[tuple([slice(None)] * 2 + index)]
