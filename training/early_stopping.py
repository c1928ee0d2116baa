"""Ends a training that no longer improves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .best_metric import BestMetric
from .callback import Callback

if TYPE_CHECKING:
    from .trainer import Trainer


class EarlyStopping(Callback):
    """Ends the training if a result has not improved for several epochs.

    Args:
        metric: a result of epochs. Default "val_loss".
        patience: how many epochs without improvement end the training. Default 3.
        better: "lower" or "higher" values are better. Default "lower".
        least_change: smaller improvements do not count. Default 0.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Linear(1, 1)
        >>> trainer = fw.training.Trainer(
        ...     model, fw.optim.SGD(model.parameters(), lr=0.0), fw.nn.functional.mse_loss,
        ...     callbacks=[fw.training.EarlyStopping("loss", patience=2)], quiet=True)
        >>> history = trainer.fit([(fw.ones(2, 1), fw.ones(2, 1))], epochs=100)
        >>> len(history.epochs), trainer.stop_reason
        (3, 'loss has not improved for 2 epochs')
    """

    def __init__(self, metric: str = "val_loss", patience: int = 3, *, better: str = "lower",
                 least_change: float = 0.0) -> None:
        self.best = BestMetric("EarlyStopping", metric, better, least_change)
        self.patience, self.waited = patience, 0

    def on_epoch(self, trainer: Trainer) -> None:
        """Counts the epochs without improvement."""
        self.waited = 0 if self.best.improved(trainer.history) else self.waited + 1
        if self.waited >= self.patience:
            trainer.stop(f"{self.best.metric} has not improved for {self.waited} epochs")

    def state_dict(self) -> dict[str, Any]:
        """The best value, and how many epochs have not improved it."""
        return {**self.best.state_dict(), "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a result of `state_dict`."""
        self.best.load_state_dict(state_dict)
        self.waited = state_dict["waited"]
