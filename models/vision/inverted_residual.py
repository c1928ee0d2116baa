"""The parts that mobile networks share, with torchvision's names: arXiv 1801.04381, 1905.02244."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import fusewire as fw
from fusewire import nn

Norm = Callable[[int], nn.Module]


def divisible(channels: float, divisor: int = 8) -> int:
    """`channels` rounded to a multiple of `divisor`, but not down by more than a tenth."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded if rounded >= 0.9 * channels else rounded + divisor


def conv_norm(n_in: int, n_out: int, kernel: int = 3, stride: int = 1, groups: int = 1,
              norm: Norm = nn.BatchNorm2d, activation: type[nn.Module] | None = nn.ReLU,
              dilation: int = 1) -> nn.Sequential:
    """A convolution that keeps the size apart from its stride, a norm and an activation."""
    layers = [nn.Conv2d(n_in, n_out, kernel, stride, (kernel - 1) // 2 * dilation, dilation,
                        groups, bias=False), norm(n_out)]
    return nn.Sequential(*layers, *([] if activation is None else [activation()]))


class SqueezeExcitation(nn.Module):
    """Channels scaled by a small network on their means: Hu et al., arXiv 1709.01507."""

    def __init__(self, channels: int, squeezed: int, activation: type[nn.Module] = nn.ReLU,
                 scale: type[nn.Module] = nn.Sigmoid) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.activation, self.scale_activation = activation(), scale()

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        means = x.mean(axis=(2, 3), keepdims=True)
        return x * self.scale_activation(self.fc2(self.activation(self.fc1(means))))


@dataclass(frozen=True)
class BlockSpec:
    """The sizes of an inverted residual block.

    kernel, stride: of the depthwise convolution; n_in, expanded, n_out: channels; squeezed:
    channels of squeeze and excitation, 0 for none; activation: between the convolutions.
    """

    kernel: int
    stride: int
    n_in: int
    expanded: int
    n_out: int
    squeezed: int
    activation: type[nn.Module]


class StochasticDepth(nn.Module):
    """Zeros for a random share `p` of the examples while training: arXiv 1603.09382."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        if not self.training or self.p == 0:
            return x
        survives = fw.rand((x.shape[0],) + (1,) * (x.ndim - 1), device=x.device) >= self.p
        return x * survives.astype(x.dtype) / (1 - self.p)


class InvertedResidual(nn.Module):
    """1x1 up, depthwise, squeeze and excitation, 1x1 down; its layers are in `block`.

    Args:
        spec: the sizes.
        norm: makes a norm layer of a number of channels.
        se_activation, se_scale: of squeeze and excitation.
        drop: the share of examples whose block is skipped while training.
    """

    def __init__(self, spec: BlockSpec, norm: Norm, se_activation: type[nn.Module],
                 se_scale: type[nn.Module], drop: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if spec.expanded != spec.n_in:
            layers.append(conv_norm(spec.n_in, spec.expanded, 1, norm=norm,
                                    activation=spec.activation))
        layers.append(conv_norm(spec.expanded, spec.expanded, spec.kernel, spec.stride,
                                spec.expanded, norm, spec.activation))
        if spec.squeezed:
            layers.append(SqueezeExcitation(spec.expanded, spec.squeezed, se_activation, se_scale))
        layers.append(conv_norm(spec.expanded, spec.n_out, 1, norm=norm, activation=None))
        self.block = nn.Sequential(*layers)
        self.is_residual = spec.stride == 1 and spec.n_in == spec.n_out
        self.stochastic_depth = StochasticDepth(drop)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        out = self.block(x)
        return x + self.stochastic_depth(out) if self.is_residual else out
