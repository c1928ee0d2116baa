"""Connectionist temporal classification: sequences of labels from longer sequences of scores.

Graves et al., "Connectionist temporal classification: labelling unsegmented sequence data with
recurrent neural networks" (2006). The probabilities of all alignments are added up in log space.
"""

from __future__ import annotations

import math
from typing import Any

from ... import interpreter
from ...arguments import check_choice, names_itself
from ...arrays.dtypes import int64
from ...core.tensor import Tensor, tensor
from ...errors import ShapeError
from ...ops.create import full, iota
from ...ops.elementwise.casting import in_float32
from ...ops.elementwise.clip import clip
from ...ops.elementwise.pointwise import (
    cast,
    equal,
    isinf,
    less,
    logaddexp,
    maximum,
    not_equal,
    where,
)
from ...ops.indexing.scatter import along
from ...ops.range_checks import check_index
from ...ops.reduction.reduce import floating, mean, sum, widened
from ...ops.shape.join import stack, unstack
from ...ops.shape.rearrange import shift
from ...ops.shape.take import take
from ...ops.shape.view import expand_dims, expand_to, reshape, unslice
from ...ops.statistics.cumulative import cumsum
from .inputs import check_integers
from .losses import REDUCTIONS

__all__ = ["ctc_loss"]

_NEVER = -1e30  # the logarithm of probability 0: finite, so that differences of two are


@names_itself
@in_float32
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:
    """Mean of -log of the probability of `targets`, each divided by its length: a scalar.

    Args:
        log_probs: logarithms of probabilities: (time, n, classes), or (time, classes) for one
            sequence.
        targets: class numbers: (n, s) padded, or all sequences one after the other:
            (sum(target_lengths),).
        input_lengths: the number of time steps of each sequence: (n,), a tensor or ints.
        target_lengths: the number of labels of each sequence: (n,), a tensor or ints.
        blank: the class number of no label. Default 0.
        reduction: "mean" (default), "sum", or "none" for the loss of each sequence: (n,).
        zero_infinity: True sets the loss of impossible targets to 0, for example of targets longer
            than their input. Default False: inf.

    Raises:
        ShapeError: shapes or lengths do not fit each other.
        DTypeError: `targets` or lengths are not integers, or `log_probs` is not floating point.
        IndexingError: a length or a class number is out of range.
        ArgumentError: `blank` is not a class number, or `reduction` is unknown.

    Example:
        >>> import fusewire as fw
        >>> log_probs, targets = fw.tensor([[-1.0, -2.0]]), fw.tensor([1])  # one time step
        >>> fw.nn.functional.ctc_loss(log_probs, targets, 1, 1)
        tensor(2.)
    """
    check_choice("ctc_loss", "reduction", reduction, REDUCTIONS)
    batched = log_probs.ndim == 3
    logs, labels, times, sizes = _batch(log_probs, targets, input_lengths, target_lengths)
    check_choice("ctc_loss", "blank", blank, range(logs.shape[2]))  # type: ignore[arg-type]
    labels = _padded(labels, sizes, logs)
    losses = -_log_probability(logs, labels, times, sizes, blank)
    if zero_infinity:
        losses = where(isinf(losses), 0.0, losses)
    if reduction == "mean":
        losses = mean(losses / cast(maximum(sizes, 1), losses.dtype))
    elif reduction == "sum":
        losses = sum(losses)
    elif not batched:
        losses = reshape(losses, ())
    return cast(losses, log_probs.dtype)


def _batch(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
           ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The arguments with an axis of sequences, in the dtypes of the computation."""
    logs = widened(floating("ctc_loss", log_probs, "f"))
    check_integers("ctc_loss", "targets", targets)
    labels = cast(targets, int64)
    if logs.ndim == 2:
        logs = expand_dims(logs, 1)
        labels = expand_dims(labels, 0) if labels.ndim == 1 else labels
    if logs.ndim != 3 or labels.ndim not in (1, 2) \
            or (labels.ndim == 2 and labels.shape[0] != logs.shape[1]):
        raise ShapeError(f"ctc_loss: log_probs {log_probs.shape} and targets {targets.shape} do "
                         "not fit", "log_probs is (time, n, classes), targets (n, s) or all of "
                         "them one after the other; without n they are (time, classes) and (s,)")
    times = _lengths("input_lengths", input_lengths, logs.shape[1])
    times = check_index(times, logs.shape[0] + 1, "ctc_loss: input length")
    return logs, labels, times, _lengths("target_lengths", target_lengths, logs.shape[1])


def _lengths(name: str, lengths: Any, n: Any) -> Tensor:
    values = lengths if isinstance(lengths, Tensor) else tensor(lengths, dtype=int64)
    check_integers("ctc_loss", name, values)
    if values.shape not in ((n,), ()) or (values.ndim == 0 and n != 1):
        raise ShapeError(f"ctc_loss: {name} {values.shape} must be one number for each of the {n} "
                         "sequences")
    return cast(reshape(values, (n,)), int64)


def _padded(labels: Tensor, sizes: Tensor, logs: Tensor) -> Tensor:
    """The labels as (n, s), with class 0 behind the end of each sequence."""
    classes = logs.shape[2]
    if labels.ndim == 2:
        shape = labels.shape
        sizes = check_index(sizes, shape[1] + 1, "ctc_loss: target length")
    else:
        total = labels.shape[0]
        longest = min(total, logs.shape[0])  # no longer one is possible
        if not interpreter.in_use:
            longest = int(sizes._data.max(initial=0))
        shape = (sizes.shape[0], longest)
        positions = expand_dims(cumsum(sizes, 0) - sizes, 1) + iota(shape, 1, device=logs.device)
        labels = take(labels, clip(positions, 0, total - 1), axis=0) if total \
            else full(shape, 0, int64, logs.device)
    labels = where(less(iota(shape, 1, device=logs.device), expand_dims(sizes, 1)), labels, 0)
    return check_index(labels, classes, "ctc_loss: target")


def _log_probability(logs: Tensor, labels: Tensor, times: Tensor, sizes: Tensor, blank: int
                     ) -> Tensor:
    """The logarithm of the summed probability of all alignments with the labels: (n,)."""
    n, states = labels.shape[0], 2 * labels.shape[1] + 1
    spread = unslice(labels, (n, states), (0, 1), (1, 2), blank)  # blanks between all labels
    scores = along(logs, expand_to(spread, (logs.shape[0], n, states)), 2)
    reached_by_time = _alignment_scores(scores, _may_skip(spread, blank))  # (time, n, states)
    if not logs.shape[0]:
        reached = full((n, states), _NEVER, logs.dtype, logs.device)
    else:
        last = expand_to(reshape(maximum(times - 1, 0), (1, n, 1)), (1, n, states))
        reached = reshape(along(reached_by_time, last, 0), (n, states))
    ends = stack([_state(reached, sizes * 2), _state(reached, sizes * 2 - 1)])
    total = logaddexp(ends[0], where(sizes > 0, ends[1], _NEVER))
    total = where(times > 0, total, where(sizes > 0, _NEVER, 0.0))
    return where(total < _NEVER / 2, -math.inf, total)


def _may_skip(spread: Tensor, blank: int) -> Tensor:
    """0 where a state can follow the state two before it, as labels differ; else _NEVER."""
    before = shift(spread, 2, blank)
    return where(not_equal(spread, blank) & not_equal(spread, before), 0.0, _NEVER)


def _alignment_scores(scores: Tensor, skip: Tensor) -> Tensor:
    """The logarithm of the summed probability of alignments up to each state: (time, n, states)."""
    _, n, states = scores.shape
    skip = cast(skip, scores.dtype)
    start = where(iota((n, states), 1, device=scores.device) < 2, 0.0, _NEVER)
    at: list[Tensor] = []
    for step in unstack(scores):
        if not at:
            at.append(step + cast(start, scores.dtype))
            continue
        stay = at[-1]
        near = logaddexp(stay, shift(stay, 1, _NEVER))
        at.append(logaddexp(near, shift(stay, 2, _NEVER) + skip) + step)
    return stack(at) if at else scores


def _state(reached: Tensor, index: Tensor) -> Tensor:
    """The element of each row at `index`: (n,)."""
    inside = clip(index, 0, reached.shape[1] - 1)
    element = reshape(along(reached, expand_dims(inside, 1), 1), index.shape)
    return where(equal(inside, index), element, _NEVER)
