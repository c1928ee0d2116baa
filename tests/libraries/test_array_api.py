"""array-api-compat and array-api-extra take tensors as arrays of the standard."""

from __future__ import annotations

import numpy as np
import pytest

import fusewire as fw

compat = pytest.importorskip("array_api_compat")
xpx = pytest.importorskip("array_api_extra")

X = np.random.default_rng(0).random((3, 4))
SPARSE = np.array([3.0, 0.0, 1.0, 3.0, np.nan])

CALLS = {
    "apply_where": lambda t: xpx.apply_where(t(X) > 0.5, t(X), np.negative, fill_value=0.0),
    "argpartition": lambda t: xpx.partition(t(X), 2)[:, 2],
    "at set": lambda t: xpx.at(t(X), 1).set(0.0),
    "at add": lambda t: xpx.at(t(X))[0, :].add(2.0),
    "atleast_nd": lambda t: xpx.atleast_nd(t(X), ndim=4),
    "cov": lambda t: xpx.cov(t(X)),
    "create_diagonal": lambda t: xpx.create_diagonal(t(X[0])),
    "expand_dims": lambda t: xpx.expand_dims(t(X), axis=(0, 2)),
    "isclose": lambda t: xpx.isclose(t(X), t(X + 1e-9)),
    "isin": lambda t: xpx.isin(t(np.arange(4)), t(np.array([1, 2]))),
    "kron": lambda t: xpx.kron(t(X), t(X)),
    "nan_to_num": lambda t: xpx.nan_to_num(t(SPARSE), fill_value=1.0),
    "nunique": lambda t: t(np.asarray(xpx.nunique(t(SPARSE[:4])))),
    "one_hot": lambda t: xpx.one_hot(t(np.array([0, 2])), 3),
    "pad": lambda t: xpx.pad(t(X), 1, constant_values=2.0),
    "partition": lambda t: xpx.partition(t(X[0]), 1)[1],
    "searchsorted": lambda t: xpx.searchsorted(t(np.sort(X[0])), t(X[1])),
    "setdiff1d": lambda t: xpx.setdiff1d(t(np.arange(5)), t(np.array([1, 3]))),
    "sinc": lambda t: xpx.sinc(t(X)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # names that the standard has by now
@pytest.mark.parametrize("name", [n for n in CALLS if hasattr(xpx, n.split()[0])])
def test_extra_functions_give_the_values_of_numpy(name):
    found = CALLS[name](fw.asarray)
    assert isinstance(found, fw.Tensor)
    np.testing.assert_allclose(np.asarray(found), CALLS[name](np.asarray))


def test_compat_knows_tensors():
    x = fw.ones(2, 3)
    assert compat.is_array_api_obj(x) and compat.array_namespace(x) is fw
    assert compat.device(x) == "cpu" and compat.size(x) == 6
    assert compat.to_device(x, "cpu").tolist() == x.tolist()
    assert compat.is_writeable_array(x) and not compat.is_lazy_array(x)
