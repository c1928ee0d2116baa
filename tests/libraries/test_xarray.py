"""xarray holds tensors and computes with them."""

from __future__ import annotations

import numpy as np
import pytest

import fusewire as fw

xr = pytest.importorskip("xarray", "2026.4")

VALUES = np.random.default_rng(0).random((4, 6))
VALUES[1, 2] = np.nan
FACTORS = xr.DataArray([1.0, 2.0], dims="degree", coords={"degree": [0, 1]})
WEIGHTS = xr.DataArray([1.0, 2.0, 3.0, 4.0], dims="a")

CALLS = {
    "mean": lambda d: d.mean(), "mean of an axis": lambda d: d.mean("a"),
    "std": lambda d: d.std("b"), "std with ddof": lambda d: d.std("b", ddof=1),
    "var": lambda d: d.var("b"), "sum": lambda d: d.sum("b"), "max": lambda d: d.max("b"),
    "min": lambda d: d.min(), "median": lambda d: d.median("b"), "count": lambda d: d.count("b"),
    "quantile": lambda d: d.quantile(0.3, "b"), "any": lambda d: (d > 0.9).any("b"),
    "groupby": lambda d: d.groupby("a").mean(), "groupby sum": lambda d: d.groupby("a").sum(),
    "rolling": lambda d: d.rolling(b=3).mean(),
    "rolling of two axes": lambda d: d.rolling(b=2, a=3, center=True).sum(),
    "coarsen": lambda d: d.coarsen(b=2).mean(), "shift": lambda d: d.shift(b=1),
    "roll": lambda d: d.roll(b=1), "pad": lambda d: d.pad(b=1, constant_values=2.0),
    "pad by pairs": lambda d: d.pad(b=2, constant_values={"b": (1.0, 2.0)}),
    "pad edge": lambda d: d.pad(b=1, mode="edge"), "diff": lambda d: d.diff("b"),
    "where": lambda d: d.where(d > 0.5), "where, else 0": lambda d: d.where(d > 0.5, 0.0),
    "concat": lambda d: xr.concat([d, d], dim="a"),
    "dot": lambda d: xr.dot(d.fillna(0.0), d.fillna(0.0), dim="b"),
    "apply_ufunc": lambda d: xr.apply_ufunc(np.exp, d), "round": lambda d: d.round(2),
    "clip": lambda d: d.clip(0.2, 0.8), "isel": lambda d: d.isel(a=[0, 2]),
    "transpose": lambda d: d.transpose("b", "a"), "stack": lambda d: d.stack(z=("a", "b")),
    "arithmetic": lambda d: (d + 1) * d / 2 - d**2, "isnull": lambda d: d.isnull(),
    "weighted": lambda d: d.fillna(0.0).weighted(WEIGHTS).mean("a"),
    "polyval": lambda d: xr.polyval(d, FACTORS), "dropna": lambda d: d.dropna("b"),
    "corr": lambda d: xr.corr(d.fillna(0.0), d.fillna(0.0) ** 2, dim="b"),
    "Dataset": lambda d: xr.Dataset({"v": d}).mean("b")["v"],
}


def labelled(values):
    """A DataArray with labels, of which two are equal."""
    return xr.DataArray(values, dims=("a", "b"), coords={"a": [0, 0, 1, 1]})


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", CALLS)
def test_the_values_are_those_of_numpy(name):
    expected, found = CALLS[name](labelled(VALUES)), CALLS[name](labelled(fw.asarray(VALUES)))
    assert isinstance(found.data, fw.Tensor)
    np.testing.assert_allclose(np.asarray(found.data), expected.data, rtol=1e-12)
