"""Lazy batch and instance norms, which take num_features from their first input."""

from __future__ import annotations

from typing import Any

from ...arrays.dtypes import int64
from ...ops.create import zeros
from ..base.parameter import UninitializedBuffer, UninitializedParameter
from ..layers.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .linear import LazyModuleMixin, materialize

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]


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
                materialize(x, (own.num_features,))
            own.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets the layer, once its parameters have shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def _channels(self, input: Any) -> Any:
        return input.shape[1]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """BatchNorm1d with num_features from its first input.

    The first call turns the layer into a BatchNorm1d: see there for shapes and errors.

    Args:
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones; None averages over all batches.
            Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the first input has other axes than BatchNorm1d takes.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyBatchNorm1d()
        >>> layer(fw.ones(2, 3, 4)).shape, layer.num_features
        ((2, 3, 4), 3)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """BatchNorm2d with num_features from its first input.

    The first call turns the layer into a BatchNorm2d: see there for shapes and errors.

    Args:
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones; None averages over all batches.
            Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the first input has other axes than BatchNorm2d takes.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyBatchNorm2d()
        >>> layer(fw.ones(2, 3, 4, 4)).shape, layer.num_features
        ((2, 3, 4, 4), 3)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """BatchNorm3d with num_features from its first input.

    The first call turns the layer into a BatchNorm3d: see there for shapes and errors.

    Args:
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones; None averages over all batches.
            Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the first input has other axes than BatchNorm3d takes.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyBatchNorm3d()
        >>> layer(fw.ones(2, 3, 4, 4, 4)).shape, layer.num_features
        ((2, 3, 4, 4, 4), 3)
    """

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    def _channels(self, input: Any) -> Any:
        unbatched = input.ndim == self.dimensions[0]  # one sample, without the axis of samples
        return input.shape[0 if unbatched else 1]


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """InstanceNorm1d with num_features from its first input.

    The first call turns the layer into an InstanceNorm1d: see there for shapes and errors.

    Args:
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones. Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the first input has other axes than InstanceNorm1d takes.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyInstanceNorm1d()
        >>> layer(fw.ones(2, 3, 4)).shape, layer.num_features
        ((2, 3, 4), 3)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """InstanceNorm2d with num_features from its first input.

    The first call turns the layer into an InstanceNorm2d: see there for shapes and errors.

    Args:
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones. Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the first input has other axes than InstanceNorm2d takes.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyInstanceNorm2d()
        >>> layer(fw.ones(2, 3, 4, 4)).shape, layer.num_features
        ((2, 3, 4, 4), 3)
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """InstanceNorm3d with num_features from its first input.

    The first call turns the layer into an InstanceNorm3d: see there for shapes and errors.

    Args:
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones. Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the first input has other axes than InstanceNorm3d takes.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyInstanceNorm3d()
        >>> layer(fw.ones(2, 3, 4, 4, 4)).shape, layer.num_features
        ((2, 3, 4, 4, 4), 3)
    """

    cls_to_become = InstanceNorm3d
