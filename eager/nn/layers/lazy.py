"""Lazy layers, which take sizes from their first input, and their mixin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays.dtypes import int64
from ...core.tape import no_grad
from ...errors import StateError
from ...ops.create import zeros
from ..base.module import Module
from ..base.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from ..functional.inputs import with_samples
from .batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "LazyModuleMixin",
]


class LazyModuleMixin:
    """The base, before Module, of a class with UninitializedParameters and -Buffers.

    The class defines `initialize_parameters(*args, **kwargs)`, called with the first input: it
    gives shapes to what has none with `materialize(shape)`. After that the module is one of
    `cls_to_become`. A state dict that is loaded gives shapes as well.

    >>> import fusewire as fw
    >>> layer = fw.nn.LazyLinear(2)
    >>> layer(fw.ones(1, 3)).shape, layer
    ((1, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become: type[Module] | None = None
    initialize_parameters: Callable[..., None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own: Any = self
        self._load_hook = own.register_load_state_dict_pre_hook(_take_shapes)
        self._initialize_hook = own.register_forward_pre_hook(_initialize, with_kwargs=True)

    def has_uninitialized_params(self) -> bool:
        """True if a parameter or buffer has no shape yet."""
        own: Any = self
        return any(is_lazy(x) for x in (*own._parameters.values(), *own._buffers.values()))


def _initialize(module: Any, args: Any, kwargs: Any) -> None:
    """Forward pre-hook: initializes all shapes and converts the module to `cls_to_become`."""
    with no_grad():
        module.initialize_parameters(*args, **kwargs)
    name = type(module).__name__
    if module.has_uninitialized_params():
        raise StateError(f"{name}.initialize_parameters left parameters or buffers without a shape",
                         "call materialize(shape) on each of them there")
    module._load_hook.remove()
    module._initialize_hook.remove()
    del module._load_hook, module._initialize_hook
    if not any(vars(module._hooks).values()):
        del module._hooks  # calls of a module without hooks are faster
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _take_shapes(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
    """Load hook: parameters and buffers without a shape take the shapes in the state dict."""
    for name, x in (*module._parameters.items(), *module._buffers.items()):
        value = state_dict.get(prefix + name)
        if value is not None and is_lazy(x) and not is_lazy(value):
            x.materialize(value.shape)


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose in_features are the last size of its first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
                 ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        self.bias = UninitializedParameter(device=device, dtype=dtype) if bias else None

    def reset_parameters(self) -> None:
        """Draws weight and bias as Linear does, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Sets in_features to the last size of `input` and draws the parameters."""
        uninitialized = self.has_uninitialized_params()
        self.in_features = input.shape[-1] if uninitialized else self.weight.shape[-1]
        if uninitialized:
            _materialize(self.weight, (self.out_features, self.in_features))
            _materialize(self.bias, (self.out_features,))
            self.reset_parameters()


def _materialize(x: Any, shape: tuple[int, ...]) -> None:
    if x is not None:
        x.materialize(shape)


# ---- convolutions
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
        _materialize(self.weight, own._weight_shape())
        _materialize(self.bias, (own.out_channels,))
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
    """A Conv1d whose in_channels come from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d whose in_channels come from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d whose in_channels come from its first input."""

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
    """A ConvTranspose1d whose in_channels come from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d whose in_channels come from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d whose in_channels come from its first input."""

    cls_to_become = ConvTranspose3d


# ---- norms of channels
class _LazyNorm(LazyModuleMixin):
    """Base of normalization layers that take num_features from the first input."""

    dimensions: Any

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"device": device, "dtype": dtype}
        self.weight: Any = UninitializedParameter(**options) if affine else None
        self.bias: Any = UninitializedParameter(**options) if affine and bias else None
        if track_running_stats:
            self.running_mean: Any = UninitializedBuffer(**options)
            self.running_var: Any = UninitializedBuffer(**options)
            self.num_batches_tracked: Any = zeros((), dtype=int64, device=device)

    def initialize_parameters(self, input: Any) -> None:
        """Sets num_features to the number of channels of `input` and resets the layer."""
        own: Any = self
        own._check_input_dim(input)
        uninitialized = self.has_uninitialized_params()
        loaded = next((x for x in (self.weight, self.running_mean) if x is not None), None)
        own.num_features = self._channels(input) if uninitialized or loaded is None \
            else loaded.shape[0]
        if uninitialized:
            for x in (self.weight, self.bias, self.running_mean, self.running_var):
                _materialize(x, (own.num_features,))
            own.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets the layer, once its parameters have shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def _channels(self, input: Any) -> Any:
        return input.shape[1]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d whose num_features come from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A BatchNorm2d whose num_features come from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A BatchNorm3d whose num_features come from its first input."""

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    def _channels(self, input: Any) -> Any:
        unbatched = input.ndim == self.dimensions[0]  # one sample, without the axis of samples
        return input.shape[0 if unbatched else 1]


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """An InstanceNorm1d whose num_features come from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """An InstanceNorm2d whose num_features come from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """An InstanceNorm3d whose num_features come from its first input."""

    cls_to_become = InstanceNorm3d
