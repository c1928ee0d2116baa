"""Measures how well a language model predicts tokens."""

from __future__ import annotations

import fusewire as fw

from .labels import is_counted
from .mean import MeanMetric


class Perplexity(MeanMetric):
    """The exponential of the mean negative log-likelihood of tokens, float64 ().

    Args:
        ignore_index: targets with this value do not count. Default -100, as of `cross_entropy`.

    Example:
        >>> import fusewire as fw
        >>> perplexity = fw.metrics.Perplexity()
        >>> perplexity.update(fw.zeros(1, 3, 8), fw.tensor([[5, 2, -100]]))
        >>> round(float(perplexity.compute()), 4)
        8.0
    """

    def __init__(self, ignore_index: int | None = -100) -> None:
        self.ignore_index = ignore_index
        super().__init__()

    def update(self, logits: fw.Tensor, targets: fw.Tensor) -> None:
        """Adds a batch.

        Args:
            logits: (..., vocabulary), the last axis by token.
            targets: token numbers (...).

        Raises:
            ShapeError: the shapes do not fit.
            IndexingError: a target is no token.
        """
        if logits.shape[:-1] != targets.shape:
            raise fw.ShapeError(f"Perplexity: logits {logits.shape} are not (*targets, vocabulary) "
                                f"with targets {targets.shape}", "tokens are on the last axis")
        self.move(targets.device)
        used = is_counted(targets, self.ignore_index)
        # A negative index would count from the end, so it becomes one that is out of range.
        token = fw.where(targets < 0, logits.shape[-1], targets)
        token = fw.where(used, token, 0).astype(fw.int64).expand_dims(-1)
        wide = logits.astype(fw.float32) if logits.dtype.itemsize < 4 else logits
        by_token = fw.log_softmax(wide.detach(), axis=-1)
        likelihood = by_token.take_along_axis(token, axis=-1).squeeze(-1)
        self.add(-fw.where(used, likelihood, 0.0).astype(fw.float64), used.sum())

    def compute(self) -> fw.Tensor:
        """The perplexity, float64 ()."""
        return super().compute().exp()
