"""Defines the error of a failing step, which names the batch."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from .batch import described


class StepError(fw.FusewireError, RuntimeError):
    """Raised for a step that failed. Its message has the epoch, the batch and the shapes.

    The original error is its `__cause__`. Epochs and batches count from 0.

    Args:
        message: what happened.
        epoch: number of the epoch.
        batch: number of the batch in the epoch.
        content: the batch itself.

    Example:
        >>> import fusewire as fw
        >>> print(fw.training.StepError("loss is nan", epoch=1, batch=7, content=fw.ones(2, 3)))
        loss is nan
          epoch: 1
          batch: 7, with batch float32 (2, 3)
    """

    def __init__(self, message: str, *, epoch: int, batch: int, content: Any) -> None:
        super().__init__(message)
        self.epoch, self.batch, self.shapes = epoch, batch, described(content)

    def __str__(self) -> str:
        return f"{self.message}\n  epoch: {self.epoch}\n  batch: {self.batch}, with {self.shapes}"
