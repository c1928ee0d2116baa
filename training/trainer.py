"""Trains a model: the loop over epochs and batches, with the parts that belong to it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import fusewire as fw

from .batch import inputs_and_target, moved
from .callback import Callback
from .checkpoints import Checkpoints, latest_checkpoint, write_checkpoint
from .errors import StepError
from .evaluation import Evaluation, Metric
from .history import History
from .interrupts import Interrupts
from .progress import ProgressBar, write_line
from .random_state import random_state, set_random_state
from .training_step import Objective, StepSettings, TrainingStep


class Trainer:
    """Trains a model by the loop that one writes by hand, with checkpoints and exact resume.

    `fit` runs the loop. The same parts serve a loop of your own: `batches` yields batches and does
    everything between two steps, `step` computes one step.

    Args:
        model: a module.
        optimizer: of its parameters.
        loss: a function (prediction, target) -> loss, for batches (input, ..., target).
        objective: a function (model, batch) -> loss instead, for batches of any form.
        metrics: for the validation, by name: functions (prediction, target) -> mean of the batch,
            or objects with `reset`, `update(prediction, target)` and `compute`. Default none.
        scheduler: of `optim.lr_scheduler`. Default None.
        scheduler_every: "epoch" or "step": when the scheduler steps. Default "epoch".
            ReduceLROnPlateau gets the loss of the validation, or else of the epoch.
        accumulate: batches whose gradients are averaged before an update. Default 1. The last
            update of an epoch may have fewer.
        clip_norm, clip_value: limits of the gradient's norm and of its elements. Default None.
        precision: "bfloat16" or "float16" compute under `fw.autocast`; float16 with a GradScaler.
            Default None: the dtypes of the parameters.
        average: decay of a moving average of the weights (EMA), such as 0.999. The validation uses
            the average, `trainer.averaged`. Default None.
        compile: False runs steps op by op. Default True.
        exact: makes the numbers of compiled steps independent of where the training began, so that
            a resume is exact: one program for each shape, and the first step of each epoch needs
            memory for a second copy of weights and optimizer. Default True. False compiles for any
            size, for batches of many lengths; a resumed training then differs in the last bits.
        callbacks: see `Callback`. Default none.
        folder: of checkpoints and logs. Default None: nothing is written, except by callbacks.
        parts: more objects with a `state_dict` that checkpoints keep, by name. Default none.
        allow_nonfinite: False raises a StepError if a loss is inf or nan. Default False.
        quiet: True shows no progress and prints nothing. Default False.

    Raises:
        ArgumentError: an argument is out of its range, or neither loss nor objective is given.

    Example:
        >>> import fusewire as fw
        >>> _ = fw.manual_seed(0)
        >>> x = fw.randn(64, 3)
        >>> data = fw.utils.data.TensorDataset(x, x.sum(axis=1, keepdims=True))
        >>> model = fw.nn.Linear(3, 1)
        >>> optimizer = fw.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = fw.training.Trainer(model, optimizer, fw.nn.functional.mse_loss, quiet=True)
        >>> history = trainer.fit(fw.utils.data.DataLoader(data, 16, shuffle=True), epochs=20)
        >>> len(history.losses), history.epochs[-1]["loss"] < 0.01
        (80, True)
    """

    def __init__(
        self, model: Any, optimizer: Any, loss: Callable[..., Any] | None = None, *,
        objective: Objective | None = None, metrics: Mapping[str, Metric] | None = None,
        scheduler: Any = None, scheduler_every: str = "epoch", accumulate: int = 1,
        clip_norm: float | None = None, clip_value: float | None = None,
        precision: str | None = None, average: float | None = None, compile: bool = True,
        exact: bool = True, callbacks: Sequence[Callback] = (),
        folder: str | os.PathLike[str] | None = None, parts: Mapping[str, Any] | None = None,
        allow_nonfinite: bool = False, quiet: bool = False,
    ) -> None:
        _check(loss, objective, metrics, scheduler_every)
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.scheduler_every, self.allow_nonfinite, self.quiet = \
            scheduler_every, allow_nonfinite, quiet
        self.folder = None if folder is None else os.fspath(folder)
        self.callbacks = _in_order(callbacks, self.folder is not None, quiet)
        self.parts = dict(parts or {})
        settings = StepSettings(accumulate, clip_norm, clip_value, precision, average, compile,
                                exact)
        self._step = TrainingStep(model, optimizer, objective or _objective(loss), settings)
        self._evaluation = Evaluation(self.averaged or model, loss, objective, metrics or {},
                                      self._step.autocast, compile=compile, exact=exact)
        self.history = History()
        self.epoch = 0           # number of the running epoch, from 0
        self.epochs = 0          # the number of epochs to train
        self.batch = 0           # steps in the running epoch so far
        self.loader: Any = None
        self.stop_reason = ""    # why the training ends, if it ends early
        self._loader_state: Any = None  # to continue from
        self._all_read = False   # the loader has given all batches of this epoch
        self._reported = False
        self._began = 0.0        # when the epoch began
        self._interrupts = Interrupts()

    @property
    def steps(self) -> int:
        """The number of steps so far, over all epochs."""
        return len(self.history.losses)

    @property
    def averaged(self) -> Any:
        """The model with averaged weights; None without average=."""
        return None if self._step.averaged is None else self._step.averaged.module

    @property
    def compiled(self) -> Any:
        """The compiled step, with `stats`, `explain()` and `kernels()`; None with compile=False."""
        return self._step.compiled.compiled

    # ---- the loop
    def fit(self, loader: Iterable[Any], epochs: int, validate: Iterable[Any] | None = None,
            resume: bool | str = False) -> History:
        """The history, after training.

        Args:
            loader: an iterable of batches that starts anew for each epoch.
            epochs: how many epochs the whole training has, those before a resume included.
            validate: batches that are evaluated after each epoch. Default None.
            resume: True continues from the latest checkpoint in the folder, if there is one. A
                path continues from that checkpoint. Default False.

        Raises:
            StepError: a step failed, or its loss is inf or nan.
        """
        for batch in self.batches(loader, epochs, validate, resume):
            self.step(batch)
        return self.history

    def batches(self, loader: Iterable[Any], epochs: int, validate: Iterable[Any] | None = None,
                resume: bool | str = False) -> Iterator[Any]:
        """The batches of all epochs; between two of them it does what belongs to a step's end.

        The arguments are those of `fit`. The loop calls `step` once for each batch.

        Example:
            >>> import fusewire as fw
            >>> model = fw.nn.Linear(1, 1)
            >>> trainer = fw.training.Trainer(model, fw.optim.SGD(model.parameters(), lr=0.1),
            ...                               fw.nn.functional.mse_loss, quiet=True)
            >>> for batch in trainer.batches([(fw.ones(4, 1), fw.ones(4, 1))], epochs=3):
            ...     loss = trainer.step(batch)
            >>> trainer.steps
            3
        """
        if resume:
            self.resume(None if resume is True else os.fspath(resume))
        self.loader, self.epochs, self.stop_reason = loader, epochs, ""
        if not self.model.training:
            self.model.train()
        with self._interrupts:
            try:
                self._call("on_start")
                while self.epoch < epochs and not self.stop_reason:
                    yield from self._steps_of_epoch()
                    if not self.stop_reason:
                        self._end_epoch(validate)
            finally:
                self._note_position()
                self._call("on_end")
        if self.stop_reason:
            self._say(f"stopped after {self.steps} steps: {self.stop_reason}")

    def _steps_of_epoch(self) -> Iterator[Any]:
        self._began = time.perf_counter()
        self._step.compiled.expect_changes()  # a callback may have frozen layers, for example
        for batch in self._rest_of_loader():
            yield batch
            self._call("on_step")
            if self._interrupts.requested:
                self._end_by_interrupt(self.state_dict())
            if self.stop_reason:
                return
        if not self.batch:
            raise fw.ArgumentError(
                f"Trainer: epoch {self.epoch} has no batches, or their steps were not made",
                "pass a loader that starts anew in each epoch, not a generator, and call step for "
                "each batch")
        self._all_read = True

    def step(self, batch: Any) -> fw.Tensor:
        """The loss of a batch, a tensor without axes, after the step.

        Raises:
            StepError: the step failed, or its loss is inf or nan.
        """
        started, rate = time.perf_counter(), float(self.optimizer.param_groups[0]["lr"])
        try:
            batch = moved(batch, self._step.device)
            loss = self._step(batch)
            value = float(loss)
        except Exception as error:
            raise self._failed(f"the step failed: {type(error).__name__}: {error}", batch) \
                from error
        if not self.allow_nonfinite and value - value != 0:  # inf or nan
            raise self._failed(f"the loss is {value}", batch)
        self.history.add_step(value, rate, time.perf_counter() - started)
        self.batch += 1
        if not self._step.pending:
            self._step_scheduler("step")
        if not self._reported:
            self._reported = True
            self._say(self.report())
        return loss

    def stop(self, reason: str) -> None:
        """Ends the training after this step, or after this epoch if it is called in `on_epoch`."""
        self.stop_reason = reason

    def validate(self, loader: Iterable[Any]) -> dict[str, float]:
        """The mean loss over the samples of `loader`, and the metrics, by name.

        The model is in eval mode meanwhile. With average= the averaged weights are used.
        """
        return self._evaluation(loader, self._step.device, lambda: False)

    def report(self) -> str:
        """One line that says whether the step is compiled, or why not."""
        return self._step.compiled.report()

    def _failed(self, what: str, batch: Any) -> StepError:
        return StepError(what, epoch=self.epoch, batch=self.batch, content=batch)

    def _call(self, moment: str) -> None:
        for callback in self.callbacks:
            getattr(callback, moment)(self)

    def _say(self, line: str) -> None:
        if not self.quiet:
            write_line(line)

    # ---- the end of an epoch
    def _end_epoch(self, validate: Iterable[Any] | None) -> None:
        results = self._validated(validate)
        if self.stop_reason:
            return
        if self._step.flush():
            self._step_scheduler("step")
        self.history.add_epoch(self.epoch, self.batch, time.perf_counter() - self._began, results)
        self._step_scheduler("epoch")
        self.epoch, self.batch, self._all_read = self.epoch + 1, 0, False
        self._call("on_epoch")
        if self._interrupts.requested:
            self._end_by_interrupt(self.state_dict())

    def _validated(self, validate: Iterable[Any] | None) -> dict[str, float]:
        """The results of the validation; after Ctrl-C it is left out, and a resume begins it."""
        if validate is None:
            return {}
        before = self.state_dict()
        results = self._evaluation(validate, self._step.device,
                                   lambda: self._interrupts.requested)
        if self._interrupts.requested and not results:
            self._end_by_interrupt(before)
        return {f"val_{name}": value for name, value in results.items()}

    def _step_scheduler(self, now: str) -> None:
        if self.scheduler is None or now != self.scheduler_every:
            return
        with warnings.catch_warnings():  # the optimizer may have stepped before a resume only
            warnings.filterwarnings("ignore", r"lr_scheduler.step\(\) is called before")
            if isinstance(self.scheduler, fw.optim.lr_scheduler.ReduceLROnPlateau):
                last = self.history.epochs[-1]
                self.scheduler.step(last.get("val_loss", last["loss"]))
            else:
                self.scheduler.step()

    # ---- the position in the data
    def _rest_of_loader(self) -> Iterator[Any]:
        """The batches of this epoch that are left; all of them but for a resumed epoch."""
        state, self._loader_state = self._loader_state, None
        if state is not None:
            self.loader.load_state_dict(state)
        if self._all_read:
            return iter(())
        known = self.batch if state is None else 0  # a loader without a state starts anew
        return islice(iter(self.loader), known, None)

    def _note_position(self) -> None:
        """Lets the next loop of this trainer continue where this one was left."""
        if (self.batch or self._all_read) and self._loader_state is None:
            self._loader_state = self._state_of_loader()

    def _state_of_loader(self) -> Any:
        return self.loader.state_dict() if hasattr(self.loader, "state_dict") else None

    def _end_by_interrupt(self, state: dict[str, Any]) -> None:
        self.stop("Ctrl-C")
        if self.folder is not None:
            path = write_checkpoint(state, self.folder, self.steps)
            self._say(f"saved {path}; fit(..., resume=True) continues")

    # ---- state
    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on, for `fw.save`.

        It has the model, optimizer, scheduler, scaler, moving average and gradients, the random
        numbers, the position in the data, the history, the callbacks and `parts`.
        """
        return {
            "step": self._step.state_dict(), "random": random_state(),
            "scheduler": None if self.scheduler is None else {
                "class": type(self.scheduler).__name__, "state": self.scheduler.state_dict()},
            "loader": self._state_of_loader(),
            "position": {"epoch": self.epoch, "batch": self.batch, "all_read": self._all_read},
            "history": self.history.state_dict(),
            "callbacks": {name: callback.state_dict()
                          for name, callback in numbered(self.callbacks).items()},
            "parts": {name: part.state_dict() for name, part in self.parts.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a result of `state_dict`; the loader follows when the loop starts.

        Raises:
            StateError: the state is of a trainer with other settings.
        """
        _check_state(state, self)
        self._step.load_state_dict(state["step"])
        set_random_state(state["random"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"]["state"])
        self.epoch, self.batch, self._all_read = (
            state["position"][name] for name in ("epoch", "batch", "all_read"))
        self._loader_state = state["loader"]
        self.history.load_state_dict(state["history"])
        for name, callback in numbered(self.callbacks).items():
            if name in state["callbacks"]:
                callback.load_state_dict(state["callbacks"][name])
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])

    def save(self, path: str | None = None) -> str:
        """The path of a new checkpoint. Default: in the folder, named by the number of steps.

        Raises:
            ArgumentError: there is no path and no folder.
        """
        if path is None:
            return write_checkpoint(self.state_dict(), self._needed_folder(), self.steps)
        fw.save(self.state_dict(), path)
        return path

    def resume(self, path: str | None = None) -> bool:
        """Continues from a checkpoint; False if no path is given and the folder has none."""
        path = path or latest_checkpoint(self._needed_folder())
        if path is None:
            return False
        try:
            self.load_state_dict(fw.load(path))
        except fw.StateError as error:
            raise fw.StateError(f"the checkpoint {path} is of another training: {error.message}",
                                "create the model, the optimizer and the trainer with the settings "
                                "of the saved ones, or begin in another folder") from None
        self._say(f"continues from {path}, after {self.steps} steps")
        return True

    def _needed_folder(self) -> str:
        if self.folder is None:
            raise fw.ArgumentError("Trainer: there is no folder of checkpoints",
                                   "pass folder= to the Trainer, or a path")
        return self.folder


def _objective(loss: Any) -> Objective:
    """The objective of a loss function, for batches (input, ..., target)."""
    def objective(model: Any, batch: Any) -> fw.Tensor:
        inputs, target = inputs_and_target(batch)
        value: fw.Tensor = loss(model(*inputs), target)
        return value

    return objective


def _in_order(callbacks: Iterable[Callback], saves: bool, quiet: bool) -> list[Callback]:
    """The callbacks with the default ones; those that save come last, to save what others noted."""
    all_ = [*callbacks]
    if not quiet:
        all_.append(ProgressBar())
    if saves and not any(isinstance(callback, Checkpoints) for callback in all_):
        all_.append(Checkpoints())
    return sorted(all_, key=lambda callback: isinstance(callback, Checkpoints))


def numbered(callbacks: Iterable[Callback]) -> dict[str, Callback]:
    """The callbacks by the names of their classes; a number follows the name of a second one."""
    named: dict[str, Callback] = {}
    for callback in callbacks:
        name = base = type(callback).__name__
        count = 1
        while name in named:
            count += 1
            name = f"{base} {count}"
        named[name] = callback
    return named


def _check(loss: Any, objective: Any, metrics: Any, scheduler_every: str) -> None:
    if (loss is None) == (objective is None):
        raise fw.ArgumentError(
            "Trainer: neither loss nor objective is given" if loss is None else
            "Trainer: both loss and objective are given", "pass one: loss is a function of "
            "prediction and target, objective a function of model and batch")
    if objective is not None and metrics:
        raise fw.ArgumentError("Trainer: metrics compare predictions with targets, which are known "
                               "with loss= only", "pass loss=, or compute metrics in a callback")
    if scheduler_every not in ("epoch", "step"):
        raise fw.ArgumentError(f"Trainer: scheduler_every is {scheduler_every!r}",
                               "'epoch' or 'step'")


def _check_state(state: Mapping[str, Any], trainer: Trainer) -> None:
    if "position" not in state:
        raise fw.StateError(f"Trainer: this is no state of a trainer: it has the keys "
                            f"{sorted(state)}", "pass a file that Trainer.save wrote")
    if (state["scheduler"] is None) != (trainer.scheduler is None):
        raise fw.StateError("Trainer: scheduler= was given to only one of this training and the "
                            "saved one", "make the trainer with the settings of the saved one")
    saved, now = (state["scheduler"] or {}).get("class"), type(trainer.scheduler).__name__
    if saved is not None and saved != now:
        raise fw.StateError(f"Trainer: the saved training has the scheduler {saved}, this one has "
                            f"{now}", "make the trainer with the settings of the saved one")
    if missing := sorted(set(trainer.parts) - set(state["parts"])):
        raise fw.StateError(f"Trainer: the checkpoint lacks the parts {', '.join(missing)}",
                            "make the trainer with the parts of the saved one")
