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

    After each epoch it prints a line with its results, also where there is no terminal. In a
    notebook it shows the losses as a chart and the epochs as a table instead, and updates them.

    Example:
        >>> import fusewire as fw
        >>> trainer_callback = fw.training.ProgressBar()
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._shown: Any = None  # the output of the notebook's cell

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
        if (display := notebook_display()) is not None:
            self._show(trainer, display)
            return
        row = trainer.history.epochs[-1]
        results = ", ".join(f"{name} {value:.4g}" for name, value in row.items()
                            if name == "loss" or name.startswith("val_"))
        write_line(f"epoch {row['epoch'] + 1}/{trainer.epochs}: {results}, "
                   f"{row['seconds']:.1f} s for {row['steps']} steps")

    def on_end(self, trainer: Trainer) -> None:
        """Removes the bar."""
        self._close()
        self._shown = None  # another training has an output of its own

    def _show(self, trainer: Trainer, display: Any) -> None:
        """Shows the history in the notebook, in the place of the earlier one."""
        if self._shown is None:
            self._shown = display(trainer.history, display_id=True)
        else:
            self._shown.update(trainer.history)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def notebook_display() -> Any:
    """IPython's `display` if this process runs the cells of a notebook, else None."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    if shell is None or running is None or not hasattr(running, "kernel"):
        return None
    return shell.display.display


def write_line(line: str) -> None:
    """Prints a line above the bars that are shown."""
    tqdm.write(line, file=sys.stdout)
