"""Averages the parameters of a model over its training.

Sources: Izmailov et al., arXiv 1803.05407, for equal weights; Polyak and Juditsky 1992, for moving
averages.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..arguments import check_choice, check_fraction, names_itself
from ..arrays.dtypes import int64, is_float
from ..core.tape import no_grad
from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..nn.base.module import Module
from ..nn.layers.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from ..ops.create import zeros
from ..ops.elementwise.pointwise import cast, equal, where
from ..tensor_methods.methods import update
from ..uninterrupted import Uninterrupted
from .base.optimizer import Optimizer
from .lr_scheduler.base import LRScheduler, one_each

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """A function (average, current, count) -> decay * average + (1 - decay) * current.

    Args:
        decay: share of the old average, in [0, 1]. Default 0.999.

    Raises:
        ArgumentError: decay is outside of [0, 1].

    Example:
        >>> import fusewire as fw
        >>> average = fw.optim.swa_utils.get_ema_avg_fn(0.75)
        >>> average(fw.tensor(1.0), fw.tensor(5.0), 1).item()
        2.0
    """
    check_fraction("get_ema_avg_fn", "decay", decay)

    @no_grad
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return ema_param * decay + current_param * (1 - decay)

    return ema_update


def get_swa_avg_fn() -> Average:
    """A function (average, current, count) -> the mean of `count` old values and the current one.

    Example:
        >>> import fusewire as fw
        >>> average = fw.optim.swa_utils.get_swa_avg_fn()
        >>> average(fw.tensor(1.0), fw.tensor(4.0), 2).item()
        2.0
    """

    @no_grad
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        count = num_averaged + 1
        if isinstance(count, Tensor) and is_float(averaged_param.dtype):
            count = cast(count, averaged_param.dtype)
        return averaged_param + (current_param - averaged_param) / count

    return swa_update


@names_itself
def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` for lists of tensors; changes the averages in place."""
    return _multi(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """`get_swa_avg_fn` for lists of tensors; changes the averages in place."""
    return _multi(get_swa_avg_fn())


def _multi(average: Average) -> Averages:
    @no_grad
    def update_all(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any
                   ) -> None:
        for mean, value in zip(averaged, current, strict=True):
            update(mean, average(mean, value, num_averaged))

    return update_all


class AveragedModel(Module):
    """A copy of a model whose parameters average those that `update_parameters` saw.

    The first update copies the parameters. Calling the copy runs `module`, the averaged model.

    Args:
        model: the module to copy.
        device: moves the copy there. Default None: no move.
        avg_fn: (average, current, count) -> next average. Default None: equal weights.
        multi_avg_fn: changes a list of averages in place; excludes `avg_fn`. Default None.
        use_buffers: averages buffers as well. Default False: takes those of the model.

    Raises:
        ArgumentError: both avg_fn and multi_avg_fn.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Linear(1, 1, bias=False)
        >>> ema = fw.optim.swa_utils.AveragedModel(
        ...     model, multi_avg_fn=fw.optim.swa_utils.get_ema_multi_avg_fn(0.75))
        >>> for value in (1.0, 5.0):
        ...     _ = fw.nn.init.constant_(model.weight, value)
        ...     ema.update_parameters(model)
        >>> ema.module.weight.item()
        2.0
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None, use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("AveragedModel: both avg_fn and multi_avg_fn are given",
                                "pass one of them")
        self.module = copy.deepcopy(model).to(device=device)
        self.register_buffer("n_averaged", zeros((), dtype=int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad
    def update_parameters(self, model: Module) -> None:
        """Includes the present parameters of `model` in the average."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        before, count = [Tensor(p._data) for p in mine], self.n_averaged
        now = [Tensor(p._data) for p in theirs]
        average = self.multi_avg_fn or _multi(self.avg_fn or get_swa_avg_fn())
        average(before, now, count)
        with Uninterrupted():
            for p, mean, value in zip(mine, before, now, strict=True):
                # `where`, not `if`: a compiled step must not ask Python for the count.
                update(p, where(equal(count, 0), value, mean))
            if not self.use_buffers:
                for b, value in zip(self.module.buffers(), model.buffers(), strict=True):
                    update(b, value.detach())
            update(count, count + 1)

    def _averaged(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return list(itertools.chain(model.parameters(), buffers))


@no_grad
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Sets the running statistics of batch norms to those of all batches of `loader`.

    It runs the model in training mode, and restores its mode and momenta afterwards.

    Args:
        loader: batches; of a list or tuple the first element is the input.
        model: a module; without batch norms nothing happens.
        device: accepted for PyTorch's signature, without effect.

    Example:
        >>> import fusewire as fw
        >>> norm = fw.nn.BatchNorm1d(1)
        >>> fw.optim.swa_utils.update_bn([fw.tensor([[1.0], [3.0]])], norm)
        >>> norm.running_mean.tolist()
        [2.0]
    """
    kinds = (BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm)
    norms = {m: m.momentum for m in model.modules() if isinstance(m, kinds)}
    if not norms:
        return
    training = model.training
    model.train()
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for norm, momentum in norms.items():
            norm.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """Moves the learning rate to `swa_lr` in `anneal_epochs` epochs, then keeps it.

    Args:
        optimizer: its groups get the rates.
        swa_lr: final rate, a number or one for each group.
        anneal_epochs: length of the transition in epochs, an int of at least 0. Default 10.
        anneal_strategy: "cos" follows half a cosine, "linear" a line. Default "cos".
        last_epoch: see `LRScheduler`. Default -1.

    Raises:
        ArgumentError: an unknown strategy, a negative anneal_epochs, or swa_lr of another length.

    Example:
        >>> import fusewire as fw
        >>> optimizer = fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.5)
        >>> scheduler = fw.optim.swa_utils.SWALR(
        ...     optimizer, swa_lr=0.25, anneal_epochs=2, anneal_strategy="linear")
        >>> for _ in range(2): optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        for group, rate in zip(optimizer.param_groups,
                               one_each(self, "swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = check_choice(
            "SWALR", "anneal_strategy", anneal_strategy, tuple(_ANNEAL))
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(f"SWALR: anneal_epochs must be an int of at least 0, got "
                                f"{anneal_epochs!r}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates, step = self._rates(), self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        return [group["swa_lr"] * now + _begun(lr, group["swa_lr"], before) * (1 - now)
                for group, lr in zip(self.optimizer.param_groups, rates, strict=True)]

    def _share(self, step: int) -> float:
        anneal = _ANNEAL[self._anneal_strategy]
        return anneal(max(0, min(1, step / max(1, self.anneal_epochs))))


_ANNEAL: dict[str, Callable[[float], float]] = {
    "cos": lambda t: (1 - math.cos(math.pi * t)) / 2, "linear": lambda t: t}


def _begun(rate: float, target: float, share: float) -> float:
    """The rate at the start, if moving a `share` of the distance to `target` led to `rate`."""
    return target if share == 1 else (rate - share * target) / (1 - share)
