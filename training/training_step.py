"""Computes one training step: forward, backward, clipping, the optimizer, the moving average."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fusewire as fw

from .random_state import random_state, set_random_state
from .repeatable import Repeatable

Objective = Callable[[Any, Any], fw.Tensor]  # of a model and a batch: the loss
PRECISIONS = {None: None, "float32": None, "bfloat16": fw.bfloat16, "float16": fw.float16}


@dataclass(frozen=True)
class StepSettings:
    """The settings of a step; `Trainer` explains them."""

    accumulate: int = 1
    clip_norm: float | None = None
    clip_value: float | None = None
    precision: str | None = None
    average: float | None = None
    compile: bool = True
    exact: bool = True

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise fw.ArgumentError(f"Trainer: precision is {self.precision!r}",
                                   f"one of {', '.join(map(repr, PRECISIONS))}")
        if isinstance(self.accumulate, bool) or not isinstance(self.accumulate, int) \
                or self.accumulate < 1:
            raise fw.ArgumentError("Trainer: accumulate is a whole number of batches above 0, got "
                                   f"{self.accumulate!r}")
        for name in ("clip_norm", "clip_value"):
            if (limit := getattr(self, name)) is not None and not limit > 0:
                raise fw.ArgumentError(f"Trainer: {name} is above 0, got {limit!r}")


class TrainingStep:
    """A step of a model and an optimizer; `pending` batches await their update."""

    def __init__(self, model: Any, optimizer: Any, objective: Objective, settings: StepSettings
                 ) -> None:
        self.model, self.optimizer, self.objective = model, optimizer, objective
        self.settings, self.pending = settings, 0
        self.device = next((p.device for p in model.parameters()), "cpu")
        self.scaler = self._scaler()
        self.averaged = None if settings.average is None else averaged(model, settings.average)
        options = {"compile": settings.compile, "exact": settings.exact}
        self.compiled = Repeatable(self._run, self._saved, self._restore, **options)
        self._compiled_flush = Repeatable(self._update, self._saved, self._restore, **options)

    def __call__(self, batch: Any) -> fw.Tensor:
        """The loss of a batch, after the step; every `accumulate`-th step updates the weights."""
        last = self.pending + 1 == self.settings.accumulate
        loss: fw.Tensor = self.compiled(batch, last, self.pending > 0)
        self.pending = 0 if last else self.pending + 1
        if self.pending and not self.settings.compile:
            _order_gradients(self.model.parameters())
        return loss

    def flush(self) -> bool:
        """Updates the weights from pending batches; False if there are none."""
        if not self.pending:
            return False
        self._compiled_flush(fw.tensor(1.0 / self.pending, device=self.device))
        self.pending = 0
        return True

    # ---- the compiled function
    def _run(self, batch: Any, last: bool, has_gradients: bool) -> fw.Tensor:
        with self.autocast():
            loss = self.objective(self.model, batch)
        self.scaler.scale(loss).backward()
        if last:
            self._update(1.0 / self.settings.accumulate)
        return loss.detach()

    def _update(self, share: Any) -> None:
        """Updates the weights from gradients that are summed over 1 / `share` batches."""
        settings, parameters = self.settings, list(self.model.parameters())
        self.scaler.unscale_(self.optimizer)
        if settings.accumulate > 1:
            _scale_gradients(parameters, share)
        if settings.clip_value is not None:
            fw.nn.utils.clip_grad_value_(parameters, settings.clip_value)
        if settings.clip_norm is not None:
            fw.nn.utils.clip_grad_norm_(parameters, settings.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        if self.averaged is not None:
            self.averaged.update_parameters(self.model)

    def autocast(self) -> Any:
        """The context of mixed precision."""
        dtype = PRECISIONS[self.settings.precision]
        return contextlib.nullcontext() if dtype is None else \
            fw.autocast(self.device.partition(":")[0], dtype=dtype)

    def _scaler(self) -> Any:
        needed = self.settings.precision == "float16"
        if needed and self.device != "cpu":
            raise fw.ArgumentError("Trainer: precision='float16' scales gradients, which is for "
                                   f"the CPU, and the model is on {self.device!r}",
                                   "use precision='bfloat16', which needs no scale")
        return fw.amp.GradScaler("cpu", enabled=needed)

    # ---- state
    def state_dict(self) -> dict[str, Any]:
        """The state of everything that a step changes, apart from random numbers."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(), "pending": self.pending,
                "averaged": None if self.averaged is None else self.averaged.state_dict(),
                "gradients": {name: p.grad for name, p in self.model.named_parameters()
                              if p.grad is not None}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a result of `state_dict`.

        Raises:
            StateError: the state has a moving average and this step has none, or the reverse.
        """
        if (self.averaged is None) != (state["averaged"] is None):
            raise fw.StateError("Trainer: average= was given to only one of this training and the "
                                "saved one", "make the trainer with the settings of the saved one")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        if self.averaged is not None:
            self.averaged.load_state_dict(state["averaged"])
        for name, p in self.model.named_parameters():
            gradient = state["gradients"].get(name)
            p.grad = None if gradient is None else fw.asarray(gradient, copy=True, device=p.device)
        self.pending = state["pending"]

    def _saved(self) -> Any:
        return copy.deepcopy(self.state_dict()), random_state()

    def _restore(self, saved: Any) -> None:
        self.load_state_dict(saved[0])
        set_random_state(saved[1])


@fw.no_grad
def _order_gradients(parameters: Any) -> None:
    """Stores gradients row by row, as a checkpoint does. NumPy sums in the order of the memory, so
    that a norm would else have other last bits after a resume."""
    for p in parameters:
        if p.grad is not None:
            p.grad = p.grad.flatten().reshape(p.grad.shape)


@fw.no_grad
def _scale_gradients(parameters: list[Any], share: Any) -> None:
    for p in parameters:
        if p.grad is not None:
            p.grad.copy_(p.grad * share)


def averaged(model: Any, decay: float) -> Any:
    """A copy of `model` whose weights are a moving average: decay * old + (1 - decay) * new."""
    swa = fw.optim.swa_utils
    return swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(decay))
