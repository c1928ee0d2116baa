"""Data parallel training: each rank has the model and a share of the batch, gradients are averaged.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..eager.autograd.engine import queue_callback
from ..eager.autograd.hooks import RemovableHandle, register_post_accumulate_grad_hook
from ..eager.core.dispatch import apply
from ..eager.core.tape import no_grad
from ..eager.core.tensor import Tensor
from ..eager.errors import StateError
from ..eager.nn.base.module import Module
from ..eager.ops.collectives import collective as ops
from ..eager.ops.create import zeros_like
from ..eager.ops.shape.join import concat
from .engines.engine import ProcessGroup
from .groups import get_group
from .layouts import broadcast_state

BUCKET_MB = 25.0
_REPLICAS: weakref.WeakKeyDictionary[Module, _Replicas] = weakref.WeakKeyDictionary()


class _Replicas:
    """Averages the gradients of one model when a backward has set them."""

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup, bucket_mb: float) -> None:
        self.group = group
        # The backward reaches the last layers first.
        self.buckets = _buckets([p for p in parameters if p.requires_grad][::-1],
                                int(bucket_mb * (1 << 20)))
        self._hook = self._reached  # one object: guards compare hooks by identity
        self._handles: list[RemovableHandle] = []
        self.attach()

    def attach(self) -> None:
        """Averages gradients in each backward from now on."""
        self._handles = [register_post_accumulate_grad_hook(p, self._hook)
                         for bucket in self.buckets for p in bucket]

    def detach(self) -> None:
        """Averages gradients no longer. A trace depends on the hooks, so it sees the change."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def is_attached(self) -> bool:
        """True if backwards average gradients."""
        return bool(self._handles)

    def _reached(self, parameter: Tensor) -> None:
        queue_callback(self.average)

    def average(self) -> None:
        """Replaces the gradients by their means over the ranks, bucket by bucket. A parameter
        without a gradient takes part with zeros, so all ranks issue the same collectives."""
        with no_grad():
            for number, bucket in enumerate(self.buckets):
                flat = [(zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in bucket]
                joint = flat[0] if len(flat) == 1 else concat(flat)
                mean = self._mean(joint, f"gradients of bucket {number}")
                begin = 0
                for p in bucket:
                    p.grad = mean[begin:begin + p.size].reshape(p.shape)
                    begin += p.size

    def _mean(self, joint: Tensor, site: str) -> Tensor:
        params = {"group": self.group.name, "size": self.group.size, "site": site, "reduce": "sum"}
        return apply(ops.all_reduce_op, (joint,), params) / self.group.size


def _buckets(parameters: Sequence[Tensor], limit: int) -> list[list[Tensor]]:
    """Parameters in order, in lists of one dtype with at most `limit` bytes, or one parameter."""
    buckets: list[list[Tensor]] = []
    held, dtype = 0, None
    for p in parameters:
        size = p.size * p.dtype.itemsize
        if not buckets or p.dtype != dtype or held + size > limit:
            buckets.append([])
            held = 0
        buckets[-1].append(p)
        held, dtype = held + size, p.dtype
    return buckets


def replicate(model: Module, group: ProcessGroup | None = None,
              bucket_mb: float = BUCKET_MB) -> Module:
    """`model`, whose gradients are averaged over the ranks of a group at the end of each backward.

    Each rank computes the loss of its share of the batch. If the loss is a mean and the shares are
    of one size, the averages are the gradients of the joint batch. The parameters and buffers of
    all ranks become those of the first rank. A parameter that no rank uses gets zeros.

    Args:
        model: a module, changed in place.
        group: by default all ranks.
        bucket_mb: gradients are joined up to this size in MB for each collective.

    Raises:
        StateError: `replicate` was called for this model before.
    """
    chosen = get_group(group)
    if model in _REPLICAS:
        raise StateError("replicate: this model is replicated already", "call it once")
    broadcast_state([*model.parameters(), *model.buffers()], chosen)
    _REPLICAS[model] = _Replicas(list(model.parameters()), chosen, bucket_mb)
    return model


@contextmanager
def no_sync(model: Any) -> Iterator[None]:
    """A context in which backwards add gradients of this rank alone. The first backward after it
    averages their sums: use it for all but the last part of an accumulated batch."""
    replicas = _REPLICAS.get(model)
    if replicas is None:
        raise StateError("no_sync: this model is not replicated",
                         "call replicate(model) before; sharded models reduce in each backward")
    attached = replicas.is_attached
    replicas.detach()
    try:
        yield
    finally:
        if attached:
            replicas.attach()
