"""Losses against their formulas in NumPy, what counts in them, and what their errors say."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire.eager.errors import ArgumentError, DTypeError, IndexingError, ShapeError

nn, F = fw.nn, fw.nn.functional


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(tensor: Any, expected: Any, rtol: float = 1e-5) -> None:
    assert_allclose(tensor.detach().numpy(), expected, rtol=rtol, atol=1e-6)


def log_softmax(x: Any, axis: int = 1) -> Any:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


# ---- of classes
def test_cross_entropy_and_its_reductions() -> None:
    x, t = values(6, 4), np.array([0, 3, 1, 2, 2, 0])
    expected = -log_softmax(x)[np.arange(6), t]
    args = fw.tensor(x), fw.tensor(t)
    close(nn.CrossEntropyLoss()(*args), expected.mean())
    close(F.cross_entropy(*args, reduction="sum"), expected.sum())
    close(F.cross_entropy(*args, reduction="none"), expected)
    close(F.nll_loss(F.log_softmax(args[0], 1), args[1]), expected.mean())


def test_cross_entropy_over_more_axes_and_of_one_row() -> None:
    x, t = values(2, 4, 3), np.array([[0, 1, 2], [3, 3, 0]])
    picked = -np.take_along_axis(log_softmax(x), t[:, None], 1)[:, 0]
    close(F.cross_entropy(fw.tensor(x), fw.tensor(t), reduction="none"), picked)
    close(F.cross_entropy(fw.tensor(x), fw.tensor(t)), picked.mean())
    close(F.cross_entropy(fw.tensor(x[0, :, 0]), fw.tensor(0)), picked[0, 0])


def test_cross_entropy_with_weight_ignored_targets_and_smoothing() -> None:
    x, t, w = values(4, 3), np.array([0, -100, 2, 1]), np.array([0.5, 1.0, 2.0], np.float32)
    kept, logs = np.array([0, 2, 3]), log_softmax(x)
    hit = -logs[kept, t[kept]] * w[t[kept]]
    even = -(logs[kept] * w).mean(1)
    loss = nn.CrossEntropyLoss(fw.tensor(w), label_smoothing=0.1)
    close(loss(fw.tensor(x), fw.tensor(t)), (0.9 * hit + 0.1 * even).sum() / w[t[kept]].sum())


@pytest.mark.parametrize("function", [F.cross_entropy, F.nll_loss])
def test_ignored_targets_count_for_nothing(function: Any) -> None:
    x, t = values(4, 3), [2, -100, 0, -100]
    kept = function(fw.tensor(x[[0, 2]]), fw.tensor([2, 0]))
    close(function(fw.tensor(x), fw.tensor(t)), kept.item())
    close(function(fw.tensor(x), fw.tensor([2, 1, 0, 1]), ignore_index=1), kept.item())
    assert function(fw.tensor(x), fw.tensor(t), reduction="none").numpy()[[1, 3]].tolist() == [0, 0]


@pytest.mark.parametrize("more", [{}, {"label_smoothing": 0.1}, {"weight": fw.ones(3)}], ids=str)
def test_the_mean_of_nothing_is_nan_and_has_no_gradient(more: Any) -> None:
    x = fw.tensor(values(2, 3), requires_grad=True)
    loss = F.cross_entropy(x, fw.tensor([-100, -100]), **more)
    loss.backward()
    assert math.isnan(loss.item()) and x.grad is not None
    assert not x.grad.numpy().any()


def test_cross_entropy_with_probabilities() -> None:
    x, p = values(5, 3), np.exp(log_softmax(values(5, 3, seed=1)))
    expected = -(log_softmax(x) * p).sum(1)
    close(F.cross_entropy(fw.tensor(x), fw.tensor(p)), expected.mean())
    one_hot = F.one_hot(fw.tensor([0, 2, 1, 1, 0]), 3).astype(fw.float32)
    close(F.cross_entropy(fw.tensor(x), one_hot, label_smoothing=0.2),
          F.cross_entropy(fw.tensor(x), fw.tensor([0, 2, 1, 1, 0]), label_smoothing=0.2).item())


def test_large_logits_do_not_overflow() -> None:
    x = fw.tensor([[1000.0, -1000.0], [-math.inf, 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, fw.tensor([0, 1]))
    loss.backward()
    assert loss.item() == 0 and x.grad is not None and not x.grad.numpy().any()


def test_many_rows_give_what_few_rows_give() -> None:
    """Large arrays go to native code, of which small ones see nothing."""
    x, t = values(700, 300), np.random.default_rng(1).integers(0, 300, 700)
    t[::7] = -100
    large = fw.tensor(x, requires_grad=True)
    loss = F.cross_entropy(large, fw.tensor(t))
    loss.backward()
    kept = t != -100
    close(loss, -log_softmax(x)[kept, t[kept]].mean())
    small = fw.tensor(x[:50], requires_grad=True)
    (F.cross_entropy(small, fw.tensor(t[:50]), reduction="sum") / kept.sum()).backward()
    assert large.grad is not None and small.grad is not None
    assert_allclose(large.grad.numpy()[:50], small.grad.numpy(), rtol=1e-4, atol=1e-8)


def test_a_linear_map_and_its_cross_entropy() -> None:
    loss = nn.LinearCrossEntropyLoss(4, 5, out_features=(2,), bias=True)
    x, t = fw.tensor(values(3, 4)), fw.tensor([[0, 4], [1, 1], [2, 3]])
    logits = loss.linear(x).reshape((3, 5, 2))
    close(loss(x, t), F.cross_entropy(logits, t).item())


def test_margins_between_classes() -> None:
    x, t = values(3, 4), np.array([2, 0, 3])
    gap = np.maximum(0, 1 - x[np.arange(3), t][:, None] + x)
    gap[np.arange(3), t] = 0
    close(F.multi_margin_loss(fw.tensor(x), fw.tensor(t)), (gap.sum(1) / 4).mean())
    close(F.multi_margin_loss(fw.tensor(x), fw.tensor(t), p=2), ((gap ** 2).sum(1) / 4).mean())


def test_margins_between_several_labels_and_the_other_classes() -> None:
    x = values(4)
    named, others = [3, 0], [1, 2]  # up to the first negative number
    expected = sum(max(0, 1 - (x[j] - x[i])) for j in named for i in others) / 4
    close(F.multilabel_margin_loss(fw.tensor(x), fw.tensor([3, 0, -1, 1])), expected)


# ---- of values
def test_squares_and_absolute_differences() -> None:
    x, y, w = values(3, 4), values(3, 4, seed=1), abs(values(3, 4, seed=2))
    a, b = fw.tensor(x), fw.tensor(y)
    d = abs(x - y)
    close(nn.MSELoss()(a, b), (d ** 2).mean())
    close(F.mse_loss(a, b, "none"), d ** 2)
    close(F.mse_loss(a, b, weight=fw.tensor(w)), (d ** 2 * w).sum() / w.sum())
    close(nn.L1Loss(reduction="sum")(a, b), d.sum())
    close(F.smooth_l1_loss(a, b, beta=0.5), np.where(d < 0.5, d ** 2, d - 0.25).mean())
    close(F.huber_loss(a, b, delta=0.5),
          np.where(d <= 0.5, d ** 2 / 2, 0.5 * (d - 0.25)).mean())


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_what_is_infinitely_far_has_the_slope_of_the_straight_part(loss: Any) -> None:
    x = fw.tensor([np.inf, -np.inf, 1e30], requires_grad=True)
    loss(x, fw.zeros(3), "sum").backward()
    close(x.grad, [1.0, -1.0, 1.0])


def test_probabilities_of_two_classes() -> None:
    x, t = values(3, 4), (values(3, 4, seed=1) > 0).astype(np.float32)
    p = 1 / (1 + np.exp(-x))
    expected = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    logits = fw.tensor(x)
    close(nn.BCELoss()(F.sigmoid(logits), fw.tensor(t)), expected.mean())
    close(nn.BCEWithLogitsLoss()(logits, fw.tensor(t)), expected.mean())
    weighted = -(3 * t * np.log(p) + (1 - t) * np.log(1 - p))
    close(nn.BCEWithLogitsLoss(pos_weight=fw.tensor([3.0]))(logits, fw.tensor(t)), weighted.mean())
    close(F.binary_cross_entropy(fw.tensor([0.0, 1.0]), fw.tensor([1.0, 1.0])), 50)
    close(F.binary_cross_entropy_with_logits(fw.tensor([-500.0]), fw.tensor([1.0])), 500)


def test_divergence() -> None:
    p, q = (np.exp(log_softmax(values(3, 4, seed=s))) for s in (0, 1))
    expected = (p * np.log(p / q)).sum() / 3
    close(F.kl_div(fw.tensor(np.log(q)), fw.tensor(p), reduction="batchmean"), expected)
    close(F.kl_div(fw.tensor(np.log(q)), fw.tensor(np.log(p)), "batchmean", True), expected)
    close(F.kl_div(fw.tensor([-1.0]), fw.tensor([0.0])), 0)


def test_likelihoods() -> None:
    x, t, v = values(3, 4), np.floor(abs(values(3, 4, seed=1)) * 4), abs(values(3, 4, seed=2))
    close(F.poisson_nll_loss(fw.tensor(x), fw.tensor(t)), (np.exp(x) - t * x).mean())
    full = F.poisson_nll_loss(fw.tensor(x), fw.tensor(t), full=True, reduction="none")
    exact = np.exp(x) - t * x + np.vectorize(math.lgamma)(t + 1)
    assert_allclose(full.numpy(), exact, atol=0.05)  # Stirling's approximation
    expected = 0.5 * (np.log(v) + (x - t) ** 2 / v)
    close(nn.GaussianNLLLoss()(fw.tensor(x), fw.tensor(t), fw.tensor(v)), expected.mean(), 1e-4)
    at_most = F.gaussian_nll_loss(fw.zeros(1), fw.zeros(1), fw.zeros(1), eps=1e-4)
    close(at_most, 0.5 * math.log(1e-4))


# ---- of pairs and triples
def test_rankings_and_embeddings() -> None:
    x, y, s = values(5), values(5, seed=1), np.array([1, -1, -1, 1, -1], np.float32)
    close(F.margin_ranking_loss(*map(fw.tensor, (x, y, s)), margin=0.3),
          np.maximum(0, -s * (x - y) + 0.3).mean())
    close(F.hinge_embedding_loss(fw.tensor(x), fw.tensor(s)),
          np.where(s == 1, x, np.maximum(0, 1 - x)).mean())
    close(F.soft_margin_loss(fw.tensor(x), fw.tensor(s)), np.log1p(np.exp(-s * x)).mean())
    a, b = values(5, 3), values(5, 3, seed=1)
    cos = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    close(F.cosine_embedding_loss(*map(fw.tensor, (a, b, s))),
          np.where(s == 1, 1 - cos, np.maximum(0, cos)).mean())
    close(F.cosine_similarity(fw.tensor(a), fw.tensor(b)), cos)


def test_triplets() -> None:
    a, p, n = (values(5, 3, seed=s) for s in range(3))
    near, far, swap = (np.linalg.norm(u - v, axis=1) for u, v in ((a, p), (a, n), (p, n)))
    args = tuple(map(fw.tensor, (a, p, n)))
    close(nn.TripletMarginLoss()(*args), np.maximum(0, 1 + near - far).mean(), 1e-4)
    close(nn.TripletMarginLoss(swap=True)(*args),
          np.maximum(0, 1 + near - np.minimum(far, swap)).mean(), 1e-4)
    own = nn.TripletMarginWithDistanceLoss(distance_function=lambda u, v: abs(u - v).max(1))
    sizes = (abs(u - v).max(1) for u, v in ((a, p), (a, n)))
    close(own(*args), np.maximum(0, 1 + next(sizes) - next(sizes)).mean())


def test_distances() -> None:
    x, y = values(4, 3), values(4, 3, seed=1)
    for p in (1.0, 2.0, math.inf):
        close(F.pairwise_distance(fw.tensor(x), fw.tensor(y), p),
              np.linalg.norm(x - y, p, axis=1), 1e-4)
        pairs = [np.linalg.norm(x[i] - x[j], p) for i, j in itertools.combinations(range(4), 2)]
        close(F.pdist(fw.tensor(x), p), pairs)


# ---- sequences
def ctc_by_enumeration(probs: Any, target: list[int], blank: int = 0) -> float:
    """-log of the sum of the probabilities of all paths that become `target`."""
    total = 0.0
    for path in itertools.product(range(probs.shape[1]), repeat=len(probs)):
        merged = [k for k, _ in itertools.groupby(path)]
        if [k for k in merged if k != blank] == target:
            total += math.prod(probs[t, k] for t, k in enumerate(path))
    return -math.log(total)


def test_ctc_sums_over_all_alignments() -> None:
    logs = log_softmax(values(4, 3, 3), 2)  # (time, n, classes)
    targets, lengths, times = [[1, 2], [1, 1], [2, 0]], (2, 2, 1), (4, 4, 3)
    expected = [ctc_by_enumeration(np.exp(logs[:time, i]), targets[i][:size])
                for i, (size, time) in enumerate(zip(lengths, times))]
    padded = fw.tensor(targets)
    close(F.ctc_loss(fw.tensor(logs), padded, times, lengths, reduction="none"), expected)
    close(F.ctc_loss(fw.tensor(logs), fw.tensor([1, 2, 1, 1, 2]), fw.tensor(times),
                     fw.tensor(lengths), reduction="none"), expected)
    close(nn.CTCLoss()(fw.tensor(logs), padded, times, lengths),
          np.mean(np.array(expected) / lengths))
    close(F.ctc_loss(fw.tensor(logs[:, 0]), padded[0], 4, 2, reduction="none"), expected[0])


def test_ctc_of_what_cannot_be() -> None:
    x = fw.tensor(values(2, 1, 3), requires_grad=True)
    logs, impossible = F.log_softmax(x, 2), fw.tensor([[1, 1]])  # needs a blank in between
    assert F.ctc_loss(logs, impossible, (2,), (2,)).item() == math.inf
    loss = F.ctc_loss(logs, impossible, (2,), (2,), zero_infinity=True)
    loss.backward()
    assert loss.item() == 0 and x.grad is not None and not x.grad.numpy().any()


def test_ctc_learns_a_sequence() -> None:
    fw.manual_seed(0)
    logits = nn.Parameter(fw.randn(10, 1, 4))
    optimizer = fw.optim.Adam([logits], lr=0.2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.ctc_loss(F.log_softmax(logits, 2), fw.tensor([[3, 1, 1]]), (10,), (3,))
        loss.backward()
        optimizer.step()
    path = logits.argmax(2).flatten().tolist()
    assert [k for k, _ in itertools.groupby(path) if k] == [3, 1, 1] and loss.item() < 0.1


# ---- many classes
def test_an_adaptive_softmax_is_a_distribution_and_its_loss_that_of_the_target() -> None:
    fw.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    x, t = fw.tensor(values(6, 8)), fw.tensor([0, 3, 4, 9, 10, 19])
    logs = layer.log_prob(x)
    close(logs.exp().sum(1), np.ones(6))
    out = layer(x, t)
    close(out.output, logs.detach().numpy()[np.arange(6), t.numpy()])
    close(out.loss, -out.output.detach().numpy().mean())
    assert layer.predict(x).tolist() == logs.argmax(1).tolist()


# ---- errors
@pytest.mark.parametrize("function", [
    F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss,
    F.hinge_embedding_loss, F.binary_cross_entropy, F.binary_cross_entropy_with_logits,
    F.poisson_nll_loss])
def test_shapes_that_would_broadcast(function: Any) -> None:
    """A column beside a row would compare all with all, and train to something else."""
    with pytest.raises(ShapeError, match=r"\(4, 1\) and target \(4,\)[\s\S]*every element[\s\S]*"
                                         "reshape"):
        function(fw.full((4, 1), 0.5), fw.full((4,), 0.5))


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: F.cross_entropy(x, F.one_hot(fw.tensor([0, 1]), 3)), r"argmax"),
    (lambda x: F.cross_entropy(x, fw.tensor([[0], [1]])), r"target.squeeze\(1\)"),
    (lambda x: F.cross_entropy(x, fw.ones(2)), r"probabilities \(2,\) must have the shape"),
    (lambda x: F.cosine_embedding_loss(x, x, x), r"need a target of shape \(2,\)"),
    (lambda x: F.pdist(x[0]), r"pdist: takes rows \(n, d\), got \(3,\)"),
    (lambda x: F.triplet_margin_loss(x, x, x[0]), "different numbers of axes"),
    (lambda x: F.gaussian_nll_loss(x, x, fw.ones(3)), r"var \(3,\) does not fit"),
    (lambda x: F.ctc_loss(x, fw.tensor([[1], [2]]), (2,), (1,)), r"do not fit"),
    (lambda x: nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2])(x, x), r"needs a target of shape \(2,\)"),
])
def test_wrong_shapes(call: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        call(fw.ones(2, 3))


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.MSELoss("avg"), "MSELoss: reduction 'avg' is not known"),
    (lambda: nn.MSELoss("batchmean"), "reduction 'batchmean' is not known"),
    (lambda: F.cross_entropy(fw.ones(2, 3), fw.ones(2, 3), ignore_index=1), "probabilities"),
    (lambda: nn.CrossEntropyLoss()(fw.ones(2, 3), fw.ones(2, 3)) and F.cross_entropy(
        fw.ones(2, 3), fw.tensor([0, 1]), label_smoothing=2.0), "label_smoothing must be between"),
    (lambda: F.binary_cross_entropy(fw.tensor([1.5]), fw.tensor([1.0])), "with_logits"),
    (lambda: F.huber_loss(fw.ones(2), fw.ones(2), delta=0.0), "delta must be above 0"),
    (lambda: nn.TripletMarginLoss(margin=0.0), "TripletMarginLoss: margin must be above 0"),
    (lambda: nn.MultiMarginLoss(p=3), "p 3 is not known"),
    (lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2, 1]), r"cutoffs \[2, 1\] must be"),
    (lambda: F.ctc_loss(fw.ones(2, 1, 3), fw.tensor([[1]]), (2,), (1,), blank=3), "blank 3")])
def test_wrong_settings(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_class_numbers_that_are_not_there() -> None:
    x = fw.ones(2, 3)
    with pytest.raises(IndexingError, match=r"target 3 is not one of 3[\s\S]*ignore_index, -100,"):
        F.cross_entropy(x, fw.tensor([0, 3]))
    with pytest.raises(IndexingError, match=r"target -1 is not one"):
        F.cross_entropy(x, fw.tensor([0, -1]))
    with pytest.raises(DTypeError, match=r"class numbers must be integers[\s\S]*astype"):
        F.cross_entropy(x, fw.tensor([True, False]))
    with pytest.raises(IndexingError, match=r"ctc_loss: target 3 is out of range for size 3"):
        F.ctc_loss(fw.ones(2, 1, 3), fw.tensor([[3]]), (2,), (1,))
    with pytest.raises(IndexingError, match=r"ctc_loss: input length 3 is out of range"):
        F.ctc_loss(fw.ones(2, 1, 3), fw.tensor([[1]]), (3,), (1,))
