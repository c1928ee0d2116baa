"""Data parallel training: each rank has the model and a share of the batch, gradients are averaged.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from ..eager import interpreter
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
from ..eager.ordered_calls import next_turn
from .buckets import BUCKET_MB, buckets
from .engines.engine import ProcessGroup
from .groups import get_group, membership
from .layouts import broadcast_state

_REPLICAS: weakref.WeakKeyDictionary[Module, _Replicas] = weakref.WeakKeyDictionary()


class _Progress:
    """What a backward has done so far. It is empty between backwards, so traces ignore it."""

    __slots__ = ("begun", "missing", "stale")
    __captured__ = ()

    def __init__(self) -> None:
        self.missing: list[set[int]] = []  # the ids of the parameters whose gradients are missing
        self.begun: list[Future[Any] | Tensor] = []  # the sums of the first buckets
        self.stale: set[int] = set()  # buckets that got another gradient after they had begun

    def start(self, buckets: Sequence[Sequence[Tensor]]) -> None:
        """Begins a backward; the one before may have ended with an error."""
        self.missing = [{id(p) for p in bucket} for bucket in buckets]
        self.begun, self.stale = [], set()


class _Replicas:
    """Averages the gradients of one model while a backward sets them, bucket by bucket.

    A bucket begins when its last gradient is there and the buckets before it have begun, so all
    ranks begin them in one order. The backward waits for their sums at its end.
    """

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup, bucket_mb: float) -> None:
        # A group of their own: ranks may begin buckets between different other collectives.
        self.group = membership().add(ProcessGroup(f"gradients, {group.name}", group.ranks,
                                                   group.rank))
        # The backward reaches the last layers first.
        self.buckets = buckets([p for p in parameters if p.requires_grad][::-1],
                               int(bucket_mb * (1 << 20)))
        self._number = {id(p): i for i, bucket in enumerate(self.buckets) for p in bucket}
        self._progress = _Progress()
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
        if queue_callback(self.average):
            self._progress.start(self.buckets)
        self._begin_full(parameter)

    def _begin_full(self, parameter: Tensor) -> None:
        """Begins the buckets that have all gradients now that this one is there."""
        progress, number = self._progress, self._number[id(parameter)]
        if number < len(progress.begun):
            progress.stale.add(number)
        progress.missing[number].discard(id(parameter))
        while len(progress.begun) < len(self.buckets) \
                and not progress.missing[len(progress.begun)]:
            progress.begun.append(self._begin(len(progress.begun)))

    def _begin(self, number: int) -> Future[Any] | Tensor:
        """The sum of a bucket, as a Future of an array. In compiled calls it is an op like others:
        traces have it at this place, so that it begins before what the backward does next."""
        joint, params = self._joint(number), self._params(number)
        if interpreter.STATE.active is not None or next_turn() is not None:
            with no_grad():
                return apply(ops.all_reduce_op, (joint,), params)
        begin = ops.all_reduce_op.begin
        assert begin is not None
        return begin(joint._data, **params)  # type: ignore[no-any-return]

    def average(self) -> None:
        """Replaces the gradients by their means over the ranks. A parameter without a gradient
        takes part with zeros, so all ranks issue the same collectives."""
        begun, stale = self._progress.begun, self._progress.stale
        begun += [self._begin(i) for i in range(len(begun), len(self.buckets))]
        sums = [self._begin(i) if i in stale else total for i, total in enumerate(begun)]
        with no_grad():
            for bucket, total in zip(self.buckets, sums):
                _set_gradients(bucket, (total if isinstance(total, Tensor)
                                        else Tensor(total.result())) / self.group.size)
        self._progress.start(())

    def _joint(self, number: int) -> Tensor:
        """The gradients of a bucket in a row."""
        with no_grad():
            flat = [(zeros_like(p) if p.grad is None else p.grad).reshape(-1)
                    for p in self.buckets[number]]
            return flat[0] if len(flat) == 1 else concat(flat)

    def _params(self, number: int) -> dict[str, Any]:
        return {"group": self.group.name, "size": self.group.size, "reduce": "sum", "later": True,
                "site": f"gradients of bucket {number}"}


def _set_gradients(bucket: Sequence[Tensor], mean: Tensor) -> None:
    begin = 0
    for p in bucket:
        p.grad = mean[begin:begin + p.size].reshape(p.shape)
        begin += p.size


def replicate(model: Module, group: ProcessGroup | None = None,
              bucket_mb: float = BUCKET_MB) -> Module:
    """`model`, whose gradients are averaged over the ranks of a group by each backward, while it
    goes on.

    Each rank computes the loss of its share of the batch. If the loss is a mean and the shares are
    of one size, the averages are the gradients of the joint batch. The parameters and buffers of
    all ranks become those of the first rank. A parameter that no rank uses gets zeros.

    Args:
        model: a module, changed in place.
        group: by default all ranks.
        bucket_mb: gradients are joined up to this size in MB for each collective; of less than
            16 times as much, up to a sixteenth of them or 1 MB.

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
