"""Computes the loss and the metrics of a model on a data set."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import fusewire as fw

from .batch import inputs_and_target, moved, size_of
from .repeatable import Repeatable

Metric = Any  # a function (prediction, target) -> mean, or an object with update and compute


class Evaluation:
    """Evaluates a model by a loss and metrics."""

    def __init__(self, model: Any, loss: Callable[..., Any] | None, objective: Any,
                 metrics: Mapping[str, Metric], autocast: Callable[[], Any], *, compile: bool,
                 exact: bool) -> None:
        self.model, self.loss, self.objective = model, loss, objective
        self.metrics, self.autocast = metrics, autocast
        self._run = Repeatable(self._outputs, lambda: copy.deepcopy(model.state_dict()),
                               model.load_state_dict, compile=compile, exact=exact)

    def __call__(self, loader: Iterable[Any], device: str, stopped: Callable[[], bool]
                 ) -> dict[str, float]:
        """The mean loss over all samples, and each metric; empty if `stopped` became true."""
        self._run.expect_changes()
        means = _Means()
        objects = {name: m for name, m in self.metrics.items() if hasattr(m, "update")}
        for metric in objects.values():
            metric.reset()
        with evaluating(self.model), fw.no_grad():
            for batch in loader:
                if stopped():
                    return {}
                self._add(moved(batch, device), means, objects)
        means.totals.update({name: float(m.compute()) for name, m in objects.items()})
        return means.results(objects)

    def _add(self, batch: Any, means: _Means, objects: Mapping[str, Metric]) -> None:
        loss, prediction = self._run(batch)
        means.add("loss", loss, size_of(batch))
        if not self.metrics:
            return
        target = inputs_and_target(batch)[1]
        for name, metric in self.metrics.items():
            if name in objects:
                metric.update(prediction, target)
            else:
                means.add(name, metric(prediction, target), size_of(batch))

    def _outputs(self, batch: Any) -> tuple[Any, Any]:
        """The loss and the prediction; the latter is None with an objective of the user."""
        with self.autocast():
            if self.loss is None:
                return self.objective(self.model, batch), None
            inputs, target = inputs_and_target(batch)
            prediction = self.model(*inputs)
            return self.loss(prediction, target), prediction


class _Means:
    """Means over samples."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def add(self, name: str, mean: Any, count: int) -> None:
        """Adds the mean over `count` samples."""
        self.totals[name] = self.totals.get(name, 0.0) + float(mean) * count
        self.counts[name] = self.counts.get(name, 0) + count

    def results(self, whole: Iterable[str]) -> dict[str, float]:
        """The means by name; those of `whole` are no sums."""
        return {name: total if name in whole else total / self.counts[name]
                for name, total in self.totals.items()}


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """A context in which the model is in eval mode; each module gets its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
