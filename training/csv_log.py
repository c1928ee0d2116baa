"""Writes the history to CSV files."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

import fusewire as fw

from .callback import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

STEPS = ("step", "epoch", "loss", "rate", "seconds")


class CSVLog(Callback):
    """Writes `steps.csv` and `epochs.csv` into a folder.

    A resumed training continues both files: rows that a killed run wrote after the checkpoint are
    replaced. Numbers have all their digits.

    Args:
        folder: of the files. Default None: the folder of the trainer.

    Example:
        >>> import fusewire as fw, pathlib, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model = fw.nn.Linear(1, 1)
        >>> trainer = fw.training.Trainer(
        ...     model, fw.optim.SGD(model.parameters(), lr=0.5), fw.nn.functional.mse_loss,
        ...     callbacks=[fw.training.CSVLog(folder)], compile=False, quiet=True)
        >>> _ = trainer.fit([(fw.ones(2, 1), fw.ones(2, 1))], epochs=1)
        >>> pathlib.Path(folder, "steps.csv").read_text().splitlines()[0]
        'step,epoch,loss,rate,seconds'
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def on_start(self, trainer: Trainer) -> None:
        """Writes the rows of the steps before, and keeps the file open."""
        self.folder = folder_for("CSVLog", self.folder, trainer)
        os.makedirs(self.folder, exist_ok=True)
        history = trainer.history
        columns = zip(_epochs_of_steps(trainer), history.losses, history.rates, history.seconds,
                      strict=True)
        self._file = open(os.path.join(self.folder, "steps.csv"), "w", newline="", encoding="utf-8")
        self._write(STEPS, *((i + 1, *row) for i, row in enumerate(columns)))

    def on_step(self, trainer: Trainer) -> None:
        """Adds a row."""
        h = trainer.history
        self._write((trainer.steps, trainer.epoch, h.losses[-1], h.rates[-1], h.seconds[-1]))

    def on_epoch(self, trainer: Trainer) -> None:
        """Writes the file of epochs anew."""
        rows = trainer.history.epochs
        path = os.path.join(str(self.folder), "epochs.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)

    def on_end(self, trainer: Trainer) -> None:
        """Closes the file of steps."""
        if self._file is not None:
            self._file.close()

    def _write(self, *rows: Iterable[Any]) -> None:
        assert self._file is not None
        csv.writer(self._file).writerows(rows)
        self._file.flush()


def _epochs_of_steps(trainer: Trainer) -> list[int]:
    """For each step so far, the number of its epoch."""
    done = [row["epoch"] for row in trainer.history.epochs for _ in range(row["steps"])]
    return [*done, *([trainer.epoch] * (trainer.steps - len(done)))]


def folder_for(owner: str, folder: Any, trainer: Trainer) -> str:
    """`folder`, or else that of the trainer.

    Raises:
        ArgumentError: there is neither.
    """
    chosen = trainer.folder if folder is None else folder
    if chosen is None:
        raise fw.ArgumentError(f"{owner}: neither it nor the trainer has a folder",
                               f"pass one: {owner}('folder'), or folder= of the Trainer")
    return os.fspath(chosen)
