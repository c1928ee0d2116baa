"""Measures the errors of numbers."""

from __future__ import annotations

import fusewire as fw

from .averages import ratio
from .labels import check_choice, check_same_shape
from .mean import MeanMetric
from .metric import Metric, counts


class _MeanError(MeanMetric):
    """The mean over all elements of a function of the errors."""

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch of predictions and targets of equal shapes.

        Raises:
            ShapeError: the shapes differ.
        """
        check_same_shape(type(self).__name__, predictions, targets)
        self.move(targets.device)
        error = predictions.detach().astype(fw.float64) - targets.detach().astype(fw.float64)
        self.add(self._of(error), targets.size)

    def _of(self, error: fw.Tensor) -> fw.Tensor:
        raise NotImplementedError


class MeanSquaredError(_MeanError):
    """The mean of the squared errors of all elements, float64 ().

    Example:
        >>> import fusewire as fw
        >>> error = fw.metrics.MeanSquaredError()
        >>> error.update(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 4.0]))
        >>> error.compute()
        tensor(2., dtype=float64)
    """

    def _of(self, error: fw.Tensor) -> fw.Tensor:
        return error * error


class MeanAbsoluteError(_MeanError):
    """The mean of the absolute errors of all elements, float64 ().

    Example:
        >>> import fusewire as fw
        >>> error = fw.metrics.MeanAbsoluteError()
        >>> error.update(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 4.0]))
        >>> error.compute()
        tensor(1., dtype=float64)
    """

    def _of(self, error: fw.Tensor) -> fw.Tensor:
        return error.abs()


class R2(Metric):
    """The share of the variance of the targets that predictions explain, float64.

    Constant targets give 1 if all predictions are right, and 0 otherwise. Means and sums of squares
    of batches are joined by the formula of Chan et al. (1979), since a sum of squares would lose
    the digits of a variance that is small beside the mean.

    Args:
        outputs: number of columns of targets (n, outputs); 1 also takes (n,). Default 1.
        average: "uniform" is the mean over outputs, "variance" the mean by their variances, None
            gives all values. Default "uniform".

    Example:
        >>> import fusewire as fw
        >>> r2 = fw.metrics.R2()
        >>> r2.update(fw.tensor([1.0, 2.0, 4.0]), fw.tensor([1.0, 2.0, 3.0]))
        >>> r2.compute()
        tensor(0.5, dtype=float64)
    """

    count: fw.Tensor
    mean: fw.Tensor
    squares: fw.Tensor
    residual: fw.Tensor

    def __init__(self, outputs: int = 1, average: str | None = "uniform") -> None:
        check_choice("R2", "average", average, ("uniform", "variance", None))
        self.outputs, self.average = outputs, average
        zeros = fw.zeros(outputs, dtype=fw.float64)
        super().__init__(count=counts(), mean=zeros, squares=zeros, residual=zeros)

    def update(self, predictions: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch of predictions and targets, (n, outputs) or (n,).

        Raises:
            ShapeError: the shapes differ, or have another number of outputs.
        """
        check_same_shape("R2", predictions, targets)
        if targets.shape[1:] != (self.outputs,) and (targets.ndim, self.outputs) != (1, 1):
            raise fw.ShapeError(f"R2: targets {targets.shape} are not (n, {self.outputs})",
                                f"outputs={self.outputs} is the number of columns")
        if not len(targets):
            return
        self.move(targets.device)
        targets = targets.detach().astype(fw.float64).reshape(-1, self.outputs)
        found = predictions.detach().astype(fw.float64).reshape(-1, self.outputs)
        error = found - targets
        shifted = targets - targets[0]  # exact zeros for constant targets
        mean = shifted.mean(axis=0)
        self._add(fw.tensor(len(targets), device=targets.device), targets[0] + mean,
                  ((shifted - mean) ** 2).sum(axis=0), (error * error).sum(axis=0))

    def merge(self, *others: Metric) -> None:
        """Adds the batches of other metrics, for example of other processes.

        Raises:
            ArgumentError: another class, or other settings.
        """
        for other in others:
            self._check_mergeable(other)
            self._add(*[getattr(other, name).to(self.mean.device) for name in self._initial])

    def compute(self) -> fw.Tensor:
        """The average (), or the value of each output (outputs,); nan for less than 2 samples."""
        self.needed(self.count)
        exact = fw.where(self.residual == 0, 1.0, 0.0)
        values = 1 - self.residual / fw.where(self.squares == 0, 1.0, self.squares)
        values = fw.where(self.squares == 0, exact, values)
        values = fw.where(self.count < 2, fw.nan, values)
        if self.average is None:
            return values
        if self.average == "uniform" or not bool((self.squares > 0).any()):
            return values.mean()
        return (values * self.squares).sum() / self.squares.sum()

    def _add(self, count: fw.Tensor, mean: fw.Tensor, squares: fw.Tensor, residual: fw.Tensor
             ) -> None:
        total = self.count + count
        share = ratio(count, total, 0.0)
        gap = mean - self.mean
        self.squares = self.squares + squares + gap * gap * (self.count * share)
        self.mean = fw.where(self.count == 0, mean, self.mean + gap * share)
        self.residual = self.residual + residual
        self.count = total
