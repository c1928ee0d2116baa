"""Losses of class numbers and label sequences, as layers."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice, check_fraction, check_whole
from ...arrays.shapes import product
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.layers.entropy import NOTHING
from ...ops.shape.view import reshape
from .. import functional as F
from ..functional.losses_of_classes import LinearCrossEntropyOptions
from ..layers.linear import Linear
from .base import Loss, WeightedLoss

__all__ = [
    "CTCLoss", "CrossEntropyLoss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
]


class CrossEntropyLoss(WeightedLoss):
    """The mean of -log softmax(input)[target], for logits (n, classes, ...).

    input is (n, classes, ...), and target (n, ...) holds integers; input (classes,) with target ()
    is one row. A floating point target of the shape of the input holds the probability of each
    class. "mean" divides by the sum of the weights (1 without weight) of the targets that count;
    for probabilities by the number of rows.

    Args:
        weight: (classes,), the factor of each class. Default None.
        ignore_index: a class number; targets equal to it do not count. Default -100.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".
        label_smoothing: share of the target that is spread over all classes, in [0, 1]. Default
            0.0.

    Raises:
        ArgumentError: an unknown reduction or, by the call, label_smoothing not in [0, 1], or an
            ignore_index with probabilities.
        ShapeError: the target does not have the shape of the input without classes.
        IndexingError: a target is neither a class nor ignore_index.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.CrossEntropyLoss()(fw.tensor([[100.0, 0.0], [100.0, 0.0]]), fw.tensor([0, 1]))
        tensor(50.)
    """

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = NOTHING, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction, ignore_index=ignore_index,
                         label_smoothing=label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction,
                               self.label_smoothing)


class NLLLoss(WeightedLoss):
    """The mean of -input[target], for log probabilities (n, classes, ...).

    input is (n, classes, ...), and target (n, ...) holds integers; input (classes,) with target ()
    is one row. "mean" divides by the sum of the weights (1 without weight) of the targets that
    count.

    Args:
        weight: (classes,), the factor of each class. Default None.
        ignore_index: a class number; targets equal to it do not count. Default -100.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: the target does not have the shape of the input without classes.
        IndexingError: a target is neither a class nor ignore_index.
        DTypeError: the target does not hold integers.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.NLLLoss()(fw.tensor([[-1.0, -2.0], [-3.0, -4.0]]), fw.tensor([0, 1]))
        tensor(2.5)
    """

    def __init__(self, weight: Tensor | None = None, ignore_index: int = NOTHING,
                 reduction: str = "mean") -> None:
        super().__init__(weight, reduction, ignore_index=ignore_index)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class LinearCrossEntropyLoss(WeightedLoss):
    """The cross entropy of a learned linear map of the input (n, in_features).

    The logits are (n, num_classes, *out_features). The target is (n, *out_features) of class
    numbers, or has the shape of the logits and holds probabilities. input may lack n.

    Args:
        in_features: size of the last axis of the input.
        num_classes: the number of classes.
        out_features: sizes of further axes of the logits. Default ().
        bias: adds a learned bias to the map. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".
        weight: (num_classes,), the factor of each class. Default None.
        ignore_index: a class number; targets equal to it do not count. Default None: -100.
        label_smoothing: share of the target that is spread over all classes, in [0, 1]. Default
            0.0.
        options: accepted for PyTorch's signature, without effect. Default None.

    Raises:
        ArgumentError: an unknown reduction, or label_smoothing is not in [0, 1].
        ShapeError: weight is not (num_classes,), or input or target have other shapes.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.LinearCrossEntropyLoss(8, num_classes=5)
        >>> loss(fw.ones(4, 8), fw.tensor([0, 1, 2, 3])).shape, loss.linear.weight.shape
        ((), (5, 8))
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise ShapeError(f"LinearCrossEntropyLoss: weight {weight.shape} must be "
                             f"{(num_classes,)}, one number for each class")
        check_fraction("LinearCrossEntropyLoss", "label_smoothing", label_smoothing)
        super().__init__(weight, reduction, num_classes=num_classes, out_features=out_features,
                         ignore_index=ignore_index, label_smoothing=label_smoothing,
                         options=options)
        rows = num_classes * product(out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        sizes, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input, reshape(self.linear.weight, (*sizes, self.linear.in_features)), target,
            linear_bias=None if bias is None else reshape(bias, sizes), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self) -> str:
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
                f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
                f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options={self.options}")


class MultiMarginLoss(WeightedLoss):
    """The mean over rows of sum_i max(0, margin - input[target] + input[i]) ** p / classes.

    i runs over all classes but the target. input is (n, classes) and target (n,) of integers, or
    (classes,) and ().

    Args:
        p: 1 or 2. Default 1.
        margin: the least difference without a loss. Default 1.0.
        weight: (classes,), the factor of each class. Default None.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction, or p is neither 1 nor 2.
        ShapeError: the target does not have the shape of the input without classes.
        IndexingError: a target is not a class.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.MultiMarginLoss()(fw.tensor([[1.0, 0.5, -1.0, 0.0]]), fw.tensor([0]))
        tensor(0.125)
    """

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                 reduction: str = "mean") -> None:
        check_choice("MultiMarginLoss", "p", p, (1, 2))
        super().__init__(weight, reduction, p=p, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class MultiLabelMarginLoss(Loss):
    """The mean over rows of sum_ij max(0, 1 - input[target[j]] + input[i]) / classes.

    input and target are (n, classes) or (classes,). A row of target lists class numbers up to its
    first negative number; j runs over them, and i over all other classes.

    Args:
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.
        DTypeError: the target does not hold integers.
        IndexingError: a class number is too large.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.MultiLabelMarginLoss()
        >>> loss(fw.tensor([0.5, 0.25, 0.0, 0.25]), fw.tensor([0, -1, 0, 0]))
        tensor(0.5)
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """The mean over rows and classes of the cross entropy of sigmoid(input) and target.

    input and target are (..., classes). With reduction "none" the result is (...,).

    Args:
        weight: (classes,), the factor of each class. Default None.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".

    Raises:
        ArgumentError: an unknown reduction.
        ShapeError: input and target differ in shape.

    Example:
        >>> import fusewire as fw
        >>> loss = fw.nn.MultiLabelSoftMarginLoss()
        >>> loss(fw.tensor([[100.0, 100.0]]), fw.tensor([[1.0, 0.0]]))
        tensor(50.)
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class CTCLoss(Loss):
    """-log of the probability of label sequences: log_probs (time, n, classes) -> ().

    The call takes log_probs, the logarithms of probabilities; targets, (n, s) or all in one,
    (sum(target_lengths),); input_lengths (n,) and target_lengths (n,). log_probs (time, classes) is
    one sequence. "mean" is the mean of losses divided by target lengths. The loss is inf for a
    target that its input is too short for. Graves et al., "Connectionist temporal classification"
    (2006).

    Args:
        blank: the class number of the blank. Default 0.
        reduction: "mean" or "sum" of the losses, or "none" for each of them. Default "mean".
        zero_infinity: True replaces infinite losses by 0. Default False.

    Raises:
        ArgumentError: an unknown reduction, blank is negative or, by the call, not a class.
        ShapeError: log_probs, targets and lengths do not fit together.
        IndexingError: a label or a length is out of range.

    Example:
        >>> import fusewire as fw
        >>> log_probs = fw.nn.functional.log_softmax(fw.zeros(4, 2, 3), dim=2)
        >>> loss = fw.nn.CTCLoss(reduction="none")
        >>> loss(log_probs, fw.tensor([[1, 2], [1, 1]]), [4, 4], [2, 2]).shape
        (2,)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
                 ) -> None:
        check_whole("CTCLoss", "blank", blank, 0)
        super().__init__(reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
                ) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank,
                          self.reduction, self.zero_infinity)
