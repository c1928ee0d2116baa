"""Shows a progress bar with the rate, the remaining time and the loss."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from .callback import Callback

if TYPE_CHECKING:
    from .trainer import Trainer


class ProgressBar(Callback):
    """A bar for each epoch on a terminal, and nothing elsewhere; a trainer has it by default.

    After each epoch it prints a line with its results, also where there is no terminal.

    Example:
        >>> import fusewire as fw
        >>> trainer_callback = fw.training.ProgressBar()
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def on_step(self, trainer: Trainer) -> None:
        """Moves the bar on."""
        if self._bar is None:
            total = len(trainer.loader) if hasattr(trainer.loader, "__len__") else None
            self._bar = tqdm(desc=f"epoch {trainer.epoch + 1}/{trainer.epochs}", total=total,
                             initial=trainer.batch - 1, unit="step", leave=False,
                             disable=None)  # None: off where the output is no terminal
        self._bar.set_postfix_str(f"loss {trainer.history.losses[-1]:.4g}", refresh=False)
        self._bar.update()

    def on_epoch(self, trainer: Trainer) -> None:
        """Prints the results of the epoch."""
        self._close()
        row = trainer.history.epochs[-1]
        results = ", ".join(f"{name} {value:.4g}" for name, value in row.items()
                            if name == "loss" or name.startswith("val_"))
        write_line(f"epoch {row['epoch'] + 1}/{trainer.epochs}: {results}, "
                   f"{row['seconds']:.1f} s for {row['steps']} steps")

    def on_end(self, trainer: Trainer) -> None:
        """Removes the bar."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def write_line(line: str) -> None:
    """Prints a line above the bars that are shown."""
    tqdm.write(line, file=sys.stdout)
