"""Special functions: their values to a few units in the last place, and their corners."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.errors import FusewireError

INF, NAN = math.inf, math.nan

# Computed with mpmath in 40 digits, at the float64 nearest to what is written here.
TABLE = {
    "erfc": [
        (-2.5, 1.999593047982555), (0.1, 0.8875370839817151), (0.75, 0.28884436634648487),
        (3, 2.2090496998585441e-5), (9.5, 3.7692144856548799e-41), (26, 5.6631924088561428e-296)],
    "erfcx": [
        (-5, 144009798674.66104), (-0.2, 1.2726020284831957), (0.3, 0.73459933456765515),
        (2, 0.25539567631050574), (50, 0.011281536265323773),
        (10000000000.0, 5.6418958354775629e-11)],
    "erfinv": [
        (-0.999, -2.3267537655135245), (-0.3, -0.27246271472675435),
        (1e-20, 8.8622692545275797e-21), (0.5, 0.47693627620446987),
        (0.9999999, 3.7665625816384709)],
    "ndtr": [
        (-37, 5.7255712225245768e-300), (-10.1, 2.7621094717645168e-24), (-1, 0.15865525393145705),
        (0.2, 0.57925970943910303), (3, 0.99865010196836991)],
    "ndtri": [
        (1e-300, -37.047096299361199), (1e-10, -6.3613409024040562), (0.025, -1.9599639845400542),
        (0.5000001, 2.5066282733116483e-7), (0.75, 0.67448975019608174)],
    "log_ndtr": [
        (-1000, -500007.82669481218), (-40.5, -824.74584924403802), (-1, -1.8410216450092635),
        (0.5, -0.36894641528865639), (6, -9.8658764552437573e-10)],
    "lgamma": [
        (1e-300, 690.77552789821371), (0.2, 1.5240638224307845),
        (1.000001, -5.7721484238741467e-7), (1.999, -0.00042246180069210728),
        (3.5, 1.2009736023470742), (8, 8.5251613610654143), (1000000000.0, 19723265827.503717),
        (-0.5, 1.2655121234846454), (-3.3, -0.82435580501742646)],
    "digamma": [
        (1e-05, -100000.57719921567), (0.5, -1.9635100260214235), (1, -0.57721566490153286),
        (4.2, 1.3113388912865996), (1000000.0, 13.815510057964191), (-1.4, 1.6736665003925248)],
    "i0": [
        (0, 1.0), (0.5, 1.0634833707413235), (-7, 168.5939085102897), (19.9, 39513376.520066824),
        (20.1, 48017874.107136503), (700, 1.5295933476718737e302)],
    "i0e": [
        (0.5, 0.64503527044915007), (19.9, 0.090008588864389597),
        (1000000.0, 0.00039894233026924578)],
    "i1": [
        (-1e-05, -5.0000000000625004e-6), (0.5, 0.25789430539089632), (-7, -156.03909286995545),
        (20.1, 46807739.533029883), (700, 1.5285003902339007e302)],
    "i1e": [
        (0.5, 0.1564208031848717), (-19.9, -0.087717102131706101),
        (1000000.0, 0.00039894213079803078)],
    "sinc": [
        (1e-08, 0.99999999999999984), (0.3, 0.85839369133413979), (0.999, 0.001000999354421167),
        (-7.5, -0.042441318157838756)],
}
GAMMAINC = [
    (0.1, 0.001, 0.52676856839244511, 0.47323143160755489),
    (0.5, 1, 0.84270079294971487, 0.15729920705028513),
    (2.5, 0.7, 0.075686727198333053, 0.92431327280166695),
    (2.5, 9, 0.99705359541211971, 0.0029464045878802904),
    (15, 40, 0.99999802437675651, 1.9756232434910639e-6),
    (30, 29, 0.4508291147181239, 0.5491708852818761),
    (100, 80, 0.017108313035133114, 0.98289168696486689),
    (1000.0, 1010, 0.62767894473699473, 0.37232105526300527),
    (100000.0, 100000.0, 0.50042052211036518, 0.49957947788963482),
]
POLYGAMMA = [
    (1, 0.3, 12.245364546107731),
    (1, -0.7, 14.28618087263834),
    (2, 5, -0.048789732245114497),
    (3, -2.4, 283.52473518224108),
    (6, 1, -726.01147971498444),
]
ZETA = [
    (2, 1, 1.6449340668482264),
    (1.5, 0.1, 34.0529755150756),
    (30, 2, 9.3132743241966818e-10),
    (1.01, 50, 96.173157200320111),
]


def close(got: float, expected: float, relative: float) -> bool:
    return abs(got - expected) <= relative * abs(expected)


@pytest.mark.parametrize("name", TABLE)
def test_float64_is_exact_to_a_few_units(name: str) -> None:
    function = getattr(fw.special, name.replace("lgamma", "gammaln"))
    for x, expected in TABLE[name]:
        got = function(fw.tensor(x, dtype=fw.float64))
        assert got.dtype == fw.float64
        assert close(got.item(), expected, 4e-15), (x, got.item(), expected)


@pytest.mark.parametrize("name", TABLE)
def test_float32_is_rounded_once(name: str) -> None:
    function = getattr(fw.special, name.replace("lgamma", "gammaln"))
    at = np.array([0.25, 0.5, 0.75], np.float32)
    got, wide = (function(fw.tensor(at.astype(t))).numpy() for t in ("float32", "float64"))
    np.testing.assert_array_equal(got, wide.astype(np.float32))


@pytest.mark.parametrize(("a", "x", "lower", "upper"), GAMMAINC)
def test_incomplete_gamma(a: float, x: float, lower: float, upper: float) -> None:
    a, x = (fw.tensor(v, dtype=fw.float64) for v in (a, x))
    assert close(fw.special.gammainc(a, x).item(), lower, 2e-14)
    assert close(fw.special.gammaincc(a, x).item(), upper, 2e-14)


@pytest.mark.parametrize(("n", "x", "expected"), POLYGAMMA)
def test_polygamma(n: int, x: float, expected: float) -> None:
    assert close(fw.polygamma(n, fw.tensor(x, dtype=fw.float64)).item(), expected, 1e-14)


@pytest.mark.parametrize(("s", "q", "expected"), ZETA)
def test_zeta(s: float, q: float, expected: float) -> None:
    s, q = (fw.tensor(v, dtype=fw.float64) for v in (s, q))
    assert close(fw.special.zeta(s, q).item(), expected, 1e-14)


@pytest.mark.parametrize(("name", "at", "expected"), [
    ("erfc", [INF, -INF, NAN], [0, 2, NAN]),
    ("erfcx", [INF, -INF, NAN], [0, INF, NAN]),
    ("erfinv", [1, -1, 1.5, NAN, 0], [INF, -INF, NAN, NAN, 0]),
    ("ndtr", [INF, -INF, NAN], [1, 0, NAN]),
    ("ndtri", [0, 1, -0.1, 1.1, NAN], [-INF, INF, NAN, NAN, NAN]),
    ("log_ndtr", [INF, -INF, NAN], [0, -INF, NAN]),
    ("gammaln", [0, -1, INF, -INF, NAN, 1, 2], [INF, INF, INF, INF, NAN, 0, 0]),
    ("digamma", [0.0, -0.0, -1, INF, NAN], [-INF, INF, NAN, INF, NAN]),
    ("i0", [INF, -INF, NAN], [INF, INF, NAN]),
    ("i1", [INF, -INF, NAN, 0], [INF, -INF, NAN, 0]),
    ("i0e", [INF, 0, NAN], [0, 1, NAN]),
    ("sinc", [0, 1, -3, NAN], [1, 0, 0, NAN]),
    ("entr", [0, -1, 1, INF, NAN], [0, -INF, 0, -INF, NAN]),
    ("logit", [0, 1, 0.5, 2, NAN], [-INF, INF, 0, NAN, NAN]),
])
def test_corners(name: str, at: list[float], expected: list[float]) -> None:
    got = getattr(fw.special, name)(fw.tensor(at, dtype=fw.float64))
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize(("a", "x", "expected"), [
    (1, 0, 0), (0, 1, 1), (0, 0, NAN), (1, INF, 1), (INF, 1, 0), (INF, INF, NAN), (-1, 1, NAN),
    (1, -1, NAN), (NAN, 1, NAN), (1, NAN, NAN),
])
def test_corners_of_the_incomplete_gamma_function(a: float, x: float, expected: float) -> None:
    a, x = (fw.tensor(float(v), dtype=fw.float64) for v in (a, x))
    np.testing.assert_array_equal(fw.special.gammainc(a, x).item(), expected)
    np.testing.assert_array_equal(fw.special.gammaincc(a, x).item(), 1 - expected)


def test_zero_times_a_logarithm_is_zero() -> None:
    x, y = fw.tensor([0.0, 0.0, 2.0, 0.0]), fw.tensor([0.0, INF, 1.0, NAN])
    np.testing.assert_array_equal(fw.xlogy(x, y).numpy(), [0, 0, 0, NAN])
    np.testing.assert_array_equal(fw.special.xlog1py(x, y - 1).numpy(), [0, 0, 0, NAN])
    assert fw.xlogy(fw.tensor(2.0), 3).item() == pytest.approx(2 * math.log(3))


def test_logit_can_be_kept_finite() -> None:
    x = fw.tensor([0.0, 0.5, 1.0])
    assert fw.logit(x, 1e-3).tolist() == pytest.approx([math.log(1e-3 / 0.999), 0, -math.log(
        1e-3 / 0.999)], rel=1e-5)
    with pytest.raises(FusewireError, match=r"eps is from 0 to 0\.5"):
        fw.logit(x, 0.7)


def test_integers_are_taken_as_floats() -> None:
    assert fw.lgamma(fw.tensor([1, 5])).tolist() == pytest.approx([0, math.log(24)])
    assert fw.lgamma(fw.tensor([1, 5])).dtype == fw.float32


def test_multigammaln_is_a_product_of_gamma_functions() -> None:
    a = fw.tensor([3.0, 4.5], dtype=fw.float64)
    expected = math.log(math.pi) / 2 + fw.lgamma(a) + fw.lgamma(a - 0.5)
    np.testing.assert_allclose(fw.special.multigammaln(a, 2).numpy(), expected.numpy())
    with pytest.raises(FusewireError, match="multigammaln: p must be at least 1, got 0"):
        fw.special.multigammaln(a, 0)


def test_betaln() -> None:
    two, three = fw.tensor(2.0), fw.tensor(3.0)
    assert fw.special.betaln(two, three).item() == pytest.approx(math.log(1 / 12))


@pytest.mark.parametrize(("name", "at", "order", "expected"), [
    ("sinc", 0.0, 2, -math.pi ** 2 / 3), ("sinc", 0.0, 4, math.pi ** 4 / 5),
    ("i1", 0.0, 3, 3 / 8), ("i0", 0.0, 2, 0.5), ("erfinv", 0.0, 3, math.pi ** 1.5 / 4),
    ("digamma", 1.0, 2, -2.4041138063191886), ("gammaln", 1.0, 3, -2.4041138063191886),
])
def test_derivatives_of_any_order(name: str, at: float, order: int, expected: float) -> None:
    x = fw.tensor(at, dtype=fw.float64, requires_grad=True)
    y = getattr(fw.special, name)(x)
    for _ in range(order):
        (y,) = fw.grad(y, [x], create_graph=True)
    assert y.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("fn", [fw.special.xlogy, fw.special.xlog1py])
def test_a_number_adapts_to_the_dtype_of_the_tensor(fn: object) -> None:
    x = fw.ones(2)
    assert fn(x, 0.5).dtype == fn(0.5, x).dtype == fw.float32  # type: ignore[operator]
