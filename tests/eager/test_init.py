"""Initial values: bounds, moments, structure, and what layers start with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fusewire as fw
from fusewire.eager.errors import ArgumentError, ShapeError

nn, init = fw.nn, fw.nn.init


def array(x: Any) -> Any:
    return x.detach().numpy()


def test_layers_start_within_the_bounds_of_their_fan_in() -> None:
    fw.manual_seed(0)
    for layer, fan_in in ((nn.Linear(100, 50), 100), (nn.Conv2d(4, 32, 5), 100)):
        for p in layer.parameters():
            assert abs(array(p)).max() <= 0.1
        assert_allclose(array(layer.weight).std(), 1 / math.sqrt(3 * fan_in), rtol=0.05)


def test_the_tensor_is_set_in_place_and_returned() -> None:
    p = nn.Parameter(fw.zeros(200, 100))
    assert init.xavier_uniform_(p) is p and p.is_leaf
    assert init.constant_(p, 7.0) is p and array(p).min() == array(p).max() == 7
    assert array(init.zeros_(p)).max() == 0
    assert array(init.ones_(p)).min() == 1


@pytest.mark.parametrize(("fill", "deviation"), [
    (lambda p: init.normal_(p, std=0.5), 0.5),
    (lambda p: init.uniform_(p, -1, 1), 1 / math.sqrt(3)),
    (lambda p: init.xavier_uniform_(p), math.sqrt(2 / 300)),
    (lambda p: init.xavier_normal_(p, gain=2.0), 2 * math.sqrt(2 / 300)),
    (lambda p: init.kaiming_normal_(p, nonlinearity="relu", mode="fan_out"), math.sqrt(2 / 200)),
    (lambda p: init.kaiming_uniform_(p, a=math.sqrt(5)), math.sqrt(1 / 300)),
    (lambda p: init.trunc_normal_(p, std=0.1, a=-0.2, b=0.2), 0.1 * 0.8796),
    (lambda p: init.sparse_(p, 0.5, std=0.1), 0.1 * math.sqrt(0.5))])
def test_deviations(fill: Any, deviation: float) -> None:
    fw.manual_seed(0)
    p = array(fill(nn.Parameter(fw.zeros(200, 100))))
    assert_allclose(p.std(), deviation, rtol=0.03)
    assert abs(p.mean()) < 0.03 * deviation


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (40, 50), (1024, 256), (1000, 300)])
def test_numbers_are_those_that_are_drawn_scaled(shape: tuple[int, ...], dtype: str) -> None:
    """Also where they are so many that ops would be native code, and not a power of two."""
    x = fw.zeros(shape, dtype=getattr(fw, dtype))
    for fill, draw, factor, offset in ((lambda: init.uniform_(x, -0.3, 0.7), fw.rand, 1.0, -0.3),
                                       (lambda: init.normal_(x, 0.1, 2.0), fw.randn, 2.0, 0.1),
                                       (lambda: x.uniform_(-0.3, 0.7), fw.rand, 1.0, -0.3),
                                       (lambda: x.normal_(0.1, 2.0), fw.randn, 2.0, 0.1)):
        fw.manual_seed(3)
        fill()
        fw.manual_seed(3)
        want = draw(shape, dtype=x.dtype) * factor + offset
        assert x.dtype == want.dtype and x.shape == want.shape
        np.testing.assert_array_equal(array(x), array(want))


def test_truncated_numbers_lie_between_their_limits() -> None:
    fw.manual_seed(0)
    p = array(init.trunc_normal_(fw.zeros(50_000), mean=0.5, std=2.0, a=0.0, b=1.0))
    assert 0 <= p.min() < 0.001 and 0.999 < p.max() <= 1
    assert abs(p.mean() - 0.5) < 0.005


def test_eye_and_dirac_keep_what_they_are_given() -> None:
    assert init.eye_(fw.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    x = fw.randn(2, 4, 7, 6)
    conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
    init.dirac_(conv.weight)
    assert_allclose(array(conv(x)), x.numpy(), rtol=1e-6)
    grouped = init.dirac_(fw.empty(6, 2, 3), groups=3).numpy()
    assert grouped[:, :, 1].tolist() == [[1, 0], [0, 1]] * 3 and grouped.sum() == 6


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3), (6, 2, 2)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]) -> None:
    p = array(init.orthogonal_(fw.empty(*shape), gain=2.0)).reshape(shape[0], -1)
    small = p @ p.T if len(p) < p.shape[1] else p.T @ p
    assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_orthogonal_matrices_are_turned_evenly() -> None:
    fw.manual_seed(0)
    many = np.stack([array(init.orthogonal_(fw.empty(2, 2))) for _ in range(400)])
    assert abs(many.mean(0)).max() < 0.1  # without the signs of R the diagonal would be negative


def test_sparse_columns() -> None:
    fw.manual_seed(0)
    zeros = array(init.sparse_(fw.empty(10, 50), 0.25)) == 0
    assert (zeros.sum(0) == 3).all()  # ceil(2.5)
    assert len(np.unique(zeros, axis=1).T) > 10  # in other places in each


def test_small_dtypes_stay() -> None:
    for fill in (init.orthogonal_, init.trunc_normal_, init.xavier_uniform_, init.eye_):
        assert fill(fw.zeros(4, 3, dtype=fw.bfloat16)).dtype == fw.bfloat16


@pytest.mark.parametrize("fill", [
    init.uniform_, init.normal_, init.trunc_normal_, init.orthogonal_, init.xavier_normal_,
    init.xavier_uniform_, init.kaiming_normal_, init.kaiming_uniform_,
    lambda x, generator: init.sparse_(x, 0.5, generator=generator)])
def test_a_generator_of_its_own(fill: Any) -> None:
    before = fw.get_rng_state().tolist()
    a, b = (fill(fw.zeros(5, 4), generator=fw.Generator().manual_seed(1)) for _ in range(2))
    assert a.tolist() == b.tolist()
    assert fw.get_rng_state().tolist() == before


def test_gains() -> None:
    assert init.calculate_gain("leaky_relu", 3) == math.sqrt(2 / 10)
    assert init.calculate_gain("conv_transpose2d") == 1
    assert init.calculate_gain("selu") == 3 / 4
    with pytest.raises(ArgumentError, match="nonlinearity 'swish' is not known"):
        init.calculate_gain("swish")
    with pytest.raises(ArgumentError, match="a slope is a number"):
        init.calculate_gain("leaky_relu", True)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: init.kaiming_uniform_(fw.zeros(3)), "two axes"),
    (lambda: init.eye_(fw.zeros(3)), r"eye_: takes a matrix, got \(3,\)"),
    (lambda: init.sparse_(fw.zeros(2, 2, 2), 0.5), "sparse_: takes a matrix"),
    (lambda: init.dirac_(fw.zeros(2, 2)), "weight of a convolution"),
    (lambda: init.orthogonal_(fw.zeros(2)), "two axes or more")])
def test_wrong_shapes(call: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        call()
