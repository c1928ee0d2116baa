"""Writes the history for TensorBoard, by the SummaryWriter of tensorboardX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import fusewire as fw

from .callback import Callback
from .csv_log import folder_for

if TYPE_CHECKING:
    from .trainer import Trainer


class TensorBoardLog(Callback):
    """Writes losses, learning rates and the results of epochs as TensorBoard's event files.

    It needs `pip install "fusewire[tensorboard]"`. `tensorboard --logdir FOLDER` shows the files.
    After a resume TensorBoard leaves out what a killed run wrote after the checkpoint.

    Args:
        folder: of the files. Default None: the folder of the trainer.

    Attributes:
        writer: the SummaryWriter, for figures of your own, once the training has started.

    Example:
        >>> import fusewire as fw
        >>> callback = fw.training.TensorBoardLog("runs/first")
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = folder
        self.writer: Any = None

    def on_start(self, trainer: Trainer) -> None:
        """Opens a file of events.

        Raises:
            ArgumentError: tensorboardX is not installed, or there is no folder.
        """
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise fw.ArgumentError("TensorBoardLog: tensorboardX is not installed",
                                   'pip install "fusewire[tensorboard]"') from None
        self.writer = SummaryWriter(folder_for("TensorBoardLog", self.folder, trainer),
                                    purge_step=trainer.steps + 1 if trainer.steps else None)

    def on_step(self, trainer: Trainer) -> None:
        """Adds the loss and the learning rate."""
        history = trainer.history
        self.writer.add_scalar("step/loss", history.losses[-1], trainer.steps)
        self.writer.add_scalar("step/rate", history.rates[-1], trainer.steps)

    def on_epoch(self, trainer: Trainer) -> None:
        """Adds the results of the epoch."""
        for name, value in trainer.history.epochs[-1].items():
            if name not in ("epoch", "steps"):
                self.writer.add_scalar(f"epoch/{name}", value, trainer.steps)

    def on_end(self, trainer: Trainer) -> None:
        """Closes the file."""
        if self.writer is not None:
            self.writer.close()
