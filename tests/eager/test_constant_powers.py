"""Powers by constants are as accurate as documented, and right at 0, the infinities and nan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.ops.elementwise.constant_powers import _PRODUCTS

UNITS = 4  # in the last place
AS_ROOTS = (0.5, -0.5)  # like torch's and NumPy's, these are roots at -0 and -inf
ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -2.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", sorted(_PRODUCTS))
def test_powers(dtype: Any, exponent: float) -> None:
    limits = np.finfo(dtype)
    spread = np.log(limits.max) * 0.99
    x = np.exp(np.random.default_rng(0).uniform(-spread, spread, 50_000)).astype(dtype)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), np.longdouble(exponent))
    normal = (exact > limits.tiny) & (exact < limits.max)
    power = fw.compile(lambda t: t ** exponent)
    for function in (lambda t: t ** exponent, power, power):
        got = function(fw.from_numpy(x)).numpy()
        off = np.abs(got - exact)[normal] / np.spacing(exact[normal].astype(dtype))
        assert off.max() < UNITS
        assert not np.isnan(got).any()


@pytest.mark.parametrize("exponent", sorted({*_PRODUCTS}.difference(AS_ROOTS)))
def test_ends(exponent: float) -> None:
    x = np.array(ENDS, np.float32)
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), exponent)
    power = fw.compile(lambda t: t ** exponent)
    for function in (lambda t: t ** exponent, power, power):
        got = function(fw.from_numpy(x)).numpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
        assert (np.signbit(got) == np.signbit(wanted))[~np.isnan(wanted)].all()
