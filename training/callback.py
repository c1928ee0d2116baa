"""Defines the base class of callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainer import Trainer


class Callback:
    """Base class of callbacks: a subclass defines the methods that it needs.

    The trainer calls them in the order of its list of callbacks. What a callback remembers belongs
    into `state_dict` and `load_state_dict`, so that a resumed training continues exactly.

    Example:
        >>> import fusewire as fw
        >>> class Printer(fw.training.Callback):
        ...     def on_epoch(self, trainer):
        ...         print(f"{trainer.epoch} epochs, {trainer.steps} steps")
        >>> model = fw.nn.Linear(2, 1)
        >>> trainer = fw.training.Trainer(
        ...     model, fw.optim.SGD(model.parameters()), fw.nn.functional.mse_loss,
        ...     callbacks=[Printer()], compile=False, quiet=True)
        >>> _ = trainer.fit([(fw.ones(4, 2), fw.ones(4, 1))], epochs=2)
        1 epochs, 1 steps
        2 epochs, 2 steps
    """

    def on_start(self, trainer: Trainer) -> None:
        """Called before the first step of a run, also of a resumed one."""

    def on_step(self, trainer: Trainer) -> None:
        """Called after each step; `trainer.history.losses[-1]` is its loss."""

    def on_epoch(self, trainer: Trainer) -> None:
        """Called after each epoch and its validation; `trainer.history.epochs[-1]` has both.

        `trainer.epoch` is the number of finished epochs.
        """

    def on_end(self, trainer: Trainer) -> None:
        """Called after the last step of a run, also if an error ends it."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of this callback."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a result of `state_dict`."""
