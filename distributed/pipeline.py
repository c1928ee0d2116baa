"""Pipelines: each rank has one stage of a model, and batches pass through them in parts (1F1B)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..eager.autograd.engine import backward
from ..eager.core.tensor import Tensor
from ..eager.errors import ArgumentError, GradientError
from .collectives import receive, send
from .engines.engine import ProcessGroup
from .groups import get_group


class Pipeline:
    """Runs the stage of this rank on the parts of each batch, in the order 1F1B.

    A stage computes forwards until the next stages have work, then a forward and a backward by
    turns, so it holds at most as many parts as there are stages behind it, and itself.
    """

    def __init__(self, stage: Callable[[Tensor], Tensor], loss: Callable[..., Tensor],
                 group: ProcessGroup, microbatches: int) -> None:
        self.stage, self.loss, self.group, self.microbatches = stage, loss, group, microbatches
        self.is_first, self.is_last = group.rank == 0, group.rank == group.size - 1

    def step(self, x: Tensor | None, *targets: Any) -> Tensor | None:
        """The mean of the losses of the parts, on the last rank; None elsewhere. Gradients of the
        stage's parameters are set: those of the mean.

        Args:
            x: the batch, read on the first rank only. Its first axis is cut in equal parts.
            targets: further arguments of the loss, read on the last rank only, cut likewise.
        """
        inputs = self._cut(x) if self.is_first else None
        wanted = [self._cut(t) for t in targets] if self.is_last else []
        held: deque[tuple[Tensor | None, Tensor]] = deque()
        losses: list[Tensor] = []
        ahead = min(self.group.size - 1 - self.group.rank, self.microbatches)
        for number in range(self.microbatches + ahead):
            if number < self.microbatches:
                held.append(self._forward(None if inputs is None else inputs[number],
                                          [w[number] for w in wanted], losses))
            if number >= ahead:
                self._backward(*held.popleft())
        if not self.is_last:
            return None
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        return total

    def _cut(self, x: Any) -> list[Tensor]:
        if x is None or x.shape[0] % self.microbatches:
            raise ArgumentError(f"pipeline: {self.microbatches} microbatches cannot share a batch "
                                f"of shape {None if x is None else tuple(x.shape)}",
                                f"pass a batch whose size {self.microbatches} divides")
        size = x.shape[0] // self.microbatches
        return [x[i * size:(i + 1) * size] for i in range(self.microbatches)]

    def _forward(self, x: Tensor | None, targets: list[Tensor], losses: list[Tensor]
                 ) -> tuple[Tensor | None, Tensor]:
        """The input of the stage that needs a gradient, if any, and its result."""
        received = None
        if x is None:
            received = x = receive(self.group.rank - 1, self.group).requires_grad_()
        out = self.stage(x)
        if self.is_last:
            out = self.loss(out, *targets) / self.microbatches
            losses.append(out.detach())
        else:
            send(out, self.group.rank + 1, self.group)
        return received, out

    def _backward(self, received: Tensor | None, out: Tensor) -> None:
        backward(out, None if self.is_last else receive(self.group.rank + 1, self.group))
        if received is not None:
            if received.grad is None:
                raise GradientError("pipeline: the result of a stage does not depend on its input",
                                    "each stage but the first must use what it receives")
            send(received.grad, self.group.rank - 1, self.group)


def pipeline(stage: Callable[[Tensor], Tensor], loss: Callable[..., Tensor],
             group: ProcessGroup | None = None, microbatches: int = 1) -> Pipeline:
    """A pipeline of which this rank runs `stage`, on what the rank before it sends.

    Args:
        stage: from a tensor of floats to a tensor; a module or a compiled function of this rank.
        loss: loss(result, *targets) is a mean over the batch; called on the last rank.
        group: the ranks in the order of their stages, by default all.
        microbatches: parts of a batch; more of them let the stages wait less.

    Raises:
        ArgumentError: microbatches is below 1.
    """
    if microbatches < 1:
        raise ArgumentError(f"pipeline: microbatches must be at least 1, got {microbatches}",
                            "4 for each stage is a good start")
    return Pipeline(stage, loss, get_group(group), microbatches)
