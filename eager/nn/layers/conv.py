"""Convolution layers and transposed convolution layers for one, two and three axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...arguments import check_choice, check_whole, per_axis
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.create import zeros
from .. import functional as F
from ..base import init
from ..base.module import Module
from ..base.parameter import Parameter
from ..functional.convolution import same_pads

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """Base of convolutions: sizes are tuples with one number for each axis."""

    axes: int  # of space
    function: Callable[..., Tensor]
    transposed = False
    in_channels: int
    out_channels: int
    padding: Any  # a tuple, "same" or "valid"
    weight: Parameter
    bias: Parameter | Any  # None without bias; Any, so that no reader with one has to test it

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_channels(in_channels, out_channels, groups)
        self._set_sizes(kernel_size=kernel_size, stride=stride, dilation=dilation)
        self._set_padding(padding, padding_mode)
        self.output_padding = (0,) * self.axes
        self._make(bias, device, dtype)

    def _set_channels(self, in_channels: int, out_channels: int, groups: int) -> None:
        name = type(self).__name__
        check_whole(name, "groups", groups, 1)
        for what, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            check_whole(name, what, count, 0)
            if count % groups:
                raise ArgumentError(f"{name}: {what}={count} is not divisible by groups={groups}",
                                    "every group has as many channels")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups

    def _set_sizes(self, **sizes: Any) -> None:
        for name, value in sizes.items():
            least = 0 if "padding" in name else 1
            setattr(self, name, per_axis(type(self).__name__, name, value, self.axes, least))

    def _set_padding(self, padding: Any, padding_mode: str) -> None:
        name = type(self).__name__
        self.padding_mode = check_choice(name, "padding_mode", padding_mode, _MODES)
        if not isinstance(padding, str):
            self.padding = per_axis(name, "padding", padding, self.axes, 0)
            return
        self.padding = check_choice(name, "padding", padding, ("same", "valid"))
        if padding == "same":
            same_pads(name, self.kernel_size, self.stride, self.dilation)

    def _weight_shape(self) -> tuple[int, ...]:
        outer, inner = (self.in_channels, self.out_channels) if self.transposed else \
            (self.out_channels, self.in_channels)
        return (outer, inner // self.groups, *self.kernel_size)

    def _make(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = Parameter(zeros(self._weight_shape(), dtype=dtype, device=device))
        self.bias = Parameter(zeros(self.out_channels, dtype=dtype, device=device)) if bias \
            else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias uniformly from +-1 / sqrt(the number of elements of one filter)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init.bias_uniform_(self.bias, self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return self.convolved(input, self.weight, self.bias)

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution of this layer with another weight."""
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = F.pad(x, self._pad_widths(), self.padding_mode), "valid"
        return type(self).function(x, weight, bias, self.stride, padding, self.dilation,
                                   self.groups)

    def _pad_widths(self) -> list[int]:
        """The widths for `F.pad`: (before, after) of the last axis, then of the axes before it."""
        if self.padding == "valid":
            pads = [(0, 0)] * self.axes
        elif self.padding == "same":
            pads = same_pads(type(self).__name__, self.kernel_size, self.stride, self.dilation)
        else:
            pads = [(p, p) for p in self.padding]
        return [n for pair in reversed(pads) for n in pair]

    def extra_repr(self) -> str:
        text = (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}")
        defaults = {"padding": (0,) * self.axes, "dilation": (1,) * self.axes,
                    "output_padding": (0,) * self.axes, "groups": 1}
        for name, value in defaults.items():
            current = getattr(self, name)
            text += f", {name}={current}" if current != value else ""
        text += "" if self.bias is not None else ", bias=False"
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros"
                       else "")


class Conv1d(_Conv):
    """Cross-correlation: (n, in_channels, l) -> (n, out_channels, l_out).

    The input may lack n. A size s of space becomes
    (s + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    The parameters are weight, (out_channels, in_channels / groups, kernel_size), and bias,
    (out_channels,). Both are drawn uniformly from +-1 / sqrt(m), where m is the number of elements
    of weight[0].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride: step between windows. Default 1.
        padding: number of elements added at both ends of each axis, "valid" for 0, or "same" for
            results as large as the input. Default 0.
        dilation: distance between the elements of a window. Default 1.
        groups: number of groups of channels that are convolved separately. Default 1.
        bias: adds a learned number to each channel of the result. Default True.
        padding_mode: values of the padding: "zeros", "reflect", "replicate" or "circular". Default
            "zeros".
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the input has other axes or channels, or is smaller than the kernel.
        ArgumentError: groups does not divide both numbers of channels, padding="same" with a stride
            other than 1, or an unknown padding or padding_mode.
        DTypeError: the input does not have the dtype of the weight.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Conv1d(2, 4, 3, padding="same", groups=2)
        >>> layer(fw.zeros(1, 2, 5)).shape, layer.weight.shape
        ((1, 4, 5), (4, 1, 3))
    """

    axes = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Cross-correlation: (n, in_channels, h, w) -> (n, out_channels, h_out, w_out).

    The input may lack n. A size s of space becomes
    (s + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    The parameters are weight, (out_channels, in_channels / groups, *kernel_size), and bias,
    (out_channels,). Both are drawn uniformly from +-1 / sqrt(m), where m is the number of elements
    of weight[0].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 2 of them.
        stride: step between windows; one number, or 2 of them. Default 1.
        padding: number of elements added at both ends of each axis, "valid" for 0, or "same" for
            results as large as the input. Default 0.
        dilation: distance between the elements of a window. Default 1.
        groups: number of groups of channels that are convolved separately. Default 1.
        bias: adds a learned number to each channel of the result. Default True.
        padding_mode: values of the padding: "zeros", "reflect", "replicate" or "circular". Default
            "zeros".
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the input has other axes or channels, or is smaller than the kernel.
        ArgumentError: groups does not divide both numbers of channels, padding="same" with a stride
            other than 1, or an unknown padding or padding_mode.
        DTypeError: the input does not have the dtype of the weight.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Conv2d(3, 8, kernel_size=3, stride=2, padding=1)
        >>> layer(fw.zeros(1, 3, 32, 32)).shape, layer.weight.shape
        ((1, 8, 16, 16), (8, 3, 3, 3))
    """

    axes = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Cross-correlation: (n, in_channels, d, h, w) -> (n, out_channels, d_out, h_out, w_out).

    The input may lack n. A size s of space becomes
    (s + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    The parameters are weight, (out_channels, in_channels / groups, *kernel_size), and bias,
    (out_channels,). Both are drawn uniformly from +-1 / sqrt(m), where m is the number of elements
    of weight[0].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 3 of them.
        stride: step between windows; one number, or 3 of them. Default 1.
        padding: number of elements added at both ends of each axis, "valid" for 0, or "same" for
            results as large as the input. Default 0.
        dilation: distance between the elements of a window. Default 1.
        groups: number of groups of channels that are convolved separately. Default 1.
        bias: adds a learned number to each channel of the result. Default True.
        padding_mode: values of the padding: "zeros", "reflect", "replicate" or "circular". Default
            "zeros".
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the input has other axes or channels, or is smaller than the kernel.
        ArgumentError: groups does not divide both numbers of channels, padding="same" with a stride
            other than 1, or an unknown padding or padding_mode.
        DTypeError: the input does not have the dtype of the weight.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Conv3d(1, 2, kernel_size=(1, 3, 3))
        >>> layer(fw.zeros(1, 1, 4, 8, 8)).shape, layer.weight.shape
        ((1, 2, 4, 6, 6), (2, 1, 1, 3, 3))
    """

    axes = 3
    function = staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    """Base of transposed convolutions, the gradients of convolutions with respect to the input.

    The weight is (in_channels, out_channels / groups, *kernel_size).
    """

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        Module.__init__(self)
        name = type(self).__name__
        if padding_mode != "zeros":
            raise ArgumentError(f"{name}: padding_mode {padding_mode!r} is not supported",
                                "padding shortens the result here: use 'zeros'")
        self._set_channels(in_channels, out_channels, groups)
        self._set_sizes(kernel_size=kernel_size, stride=stride, dilation=dilation, padding=padding,
                        output_padding=output_padding)
        self.padding_mode = padding_mode
        self._make(bias, device, dtype)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        added = self.output_padding if output_size is None else \
            self._padding_for(input, output_size)
        return type(self).function(input, self.weight, self.bias, self.stride, self.padding, added,
                                   self.groups, self.dilation)

    def _padding_for(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding that leads to `output_size`."""
        d, name = self.axes, type(self).__name__
        if len(output_size) not in (d, input.ndim):
            raise ShapeError(f"{name}: output_size {tuple(output_size)} for an input "
                             f"{input.shape}: needs {d} sizes of space, or all {input.ndim}")
        target = tuple(output_size)[-d:]
        smallest = tuple((n - 1) * s - 2 * p + r * (k - 1) + 1 for n, s, p, r, k in zip(
            input.shape[-d:], self.stride, self.padding, self.dilation, self.kernel_size))
        largest = tuple(n + s - 1 for n, s in zip(smallest, self.stride))
        if any(not low <= n <= high for low, n, high in zip(smallest, target, largest)):
            raise ShapeError(f"{name}: output_size {target} for an input {input.shape}: sizes go "
                             f"from {smallest} to {largest}",
                             "other strides or paddings make other sizes")
        return tuple(n - low for n, low in zip(target, smallest))


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution: (n, in_channels, l) -> (n, out_channels, l_out).

    It is the gradient of Conv1d with respect to its input. The input may lack n. A size s of space
    becomes (s - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1. The
    call takes output_size, the sizes of space or the whole shape, instead of output_padding.

    The parameters are weight, (in_channels, out_channels / groups, kernel_size), and bias,
    (out_channels,). Both are drawn uniformly from +-1 / sqrt(m), where m is the number of elements
    of weight[0].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride: distance between the kernels of neighbouring elements. Default 1.
        padding: number of elements removed at both ends of each axis. Default 0.
        output_padding: number of elements added at the end of each axis; less than stride or
            dilation. Default 0.
        groups: number of groups of channels that are convolved separately. Default 1.
        bias: adds a learned number to each channel of the result. Default True.
        dilation: distance between the elements of the kernel. Default 1.
        padding_mode: only "zeros". Default "zeros".
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the input has other axes or channels, or output_size is not possible.
        ArgumentError: groups does not divide both numbers of channels, output_padding is too large,
            or padding_mode is not "zeros".
        DTypeError: the input does not have the dtype of the weight.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.ConvTranspose1d(2, 4, 3, stride=2)
        >>> layer(fw.zeros(1, 2, 5)).shape, layer.weight.shape
        ((1, 4, 11), (2, 4, 3))
    """

    axes = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution: (n, in_channels, h, w) -> (n, out_channels, h_out, w_out).

    It is the gradient of Conv2d with respect to its input. The input may lack n. A size s of space
    becomes (s - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1. The
    call takes output_size, the sizes of space or the whole shape, instead of output_padding.

    The parameters are weight, (in_channels, out_channels / groups, *kernel_size), and bias,
    (out_channels,). Both are drawn uniformly from +-1 / sqrt(m), where m is the number of elements
    of weight[0].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 2 of them.
        stride: distance between the kernels of neighbouring elements; one number, or 2 of them.
            Default 1.
        padding: number of elements removed at both ends of each axis. Default 0.
        output_padding: number of elements added at the end of each axis; less than stride or
            dilation. Default 0.
        groups: number of groups of channels that are convolved separately. Default 1.
        bias: adds a learned number to each channel of the result. Default True.
        dilation: distance between the elements of the kernel. Default 1.
        padding_mode: only "zeros". Default "zeros".
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the input has other axes or channels, or output_size is not possible.
        ArgumentError: groups does not divide both numbers of channels, output_padding is too large,
            or padding_mode is not "zeros".
        DTypeError: the input does not have the dtype of the weight.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1)
        >>> x = fw.zeros(1, 8, 5, 5)
        >>> layer(x).shape, layer(x, output_size=(10, 10)).shape
        ((1, 4, 9, 9), (1, 4, 10, 10))
    """

    axes = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution: (n, in_channels, d, h, w) -> (n, out_channels, d_out, h_out, w_out).

    It is the gradient of Conv3d with respect to its input. The input may lack n. A size s of space
    becomes (s - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1. The
    call takes output_size, the sizes of space or the whole shape, instead of output_padding.

    The parameters are weight, (in_channels, out_channels / groups, *kernel_size), and bias,
    (out_channels,). Both are drawn uniformly from +-1 / sqrt(m), where m is the number of elements
    of weight[0].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 3 of them.
        stride: distance between the kernels of neighbouring elements; one number, or 3 of them.
            Default 1.
        padding: number of elements removed at both ends of each axis. Default 0.
        output_padding: number of elements added at the end of each axis; less than stride or
            dilation. Default 0.
        groups: number of groups of channels that are convolved separately. Default 1.
        bias: adds a learned number to each channel of the result. Default True.
        dilation: distance between the elements of the kernel. Default 1.
        padding_mode: only "zeros". Default "zeros".
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the input has other axes or channels, or output_size is not possible.
        ArgumentError: groups does not divide both numbers of channels, output_padding is too large,
            or padding_mode is not "zeros".
        DTypeError: the input does not have the dtype of the weight.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.ConvTranspose3d(2, 1, 2, stride=2)
        >>> layer(fw.zeros(1, 2, 3, 4, 4)).shape
        (1, 1, 6, 8, 8)
    """

    axes = 3
    function = staticmethod(F.conv_transpose3d)
