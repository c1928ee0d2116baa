"""Lazy convolution layers, which take in_channels from their first input."""

from __future__ import annotations

from typing import Any

from ..base.parameter import UninitializedParameter
from ..functional.inputs import with_samples
from ..layers.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import LazyModuleMixin, materialize

__all__ = [
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


class _LazyChannels(LazyModuleMixin):
    """Base of convolutions that take in_channels from the first input."""

    axes: int

    def _make(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
        self.bias: Any = UninitializedParameter(device=device, dtype=dtype) if bias else None

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Sets in_channels to the number of channels of `input` and draws the parameters."""
        own: Any = self
        if not self.has_uninitialized_params():  # a state dict set the shapes
            channels = self.weight.shape[0] if own.transposed else self.weight.shape[1] * own.groups
            own.in_channels = channels
            return
        channels = with_samples(type(self).__name__, input, self.axes).shape[1]
        own._set_channels(channels, own.out_channels, own.groups)
        materialize(self.weight, own._weight_shape())
        materialize(self.bias, (own.out_channels,))
        own.reset_parameters()


class _LazyConv(_LazyChannels):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, bias,
                         padding_mode, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """Conv1d with in_channels from its first input.

    The first call turns the layer into a Conv1d: see there for shapes and errors.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride, padding, dilation, groups, bias, padding_mode: as in Conv1d, with its defaults.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the first input does not have 2 or 3 axes.
        ArgumentError: groups does not divide both numbers of channels.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyConv1d(4, kernel_size=3)
        >>> layer(fw.zeros(1, 3, 5)).shape, layer.in_channels
        ((1, 4, 3), 3)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """Conv2d with in_channels from its first input.

    The first call turns the layer into a Conv2d: see there for shapes and errors.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 2 of them.
        stride, padding, dilation, groups, bias, padding_mode: as in Conv2d, with its defaults.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the first input does not have 3 or 4 axes.
        ArgumentError: groups does not divide both numbers of channels.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyConv2d(4, kernel_size=3)
        >>> layer(fw.zeros(1, 3, 5, 5)).shape, layer.in_channels
        ((1, 4, 3, 3), 3)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """Conv3d with in_channels from its first input.

    The first call turns the layer into a Conv3d: see there for shapes and errors.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 3 of them.
        stride, padding, dilation, groups, bias, padding_mode: as in Conv3d, with its defaults.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the first input does not have 4 or 5 axes.
        ArgumentError: groups does not divide both numbers of channels.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyConv3d(4, kernel_size=3)
        >>> layer(fw.zeros(1, 3, 5, 5, 5)).shape, layer.in_channels
        ((1, 4, 3, 3, 3), 3)
    """

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyChannels):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(0, out_channels, kernel_size, stride, padding, output_padding, groups,
                         bias, dilation, padding_mode, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """ConvTranspose1d with in_channels from its first input.

    The first call turns the layer into a ConvTranspose1d: see there for shapes and errors.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride, padding, output_padding, groups, bias, dilation, padding_mode: as in
            ConvTranspose1d, with its defaults.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the first input does not have 2 or 3 axes.
        ArgumentError: groups does not divide both numbers of channels.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyConvTranspose1d(4, kernel_size=3)
        >>> layer(fw.zeros(1, 3, 5)).shape, layer.in_channels
        ((1, 4, 7), 3)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """ConvTranspose2d with in_channels from its first input.

    The first call turns the layer into a ConvTranspose2d: see there for shapes and errors.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 2 of them.
        stride, padding, output_padding, groups, bias, dilation, padding_mode: as in
            ConvTranspose2d, with its defaults.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the first input does not have 3 or 4 axes.
        ArgumentError: groups does not divide both numbers of channels.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyConvTranspose2d(4, kernel_size=3)
        >>> layer(fw.zeros(1, 3, 5, 5)).shape, layer.in_channels
        ((1, 4, 7, 7), 3)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """ConvTranspose3d with in_channels from its first input.

    The first call turns the layer into a ConvTranspose3d: see there for shapes and errors.

    Args:
        out_channels: channels of the result.
        kernel_size: size of the kernel; one number, or 3 of them.
        stride, padding, output_padding, groups, bias, dilation, padding_mode: as in
            ConvTranspose3d, with its defaults.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ShapeError: the first input does not have 4 or 5 axes.
        ArgumentError: groups does not divide both numbers of channels.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyConvTranspose3d(4, kernel_size=3)
        >>> layer(fw.zeros(1, 3, 5, 5, 5)).shape, layer.in_channels
        ((1, 4, 7, 7, 7), 3)
    """

    cls_to_become = ConvTranspose3d
