"""Dropout: how much is dropped, what stays the same, and where whole channels go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire.eager.errors import ArgumentError, ShapeError

nn, F = fw.nn, fw.nn.functional


def test_a_share_is_zeroed_and_the_rest_is_scaled() -> None:
    fw.manual_seed(3)
    layer, x = nn.Dropout(0.25), fw.ones(200, 100)
    out = layer(x).numpy()
    assert set(np.unique(out)) == {0.0, np.float32(1 / 0.75)}
    assert abs((out == 0).mean() - 0.25) < 0.02
    fw.manual_seed(3)
    assert np.array_equal(layer(x).numpy(), out)
    assert not np.array_equal(layer(x).numpy(), out)  # each call has a mask of its own
    assert not F.dropout(x, 1.0).numpy().any()


@pytest.mark.parametrize("name", ["Dropout", "Dropout1d", "Dropout2d", "AlphaDropout",
                                  "FeatureAlphaDropout"])
def test_nothing_is_dropped_in_evaluation_or_for_p_0(name: str) -> None:
    x = fw.ones(2, 3, 4, 5) if name != "Dropout1d" else fw.ones(2, 3, 4)
    layer = getattr(nn, name)
    assert layer(0.5).eval()(x) is x
    assert layer(0.0)(x) is x


def test_gradients_pass_where_values_passed() -> None:
    x = fw.full((50,), 2.0).requires_grad_()
    out = F.dropout(x, 0.5)
    out.sum().backward()
    assert x.grad is not None
    assert_allclose(x.grad.numpy(), out.detach().numpy() / 2)


@pytest.mark.parametrize(("function", "shape"), [
    (F.dropout1d, (20, 30, 4)), (F.dropout1d, (600, 4)), (F.dropout2d, (20, 30, 2, 3)),
    (F.dropout2d, (20, 30, 4)), (F.dropout3d, (20, 30, 2, 2, 2)), (F.dropout3d, (600, 2, 2, 2))])
def test_whole_channels_are_dropped(function: Any, shape: tuple[int, ...]) -> None:
    fw.manual_seed(0)
    out = function(fw.ones(*shape), 0.5).numpy().reshape(600, -1)
    assert set(out.sum(1)) == {0.0, 2.0 * out.shape[1]}
    assert 0.4 < (out[:, 0] == 0).mean() < 0.6


@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_variance(function: Any) -> None:
    fw.manual_seed(0)
    x = fw.randn(400, 500)
    out = function(x, 0.3, training=True).numpy()
    assert_allclose([out.mean(), out.std()], [0, 1], atol=0.01)
    dropped = np.unique(out.round(4), return_counts=True)
    assert_allclose(dropped[1].max() / out.size, 0.3, atol=0.01)  # all at one value
    assert not function(x, 1.0, True).numpy().any()
    assert function(x) is x  # a function of its own does nothing unless it is told to


def test_channels_of_alpha_dropout() -> None:
    fw.manual_seed(0)
    out = nn.FeatureAlphaDropout(0.5)(fw.ones(20, 30, 7)).numpy().reshape(600, 7)
    assert (out == out[:, :1]).all() and len(np.unique(out)) == 2


def test_small_dtypes_stay() -> None:
    for dtype in (fw.bfloat16, fw.float16, fw.float64):
        for function in (F.dropout, F.alpha_dropout):
            assert function(fw.ones(4, 3, dtype=dtype), 0.5, True).dtype == dtype


def test_inplace_changes_the_input() -> None:
    x = fw.ones(100)
    assert nn.Dropout(0.5, inplace=True)(x) is x
    assert set(x.tolist()) == {0.0, 2.0}


def test_what_cannot_be_dropped() -> None:
    with pytest.raises(ArgumentError, match=r"Dropout: p must be between 0 and 1, got 1\.5"):
        nn.Dropout(1.5)
    with pytest.raises(ArgumentError, match=r"dropout2d: p must be"):
        F.dropout2d(fw.ones(2, 3, 4, 5), -0.1)
    with pytest.raises(ShapeError, match=r"dropout2d: takes 3 or 4 axes, got \(2,\)"):
        nn.Dropout2d()(fw.ones(2))
    with pytest.raises(ShapeError, match=r"takes \(n, channels, ...\), got \(3,\)"):
        F.feature_alpha_dropout(fw.ones(3), training=True)
