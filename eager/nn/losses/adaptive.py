"""The adaptive softmax: cheap log probabilities of many classes, few of which are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...arguments import check_number, check_whole
from ...arrays.shapes import listed
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ...ops.elementwise.clip import clip
from ...ops.elementwise.pointwise import greater_equal, where
from ...ops.indexing.search import argmax
from ...ops.layers.entropy import at_labels
from ...ops.range_checks import check_index
from ...ops.reduction.reduce import mean
from ...ops.shape.join import concat
from ...ops.shape.view import expand_dims, reshape
from .. import functional as F
from ..base.container import ModuleList, Sequential
from ..base.module import Module
from ..layers.linear import Linear

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _Scored(NamedTuple):
    output: Tensor  # the log probability of each target
    loss: Tensor  # the mean of -output


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of targets among n_classes, and their mean loss: (n, in_features), (n,).

    The result is a named tuple: output (n,) and loss (). Classes are numbered by falling frequency.
    The head scores classes below cutoffs[0] directly, and each further cluster by one score and a
    projection of its own. input and target may both lack n. log_prob(input) and predict(input) give
    all log probabilities, (n, n_classes), and the best class, (n,). Grave et al., "Efficient
    softmax approximation for GPUs" (2017).

    Args:
        in_features: size of the last axis of the input.
        n_classes: the number of classes.
        cutoffs: increasing integers from 1 to n_classes - 1, the first class of each cluster.
        div_value: each cluster has a projection div_value times narrower than the one before.
            Default 4.0.
        head_bias: adds a learned bias to the scores of the head. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: cutoffs are empty, do not increase, or are out of range.
        ShapeError: the target does not fit the input.
        IndexingError: a target is not a class.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.AdaptiveLogSoftmaxWithLoss(8, n_classes=20, cutoffs=[4, 10])
        >>> result = loss(fw.ones(3, 8), fw.tensor([0, 5, 19]))
        >>> result.output.shape, result.loss.shape, loss.log_prob(fw.ones(3, 8)).shape
        ((3,), (), (3, 20))
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*_checked(cutoffs, n_classes), n_classes]
        if not check_number("AdaptiveLogSoftmaxWithLoss", "div_value", div_value) > 0:
            raise ArgumentError("AdaptiveLogSoftmaxWithLoss: div_value must be above 0, got "
                                f"{div_value}", "it divides the widths of the projections")
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(self._clusters()):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(Linear(in_features, width, bias=False, **options),
                                        Linear(width, high - low, bias=False, **options)))

    def reset_parameters(self) -> None:
        """Draws all weights again, as Linear does."""
        for module in (self.head, *(layer for pair in self.tail for layer in pair)):
            module.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _Scored:
        if target_.ndim > 1 or input_.ndim != target_.ndim + 1 \
                or input_.shape[:-1] != target_.shape:
            raise ShapeError(f"AdaptiveLogSoftmaxWithLoss: input {input_.shape} = (n, in_features) "
                             f"needs a target of shape {input_.shape[:-1]}, got {target_.shape}",
                             "input and target may both lack the axis n; they have no other axes")
        rows, target = reshape(input_, (-1, input_.shape[-1])), reshape(target_, (-1,))
        target = check_index(target, self.n_classes, "AdaptiveLogSoftmaxWithLoss: target")
        head = F.log_softmax(self.head(rows), 1)
        output = at_labels(head, clip(target, 0, self.shortlist_size - 1), "target")
        for i, (low, high) in enumerate(self._clusters()):
            inner = at_labels(F.log_softmax(self.tail[i](rows), 1),
                              clip(target - low, 0, high - low - 1), "target")
            output = where(target >= low, inner + head[:, self.shortlist_size + i], output)
        return _Scored(reshape(output, target_.shape), mean(-output))

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes: (n, in_features) to (n, n_classes)."""
        return self._all(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The class with the largest probability of each row: (n,)."""
        scores = self.head(input)
        first = argmax(scores, 1)
        rare = greater_equal(first, self.shortlist_size)  # a cluster's score is not its classes'
        return where(rare, argmax(self._all(input, scores), 1), first)

    def _all(self, input: Tensor, scores: Tensor) -> Tensor:
        head = F.log_softmax(scores, 1)
        parts = [head[:, :self.shortlist_size]]
        for i, layers in enumerate(self.tail):
            cluster_log_prob = expand_dims(head[:, self.shortlist_size + i], 1)
            parts.append(F.log_softmax(layers(input), 1) + cluster_log_prob)
        return concat(parts, 1)

    def _clusters(self) -> list[tuple[int, int]]:
        """(first class, last class + 1) of each cluster."""
        return list(zip(self.cutoffs, self.cutoffs[1:]))


def _checked(cutoffs: Sequence[int], n_classes: int) -> list[int]:
    classes = [check_whole("AdaptiveLogSoftmaxWithLoss", "cutoffs", c)
               for c in listed("AdaptiveLogSoftmaxWithLoss", cutoffs)]
    if not classes or classes != sorted(set(classes)) or \
            classes[0] <= 0 or classes[-1] >= n_classes:
        raise ArgumentError(
            f"AdaptiveLogSoftmaxWithLoss: cutoffs {cutoffs!r} must be whole numbers from 1 to "
            f"n_classes - 1 = {n_classes - 1}, each larger than the one before",
            "the first cutoff is the number of frequent classes, which the head scores directly")
    return classes
