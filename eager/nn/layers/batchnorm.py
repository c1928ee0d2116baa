"""Batch and instance normalization layers, with running statistics for each channel."""

from __future__ import annotations

from typing import Any

from ...arrays.dtypes import float64, int64
from ...core.tape import with_tape
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.collectives.collective import all_reduce, replicate
from ...ops.create import full, ones, zeros
from ...ops.elementwise.pointwise import cast
from .. import functional as F
from ..base.module import Module
from ..base.parameter import Parameter
from .normalization import Scaled

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "SyncBatchNorm",
]


class _ChannelNorm(Scaled):
    """Base of layers with weight, bias and running statistics for each channel."""

    dimensions: tuple[int, ...]  # the numbers of axes that an input may have
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool,
        track_running_stats: bool, device: Any, dtype: Any, bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(ones(num_features, **options)) if affine else None
        self.bias = Parameter(zeros(num_features, **options)) if affine and bias else None
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **options) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **options) if tracked else None)
        batch_count = zeros((), dtype=int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", batch_count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Sets the running mean to 0, the running variance to 1, the number of batches to 0."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1),
                              (self.num_batches_tracked, 0)):
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Sets the weight to 1, the bias to 0 and resets the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.dimensions:
            shapes = " or ".join(f"{n} axes" for n in self.dimensions)
            raise ShapeError(
                f"{type(self).__name__}: takes (n, {self.num_features}, ...) with {shapes}, got "
                f"shape {input.shape}", "the digit in the layer's name counts the axes of space")

    def _check_channels(self, input: Tensor, axis: int) -> None:
        """Raises a ShapeError for another number of channels than num_features.

        With parameters or running statistics, the function finds it by their shapes.
        """
        if self.weight is None and self.running_mean is None \
                and input.shape[axis] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: the input {input.shape} has {input.shape[axis]} channels "
                f"in axis {axis}, not num_features={self.num_features}",
                "make the layer for the number of channels of its input")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        number = prefix + "num_batches_tracked"
        if self.num_batches_tracked is not None and number not in state_dict:
            state_dict[number] = self.num_batches_tracked  # older checkpoints do not have it
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
                f"affine={self.affine}, bias={self.bias is not None}, "
                f"track_running_stats={self.track_running_stats}")


# ---- over the batch
class _BatchNorm(_ChannelNorm):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_channels(input, 1)
        momentum = self._count_batch() if self.training else 0.0
        has_running = self.running_mean is not None and self.running_var is not None
        uses_running = self.track_running_stats or not self.training
        return F.batch_norm(
            input, self.running_mean if uses_running else None,
            self.running_var if uses_running else None, self.weight, self.bias,
            self.training or not has_running, momentum, self.eps)

    def _count_batch(self) -> Any:
        """The weight of the next batch in the running statistics; increments the batch counter."""
        count = self.num_batches_tracked
        if count is not None and self.track_running_stats:
            with_tape(False, count.add_, 1)
            if self.momentum is None:  # the average over all batches
                return 1.0 / cast(count, float64)
        return 0.0 if self.momentum is None else self.momentum


class BatchNorm1d(_BatchNorm):
    """Batch normalization for each channel of (n, c) or (n, c, l); of the shape of the input.

    (x - mean) / sqrt(variance + eps) * weight + bias over the batch, with weight and bias (c,).
    Training uses the statistics of the batch and updates the running ones:
    running = (1 - momentum) * running + momentum * batch, with the variance divided by count - 1.
    Evaluation uses the running statistics. Ioffe and Szegedy, arXiv 1502.03167.

    Args:
        num_features: the number of channels c.
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones; None averages over all batches.
            Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation; with False every call uses
            those of the batch. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the input does not have 2 or 3 axes or c channels, or has only one value per
            channel in training.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.BatchNorm1d(1, eps=0.0)
        >>> layer(fw.tensor([[1.0], [3.0]])).detach()
        tensor([[-1.],
                [ 1.]])
        >>> layer.running_mean, layer.num_batches_tracked
        (tensor([0.2]), tensor(1))
    """

    dimensions = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization for each channel of (n, c, h, w); of the shape of the input.

    (x - mean) / sqrt(variance + eps) * weight + bias over the batch and space, with weight and bias
    (c,). Training uses the statistics of the batch and updates the running ones:
    running = (1 - momentum) * running + momentum * batch, with the variance divided by count - 1.
    Evaluation uses the running statistics. Ioffe and Szegedy, arXiv 1502.03167.

    Args:
        num_features: the number of channels c.
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones; None averages over all batches.
            Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation; with False every call uses
            those of the batch. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the input does not have 4 axes or c channels, or has only one value per
            channel in training.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.BatchNorm2d(3)
        >>> layer(fw.ones(2, 3, 4, 4)).shape, layer.weight.shape
        ((2, 3, 4, 4), (3,))
    """

    dimensions = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization for each channel of (n, c, d, h, w); of the shape of the input.

    (x - mean) / sqrt(variance + eps) * weight + bias over the batch and space, with weight and bias
    (c,). Training uses the statistics of the batch and updates the running ones:
    running = (1 - momentum) * running + momentum * batch, with the variance divided by count - 1.
    Evaluation uses the running statistics. Ioffe and Szegedy, arXiv 1502.03167.

    Args:
        num_features: the number of channels c.
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones; None averages over all batches.
            Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation; with False every call uses
            those of the batch. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the input does not have 5 axes or c channels, or has only one value per
            channel in training.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.BatchNorm3d(3)
        >>> layer(fw.ones(2, 3, 4, 4, 4)).shape, layer.weight.shape
        ((2, 3, 4, 4, 4), (3,))
    """

    dimensions = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization for each channel of (n, c, ...), with 0 to 3 axes of space.

    It computes what BatchNorm1d, BatchNorm2d and BatchNorm3d compute. In training, the statistics
    are those of the joint batch of all ranks of a process group.

    Args:
        num_features: the number of channels c.
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones; None averages over all batches.
            Default 0.1.
        affine: adds a learned weight and bias. Default True.
        track_running_stats: keeps running statistics for the evaluation; with False every call uses
            those of the batch. Default True.
        process_group: a group of fusewire.distributed. Default None: this process alone.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the input does not have 2 to 5 axes or c channels, or has only one value per
            channel in training.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Sequential(fw.nn.BatchNorm2d(3))
        >>> model = fw.nn.SyncBatchNorm.convert_sync_batchnorm(model)
        >>> type(model[0]).__name__, model(fw.ones(2, 3, 4, 4)).shape
        ('SyncBatchNorm', (2, 3, 4, 4))
    """

    dimensions = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        uses_batch = self.training or self.running_mean is None
        if self.process_group is None or not uses_batch:
            return super().forward(input)
        self._check_input_dim(input)
        self._check_channels(input, 1)
        axes = tuple(i for i in range(input.ndim) if i != 1)
        count = self._total(full((), float(input.size // input.shape[1]), input.dtype))
        mean = self._total(input.sum(axes)) / count
        shape = (1, -1, *[1] * (input.ndim - 2))
        centred = input - replicate(mean, self.process_group).reshape(shape)
        variance = self._total(centred.square().sum(axes)) / count
        if self.training:
            self._track(mean.detach(), (variance * count / (count - 1)).detach())
        scale = 1.0 / (replicate(variance, self.process_group) + self.eps).sqrt()
        out = centred * scale.reshape(shape)
        out = out if self.weight is None else out * self.weight.reshape(shape)
        return out if self.bias is None else out + self.bias.reshape(shape)

    def _total(self, x: Tensor) -> Tensor:
        """The sum of `x` over the ranks."""
        return all_reduce(x, self.process_group, type(self).__name__)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Mixes the statistics of a batch into the running ones."""
        momentum = self._count_batch()
        for running, new in ((self.running_mean, mean), (self.running_var, variance)):
            if running is not None:
                with_tape(False, running.copy_, cast(
                    running * (1.0 - momentum) + new * momentum, running.dtype))

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with every batch normalization replaced by one of this class.

        The new layers share the parameters and buffers of the old ones.
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine,
                            module.track_running_stats, process_group, bias=module.bias is not None)
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


# ---- within each sample
class _InstanceNorm(_ChannelNorm):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.ndim == self.dimensions[0]
        self._check_channels(input, int(not unbatched))
        out = F.instance_norm(
            input[None] if unbatched else input, self.running_mean, self.running_var, self.weight,
            self.bias, self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum, self.eps)
        return out[0] if unbatched else out


class InstanceNorm1d(_InstanceNorm):
    """Normalization of each channel of each sample: (n, c, l) or (c, l).

    The result has the shape of the input: (x - mean) / sqrt(variance + eps) over space. With affine
    it is multiplied by weight, and bias is added; both are (c,). With track_running_stats, training
    updates running statistics by the means over the samples, and evaluation uses them. Ulyanov,
    Vedaldi and Lempitsky, arXiv 1607.08022.

    Args:
        num_features: the number of channels c.
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones. Default 0.1.
        affine: adds a learned weight and bias. Default False.
        track_running_stats: keeps running statistics for the evaluation; with False every call uses
            those of the sample. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the input does not have 2 or 3 axes, has one value per channel, or with affine
            does not have c channels.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.InstanceNorm1d(1, eps=0.0)(fw.tensor([[1.0, 3.0]]))
        tensor([[-1.,  1.]])
    """

    dimensions = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalization of each channel of each sample: (n, c, h, w) or (c, h, w).

    The result has the shape of the input: (x - mean) / sqrt(variance + eps) over space. With affine
    it is multiplied by weight, and bias is added; both are (c,). With track_running_stats, training
    updates running statistics by the means over the samples, and evaluation uses them. Ulyanov,
    Vedaldi and Lempitsky, arXiv 1607.08022.

    Args:
        num_features: the number of channels c.
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones. Default 0.1.
        affine: adds a learned weight and bias. Default False.
        track_running_stats: keeps running statistics for the evaluation; with False every call uses
            those of the sample. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the input does not have 3 or 4 axes, has one value per channel, or with affine
            does not have c channels.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.InstanceNorm2d(3, affine=True)(fw.ones(2, 3, 4, 4)).shape
        (2, 3, 4, 4)
    """

    dimensions = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalization of each channel of each sample: (n, c, d, h, w) or (c, d, h, w).

    The result has the shape of the input: (x - mean) / sqrt(variance + eps) over space. With affine
    it is multiplied by weight, and bias is added; both are (c,). With track_running_stats, training
    updates running statistics by the means over the samples, and evaluation uses them. Ulyanov,
    Vedaldi and Lempitsky, arXiv 1607.08022.

    Args:
        num_features: the number of channels c.
        eps: added to the variance. Default 1e-05.
        momentum: weight of the new statistics in the running ones. Default 0.1.
        affine: adds a learned weight and bias. Default False.
        track_running_stats: keeps running statistics for the evaluation; with False every call uses
            those of the sample. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.
        bias: False leaves out the bias. Default True.

    Raises:
        ShapeError: the input does not have 4 or 5 axes, has one value per channel, or with affine
            does not have c channels.
        DTypeError: the input is not of a real floating point dtype.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.InstanceNorm3d(3)(fw.ones(2, 3, 4, 4, 4)).shape
        (2, 3, 4, 4, 4)
    """

    dimensions = (4, 5)
