"""Values that make no sense raise an error of the right class: no wrong number and no silence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

ROWS, CLASSES = fw.zeros(2, 3), fw.tensor([0, 1])
NANS = fw.full((2, 2), math.nan)
COMPLEX = fw.tensor([1 + 2j, -1 + 0.5j])
INTEGERS = fw.tensor([-10, 5, 0, 3])

SHORT_WEIGHTS: dict[str, Callable[[], Any]] = {
    "cross_entropy": lambda: F.cross_entropy(ROWS, CLASSES, fw.ones(2)),
    "cross_entropy of probabilities": lambda: F.cross_entropy(ROWS, ROWS, fw.ones(1)),
    "nll_loss": lambda: F.nll_loss(ROWS, CLASSES, fw.ones(2)),
    "multi_margin_loss": lambda: F.multi_margin_loss(ROWS, CLASSES, weight=fw.ones(2)),
    "multilabel_soft_margin_loss": lambda: F.multilabel_soft_margin_loss(
        ROWS, ROWS, fw.ones(2)),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(ROWS, ROWS, fw.ones(4, 2, 3)),
    "pos_weight": lambda: F.binary_cross_entropy_with_logits(
        ROWS, ROWS, pos_weight=fw.ones(4, 2, 3)),
}


@pytest.mark.parametrize("call", SHORT_WEIGHTS.values(), ids=SHORT_WEIGHTS)
def test_weights_fit_the_classes(call: Callable[[], Any]) -> None:
    with pytest.raises(fw.ShapeError, match="weight"):
        call()


OUT_OF_RANGE: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "variance": (fw.ArgumentError, lambda: F.gaussian_nll_loss(ROWS, ROWS, ROWS - 1)),
    "weight_norm: axis": (fw.AxisError, lambda: nn.utils.weight_norm(nn.Linear(2, 3), dim=5)),
    "parametrized weight_norm: axis": (
        fw.AxisError,
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 3), dim=-2)),
    "trunc_normal_: limits": (
        fw.ArgumentError, lambda: nn.init.trunc_normal_(fw.zeros(3), a=2, b=-2)),
    "normal_: std": (fw.ArgumentError, lambda: nn.init.normal_(fw.zeros(3), 0.0, -1.0)),
    "normal: std": (fw.ArgumentError, lambda: fw.random.normal(0.0, fw.tensor([1.0, -1.0]))),
    "bernoulli: p": (fw.ArgumentError, lambda: fw.random.bernoulli(1.5)),
    "gamma: concentration": (fw.ArgumentError, lambda: fw.random.gamma(-1.0)),
    "dirichlet: one number": (fw.ShapeError, lambda: fw.random.dirichlet(1.0)),
    "unfold: dilation": (fw.ArgumentError, lambda: F.unfold(fw.ones(1, 1, 4, 4), 2, dilation=0)),
    "unfold: padding": (fw.ArgumentError, lambda: F.unfold(fw.ones(1, 1, 4, 4), 2, padding=-1)),
    "pixel_shuffle": (fw.ArgumentError, lambda: F.pixel_shuffle(fw.ones(4, 2, 2), 0)),
    "dirac_": (fw.ArgumentError, lambda: nn.init.dirac_(fw.ones(2, 2, 3), 0)),
    "CrossMapLRN2d": (fw.ArgumentError, lambda: nn.CrossMapLRN2d(0)),
    "Conv2d: a fraction": (fw.ArgumentError, lambda: nn.Conv2d(2, 3, 2.5)),
    "Conv2d: text": (fw.DTypeError, lambda: nn.Conv2d(2, 3, "a")),
    "channels without parameters": (
        fw.ShapeError, lambda: nn.InstanceNorm1d(3)(fw.ones(1, 2, 4))),
    "BatchNorm without parameters": (
        fw.ShapeError,
        lambda: nn.BatchNorm1d(3, affine=False, track_running_stats=False)(fw.ones(4, 2))),
    "fftfreq: integers": (fw.DTypeError, lambda: fw.fft.fftfreq(4, dtype=fw.int64)),
    "fft: length": (fw.ShapeError, lambda: fw.fft.fft(fw.ones(4), n=-1)),
    "logit": (fw.ArgumentError, lambda: fw.logit(fw.ones(2), eps=2)),
    "polygamma": (fw.ArgumentError, lambda: fw.polygamma(-1, fw.ones(2))),
    "multigammaln": (fw.ArgumentError, lambda: fw.special.multigammaln(fw.ones(2), 0)),
}


@pytest.mark.parametrize(("error", "call"), OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_out_of_range(error: type[Exception], call: Callable[[], Any]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "pinv",
                                  "matrix_rank"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_decompositions_of_numbers_that_are_not_finite(name: str, value: float) -> None:
    with pytest.raises(fw.LinAlgError, match=f"^{name}") as caught:
        getattr(fw.linalg, name)(fw.full((2, 2), value))
    assert "fw.isfinite" in str(caught.value) or name == "eigvals"


REAL = ("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
        "logsigmoid", "mish", "relu", "relu6", "rrelu", "selu", "softplus", "softshrink",
        "softsign", "tanhshrink")


@pytest.mark.parametrize("name", REAL)
def test_activations_of_real_numbers_refuse_complex_ones(name: str) -> None:
    with pytest.raises(fw.DTypeError, match=name):
        getattr(F, name)(COMPLEX)


def test_silu_of_complex_numbers() -> None:
    x = COMPLEX.numpy()
    np.testing.assert_allclose(F.silu(COMPLEX).numpy(), x / (1 + np.exp(-x)), rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in REAL if name != "relu"])
def test_activations_of_integers_are_those_of_float32(name: str) -> None:
    expected = getattr(F, name)(INTEGERS.astype(fw.float32))
    got = getattr(F, name)(INTEGERS)
    assert got.dtype == fw.float32
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_random_slopes_of_integers_are_fractions() -> None:
    slope = F.rrelu(INTEGERS, training=True)[0].item() / -10
    assert 1 / 8 <= slope <= 1 / 3


@pytest.mark.parametrize(("low", "high"), [(4, 5), (6, 7), (30, 31), (200, 201)])
@pytest.mark.parametrize("dtype", [fw.float32, fw.float64])
def test_tails_of_the_normal_distribution(low: float, high: float, dtype: Any) -> None:
    """The density behind `low` is nearly exponential, of the rate low + 1 / low or so."""
    for sign in (1, -1):
        limits = sorted((sign * low, sign * high))
        x = fw.random.truncated_normal(0.0, 1.0, *limits, size=(20000,), dtype=dtype,
                                       generator=fw.Generator(5))
        beyond = x.abs().numpy().astype(np.float64) - low
        assert beyond.min() >= 0 and beyond.max() <= high - low
        assert abs(beyond.mean() * (low + 1 / low) - 1) < 0.1
        assert len(np.unique(beyond)) > 500


def test_weights_without_elements() -> None:
    assert nn.init.xavier_normal_(fw.zeros(0, 0)).shape == (0, 0)
    assert nn.init.xavier_uniform_(fw.zeros(0, 3)).shape == (0, 3)


def test_errors_name_the_function_that_was_called() -> None:
    calls: dict[str, Callable[[], Any]] = {
        "index_add": lambda: fw.index_add(fw.zeros(3), 0, fw.tensor([5]), fw.ones(1)),
        "index_fill": lambda: fw.index_fill(fw.zeros(3), 0, fw.tensor([5]), 1.0),
        "lstsq": lambda: fw.linalg.lstsq(fw.ones(3, 2), fw.ones(2)),
        "matrix_rank": lambda: fw.linalg.matrix_rank(NANS),
        "rand_like": lambda: fw.rand_like(INTEGERS),
        "randperm": lambda: fw.randperm(-1),
        "clip": lambda: fw.clip(COMPLEX, 0, 1),
        "arange": lambda: fw.arange("a"),
        "full": lambda: fw.full(2, "a"),
    }
    for name, call in calls.items():
        with pytest.raises(fw.FusewireError, match=f"^{name}: "):
            call()


def test_an_error_in_a_function_of_the_user_keeps_its_name() -> None:
    with pytest.raises(fw.ShapeError, match=r"^add: "):
        F.triplet_margin_with_distance_loss(
            ROWS, ROWS, ROWS, distance_function=lambda x, y: x + fw.ones(5))
