"""Keeps the losses of all steps and the results of all epochs."""

from __future__ import annotations

import html
from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..export.report import charts

_POINTS = 500  # of the line in a notebook
# Grey axes are seen on light and on dark pages.
_STYLE = ("<style>.fw-history svg{max-width:800px} .fw-history polyline{fill:none;stroke:#3b82f6;"
          "stroke-width:2} .fw-history text{font:12px sans-serif;fill:#888} .fw-history path"
          "{stroke:#888;stroke-opacity:0.4;fill:none} .fw-history .end{text-anchor:end} .fw-history"
          " .mid{text-anchor:middle}</style>")
_COLUMNS = ("losses", "rates", "seconds")


def _numbers() -> array[float]:
    return array("d")


@dataclass
class History:
    """The record of a training.

    Attributes:
        losses: the loss of each step.
        rates: the learning rate of the first group of parameters in each step.
        seconds: the duration of each step.
        epochs: a dict for each epoch: "epoch", "steps", "loss" (the mean of its steps), "rate",
            "seconds" (with the data and the validation, since a resume if there was one), and the
            results of the validation, such as "val_loss".

    Example:
        >>> import fusewire as fw
        >>> history = fw.training.History()
        >>> history.add_step(loss=0.5, rate=0.1, seconds=0.01)
        >>> history.losses.tolist()
        [0.5]
    """

    losses: array[float] = field(default_factory=_numbers)
    rates: array[float] = field(default_factory=_numbers)
    seconds: array[float] = field(default_factory=_numbers)
    epochs: list[dict[str, Any]] = field(default_factory=list)

    def add_step(self, loss: float, rate: float, seconds: float) -> None:
        """Adds the figures of one step."""
        self.losses.append(loss)
        self.rates.append(rate)
        self.seconds.append(seconds)

    def add_epoch(self, epoch: int, steps: int, seconds: float, results: dict[str, float]) -> None:
        """Adds an epoch: its number, how many of the latest steps it had, its duration, and the
        results of its validation."""
        last = slice(len(self.losses) - steps, None)
        self.epochs.append({
            "epoch": epoch, "steps": steps,
            "loss": float(np.mean(self.losses[last])) if steps else float("nan"),
            "rate": self.rates[-1] if self.rates else float("nan"),
            "seconds": seconds, **results})

    def state_dict(self) -> dict[str, Any]:
        """The record as arrays and dicts."""
        columns = {name: np.array(getattr(self, name), np.float64) for name in _COLUMNS}
        return {**columns, "epochs": [dict(row) for row in self.epochs]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a result of `state_dict`."""
        for name in _COLUMNS:
            setattr(self, name, array("d", np.asarray(state_dict[name]).tolist()))
        self.epochs = [dict(row) for row in state_dict["epochs"]]

    def _repr_html_(self) -> str:
        """HTML for notebooks: the losses as a chart, and the epochs as a table."""
        return _chart(self.losses) + _epoch_table(self.epochs)


def _chart(losses: array[float]) -> str:
    if not losses:
        return "<p>no steps yet</p>"
    steps, values = charts.thinned(losses, _POINTS)
    line = charts.Series("loss", "fw-loss", values, steps)
    return (f'<div class="fw-history">{_STYLE}'
            f'{charts.log_chart([line], "loss of each training step")}</div>')


def _epoch_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(name, row[name]) if name in row else "" for name in names] for row in rows]
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>"
                   for row in cells)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(name: str, value: Any) -> str:
    return str(value + 1) if name == "epoch" else f"{value:.4g}" if isinstance(value, float) \
        else str(value)
