"""Layers and samplers that treat the batches of all ranks as one."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from ..eager.core.tensor import Tensor
from ..eager.nn import functional as F
from ..eager.nn.base.module import Module
from ..eager.nn.layers.batchnorm import SyncBatchNorm
from ..eager.nn.layers.dropout import Dropout
from ..eager.ops.create import ones
from ..eager.utils.data.distributed import DistributedSampler as Sampler
from .engines.engine import ProcessGroup
from .groups import get_group


class JointDropout(Dropout):
    """A Dropout whose mask is this rank's part of the mask of the joint batch.

    All ranks must have the same seed, as after fw.manual_seed, and batches of equal size.
    """

    def __init__(self, p: float, group: ProcessGroup) -> None:
        super().__init__(p)
        self.group = group

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        rows, rank = input.shape[0], self.group.rank
        joint = ones((rows * self.group.size, *input.shape[1:]), dtype=input.dtype)
        return input * F.dropout(joint, self.p)[rank * rows:(rank + 1) * rows]


def join_batches(model: Module, group: ProcessGroup | None = None) -> Module:
    """`model` with layers that compute as one process computes with the joint batch: statistics of
    batch normalizations over all ranks, and masks of Dropout layers that differ between ranks.

    Call it before `replicate` or `fully_shard`. Dropout by other layers than Dropout, such as
    inside of attention, is not changed: give the ranks different seeds for it.

    Args:
        model: a module, changed in place, or replaced if it is a batch normalization itself.
        group: the ranks that share the batch, by default all.
    """
    chosen = get_group(group)
    converted = SyncBatchNorm.convert_sync_batchnorm(model, chosen)
    for _, module in list(converted.named_modules()):
        for name, child in list(module.named_children()):
            if type(child) is Dropout:
                joint = JointDropout(child.p, chosen)
                joint.training = child.training
                setattr(module, name, joint)
    return converted


def sampler(dataset: Sized, group: ProcessGroup | None = None, **settings: Any) -> Sampler:
    """The DistributedSampler of this rank's share of a data set; call its `set_epoch` before each
    pass.

    Args:
        dataset: an object with a length.
        group: the ranks that share it, by default all.
        settings: shuffle, seed and drop_last of fw.utils.data.DistributedSampler.
    """
    chosen = get_group(group)
    return Sampler(dataset, chosen.size, chosen.rank, **settings)
