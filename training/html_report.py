"""Writes a report of a training as one self-contained HTML file."""

from __future__ import annotations

import html
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..export.report import charts
from ..export.report.environment import environment
from ..export.report.page import (
    compiled_program,
    document,
    legend,
    milliseconds,
    section,
    table,
    tiles,
)
from .callback import Callback
from .csv_log import folder_for
from .history import History

if TYPE_CHECKING:
    from .trainer import Trainer

POINTS = 1000  # of a line: more are no longer seen
WINDOW = 21    # points over which the trend of the losses is averaged
FILE = "report.html"


class HTMLReport(Callback):
    """Writes `report.html`: losses, learning rates, results of epochs, and the compiled program.

    The file is written after each epoch and at the end, and needs nothing from outside.

    Args:
        title: of the page. Default "Training".
        folder: of the file. Default None: the folder of the trainer.

    Example:
        >>> import fusewire as fw, os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model = fw.nn.Linear(1, 1)
        >>> trainer = fw.training.Trainer(
        ...     model, fw.optim.SGD(model.parameters()), fw.nn.functional.mse_loss,
        ...     callbacks=[fw.training.HTMLReport("Lines", folder)], compile=False, quiet=True)
        >>> _ = trainer.fit([(fw.ones(2, 1), fw.zeros(2, 1))], epochs=2)
        >>> os.listdir(folder)
        ['report.html']
    """

    def __init__(self, title: str = "Training",
                 folder: str | os.PathLike[str] | None = None) -> None:
        self.title, self.folder = title, folder

    def on_start(self, trainer: Trainer) -> None:
        """Makes the folder."""
        self.folder = folder_for("HTMLReport", self.folder, trainer)
        os.makedirs(self.folder, exist_ok=True)

    def on_epoch(self, trainer: Trainer) -> None:
        """Writes the report so far."""
        self._write(trainer, "")

    def on_end(self, trainer: Trainer) -> None:
        """Writes the report with the kernels of the compiled step."""
        compiled = trainer.compiled
        has_program = compiled is not None and compiled.stats.replays
        self._write(trainer, compiled_program(compiled.kernels(), compiled.explain())
                    if compiled is not None and has_program else "")

    def _write(self, trainer: Trainer, program: str) -> None:
        history = trainer.history
        parts = [_head(self.title, trainer), tiles(_figures(history)), _losses(history),
                 _rates(history), _epochs(history), program, _facts(trainer)]
        path = Path(str(self.folder), FILE)
        path.write_text(document(self.title, filter(None, parts)), encoding="utf-8")


def _head(title: str, trainer: Trainer) -> str:
    count = sum(p.size for p in trainer.model.parameters())
    text = (f"{type(trainer.model).__name__} with {count:,} parameters, trained by "
            f"{type(trainer.optimizer).__name__} for {trainer.steps:,} steps in "
            f"{len(trainer.history.epochs)} epochs. {trainer.report().capitalize()}.")
    return f'<h1>{html.escape(title)}</h1>\n<p class="lead">{html.escape(text)}</p>'


def _figures(history: History) -> list[tuple[str, str, str]]:
    """The tiles: results of the last epoch, and durations."""
    last = history.epochs[-1] if history.epochs else {}
    rows = [(f"{value:.4g}", name.replace("_", " "), "") for name, value in last.items()
            if name == "loss" or name.startswith("val_")]
    if history.seconds:
        rows += [(milliseconds(statistics.median(history.seconds)), "step, median", ""),
                 (f"{sum(history.seconds):.1f}<small> s</small>", "all steps", "")]
    return rows


def _losses(history: History) -> str:
    steps, losses = charts.thinned(history.losses, POINTS)
    lines = [charts.Series("loss", "compiled", losses, steps),
             charts.Series("mean", "trend", charts.smoothed(losses, WINDOW), steps)]
    names = {"compiled": "loss of a step", "trend": f"mean of {WINDOW} points"}
    ends = [(end, row["val_loss"]) for end, row in _ends(history) if "val_loss" in row]
    if ends:
        lines.insert(0, charts.Series("validation", "eager", [v for _, v in ends],
                                      [end for end, _ in ends]))
        names["eager"] = "validation"
    return section("Loss", "Logarithmic scale.",
                   legend(names) + charts.log_chart(lines, "Loss by training step"))


def _rates(history: History) -> str:
    if len(set(history.rates)) < 2:
        return ""
    steps, rates = charts.thinned(history.rates, POINTS)
    chart = charts.log_chart([charts.Series("rate", "trend", rates, steps)], "Rate by step")
    return section("Learning rate", "Logarithmic scale.", chart)


def _ends(history: History) -> list[tuple[int, dict[str, Any]]]:
    """For each epoch its last step and its results."""
    ends, steps = [], 0
    for row in history.epochs:
        steps += row["steps"]
        ends.append((steps, row))
    return ends


def _epochs(history: History) -> str:
    names = list(dict.fromkeys(name for row in history.epochs for name in row))
    if not names:
        return ""
    body = [[_number(row.get(name)) for name in names] for row in history.epochs]
    return section("Epochs", "", table(names, body, numbers=range(len(names))))


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.5g}"


def _facts(trainer: Trainer) -> str:
    rows = [("optimizer", repr(trainer.optimizer)), *environment().items()]
    return section("Environment", "", table(
        (), [[name, html.escape(value)] for name, value in rows], css="facts"))
