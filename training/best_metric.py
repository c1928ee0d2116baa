"""Remembers the best value of a metric."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from .history import History


class BestMetric:
    """The best value of a result of epochs.

    Args:
        owner: whose errors these are.
        metric: a key of `history.epochs[-1]`, such as "val_loss".
        better: "lower" or "higher".
        least_change: by how much a value must be better than the best one. Default 0.
    """

    def __init__(self, owner: str, metric: str, better: str, least_change: float = 0.0) -> None:
        if better not in ("lower", "higher"):
            raise fw.ArgumentError(f"{owner}: better is {better!r}", "'lower' or 'higher'")
        self.owner, self.metric, self.least_change = owner, metric, least_change
        self._sign = 1 if better == "lower" else -1
        self.value: float | None = None

    def improved(self, history: History) -> bool:
        """True if the latest epoch is the best one so far, which is then remembered."""
        results = history.epochs[-1]
        if self.metric not in results:
            raise fw.ArgumentError(
                f"{self.owner}: an epoch has no result {self.metric!r}; it has "
                f"{', '.join(map(repr, results))}",
                "pass validate= to fit for results that begin with 'val_'")
        value = results[self.metric]
        better = self.value is None or (self.value - value) * self._sign > self.least_change
        if better:
            self.value = value
        return better

    def state_dict(self) -> dict[str, Any]:
        """The best value."""
        return {"best": self.value}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a result of `state_dict`."""
        self.value = state_dict["best"]
