"""Writes checkpoints while training, and removes old ones."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

import fusewire as fw

from .best_metric import BestMetric
from .callback import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

BEST = "best.safetensors"
_NAME = re.compile(r"step-(\d+)\.safetensors")


def write_checkpoint(state: dict[str, Any], folder: str, steps: int) -> str:
    """The path of a new checkpoint of `state`. A path has the whole file or none at any moment."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"step-{steps:09d}.safetensors")
    fw.save(state, path)
    return path


def checkpoints_in(folder: str | os.PathLike[str]) -> list[str]:
    """The paths of the checkpoints in a folder, the oldest first; not the best one's copy."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = sorted((int(match[1]), name) for name in names if (match := _NAME.fullmatch(name)))
    return [os.path.join(folder, name) for _, name in found]


def latest_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """The path of the checkpoint with the most steps in a folder; None if there is none."""
    found = checkpoints_in(folder)
    return found[-1] if found else None


class Checkpoints(Callback):
    """Saves a checkpoint every so often, and keeps the newest ones and the best one.

    A trainer with a folder has this callback with its defaults. It runs after all other callbacks,
    so that a checkpoint has their notes. Files are replaced atomically: a process that is
    killed while it writes leaves the older checkpoints as they are.

    Args:
        every_epochs: saves after every so many epochs. Default 1; 0 for never.
        every_steps: saves after every so many steps. Default 0: never.
        keep: how many of the newest checkpoints to keep. Default 3; 0 for all.
        best: a result of epochs, such as "val_loss", by which `best.safetensors` is kept. Default
            None: no such file.
        better: "lower" or "higher" values of `best` are better. Default "lower".

    Example:
        >>> import fusewire as fw, os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model = fw.nn.Linear(1, 1)
        >>> trainer = fw.training.Trainer(
        ...     model, fw.optim.SGD(model.parameters()), fw.nn.functional.mse_loss, folder=folder,
        ...     callbacks=[fw.training.Checkpoints(keep=2, best="loss")], compile=False, quiet=True)
        >>> _ = trainer.fit([(fw.ones(2, 1), fw.ones(2, 1))], epochs=4)
        >>> sorted(os.listdir(folder))
        ['best.safetensors', 'step-000000003.safetensors', 'step-000000004.safetensors']
    """

    def __init__(self, *, every_epochs: int = 1, every_steps: int = 0, keep: int = 3,
                 best: str | None = None, better: str = "lower") -> None:
        self.every_epochs, self.every_steps, self.keep = every_epochs, every_steps, keep
        self.best = None if best is None else BestMetric("Checkpoints", best, better)

    def on_start(self, trainer: Trainer) -> None:
        """Raises an ArgumentError if the trainer has no folder."""
        if trainer.folder is None:
            raise fw.ArgumentError("Checkpoints: the trainer has no folder",
                                   "pass folder= to the Trainer")

    def on_step(self, trainer: Trainer) -> None:
        """Saves if it is time."""
        if self.every_steps and trainer.steps % self.every_steps == 0:
            self._save(trainer)

    def on_epoch(self, trainer: Trainer) -> None:
        """Saves if it is time, or if the epoch was the best one."""
        is_best = self.best is not None and self.best.improved(trainer.history)
        if is_best and trainer.folder is not None:
            os.makedirs(trainer.folder, exist_ok=True)
            trainer.save(os.path.join(trainer.folder, BEST))
        if self.every_epochs and trainer.epoch % self.every_epochs == 0:
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        trainer.save()
        if self.keep and trainer.folder is not None:
            for path in checkpoints_in(trainer.folder)[: -self.keep]:
                with contextlib.suppress(FileNotFoundError):  # removed by somebody else
                    os.remove(path)

    def state_dict(self) -> dict[str, Any]:
        """The best value so far."""
        return {} if self.best is None else self.best.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a result of `state_dict`."""
        if self.best is not None and state_dict:
            self.best.load_state_dict(state_dict)
