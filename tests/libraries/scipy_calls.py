"""Calls of SciPy that the same array of NumPy and of fusewire can be given to.

A row is a function of `t`, which makes an array of the library from one of NumPy. Two functions are
left out: `sosfilt` asks for memory that it may write to, also of NumPy's arrays, and
`RBFInterpolator` calls NumPy's `view`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.cluster.hierarchy as hierarchy
import scipy.cluster.vq as vq
import scipy.differentiate
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.spatial
import scipy.spatial.distance
import scipy.special
import scipy.stats
from scipy.spatial.transform import Rotation

_random = np.random.default_rng(0)
X = _random.random((6, 8)) + 0.1
Y = _random.random((6, 8)) + 0.2
V = np.sort(_random.random(20))
W = _random.random(20)
IMAGE = _random.random((9, 9))
SQUARE = IMAGE[:4, :4] + 4 * np.eye(4)
POINTS = _random.random((12, 2))
SIGNAL = _random.random(64)
B, A = scipy.signal.butter(3, 0.2)

Row = Callable[[Callable[[Any], Any]], Any]


def of_one(function: Callable[..., Any]) -> Row:
    """The row of a function of single elements."""
    return lambda t: function(t(X / 2))


def of_rows(function: Callable[..., Any]) -> Row:
    """The row of a statistic along an axis."""
    return lambda t: function(t(X), axis=1)


SPECIAL: dict[str, Row] = {
    **{name: of_one(getattr(scipy.special, name)) for name in (
        "erf", "erfc", "expit", "gammaln", "i0", "i0e", "i1", "i1e", "log_ndtr", "logit", "ndtr",
        "ndtri", "entr", "exp1", "digamma")},
    "betainc": lambda t: scipy.special.betainc(t(X), t(Y), t(X / 2)),
    "gammainc": lambda t: scipy.special.gammainc(t(X), t(Y)),
    "gammaincc": lambda t: scipy.special.gammaincc(t(X), t(Y)),
    "rel_entr": lambda t: scipy.special.rel_entr(t(X), t(Y)),
    "xlogy": lambda t: scipy.special.xlogy(t(X), t(Y)),
    "zeta": lambda t: scipy.special.zeta(t(X + 1), t(Y)),
    "chdtr": lambda t: scipy.special.chdtr(t(X), t(Y)),
    "logsumexp": lambda t: scipy.special.logsumexp(t(X), axis=1),
    "softmax": lambda t: scipy.special.softmax(t(X), axis=0),
    "log_softmax": lambda t: scipy.special.log_softmax(t(X), axis=-1),
}

STATS: dict[str, Row] = {
    **{name: of_rows(getattr(scipy.stats, name)) for name in (
        "gmean", "hmean", "kurtosis", "moment", "sem", "skew", "tmean", "tvar", "variation",
        "zscore")},
    "pmean": lambda t: scipy.stats.pmean(t(X), 3.0, axis=1),
    "circmean": lambda t: scipy.stats.circmean(t(X), axis=1),
    "circstd": lambda t: scipy.stats.circstd(t(X), axis=1),
    "trim_mean": lambda t: scipy.stats.trim_mean(t(X), 0.2, axis=1),
    "describe": lambda t: tuple(scipy.stats.describe(t(X), axis=1))[2:],
    "ttest_1samp": lambda t: tuple(scipy.stats.ttest_1samp(t(X), 0.4, axis=1)),
    "ttest_ind": lambda t: tuple(scipy.stats.ttest_ind(t(X), t(Y), axis=1)),
    "ttest_rel": lambda t: tuple(scipy.stats.ttest_rel(t(X), t(Y), axis=1)),
    "pearsonr": lambda t: tuple(scipy.stats.pearsonr(t(V), t(W))),
    "chisquare": lambda t: tuple(scipy.stats.chisquare(t(X), axis=0)),
    "jarque_bera": lambda t: tuple(scipy.stats.jarque_bera(t(X), axis=1)),
    "skewtest": lambda t: tuple(scipy.stats.skewtest(t(X), axis=1)),
    "bartlett": lambda t: tuple(scipy.stats.bartlett(t(V), t(W))),
    "quantile": lambda t: scipy.stats.quantile(t(X), 0.3, axis=1),
}

FFT: dict[str, Row] = {
    "fft": lambda t: scipy.fft.fft(t(X)),
    "ifft": lambda t: scipy.fft.ifft(t(X)),
    "rfft": lambda t: scipy.fft.rfft(t(X), axis=0),
    "irfft": lambda t: scipy.fft.irfft(t(X)),
    "fft2": lambda t: scipy.fft.fft2(t(X)),
    "hfft": lambda t: scipy.fft.hfft(t(X)),
    "fftshift": lambda t: scipy.fft.fftshift(t(X)),
    "dct": lambda t: scipy.fft.dct(t(X)),
}

SIGNALS: dict[str, Row] = {
    "convolve": lambda t: scipy.signal.convolve(t(SIGNAL), t(W)),
    "fftconvolve": lambda t: scipy.signal.fftconvolve(t(SIGNAL), t(W), mode="same"),
    "correlate": lambda t: scipy.signal.correlate(t(SIGNAL), t(W), mode="valid"),
    "detrend": lambda t: scipy.signal.detrend(t(SIGNAL)),
    "hilbert": lambda t: scipy.signal.hilbert(t(SIGNAL)),
    "lfilter": lambda t: scipy.signal.lfilter(t(B), t(A), t(SIGNAL)),
    "savgol_filter": lambda t: scipy.signal.savgol_filter(t(SIGNAL), 7, 2),
    "resample": lambda t: scipy.signal.resample(t(SIGNAL), 40),
    "periodogram": lambda t: scipy.signal.periodogram(t(SIGNAL)),
    "welch": lambda t: scipy.signal.welch(t(SIGNAL), nperseg=16),
}

IMAGES: dict[str, Row] = {
    "gaussian_filter": lambda t: scipy.ndimage.gaussian_filter(t(IMAGE), 1.5),
    "median_filter": lambda t: scipy.ndimage.median_filter(t(IMAGE), 3),
    "sobel": lambda t: scipy.ndimage.sobel(t(IMAGE)),
    "zoom": lambda t: scipy.ndimage.zoom(t(IMAGE), 1.5),
    "rotate": lambda t: scipy.ndimage.rotate(t(IMAGE), 30.0, reshape=False),
    "label": lambda t: scipy.ndimage.label(t((IMAGE > 0.5).astype(int))),
}

CLUSTERS: dict[str, Row] = {
    "whiten": lambda t: vq.whiten(t(POINTS)),
    "vq": lambda t: vq.vq(t(POINTS), t(POINTS[:3])),
    "linkage": lambda t: hierarchy.linkage(t(POINTS)),
}

INTEGRALS: dict[str, Row] = {
    "trapezoid": lambda t: scipy.integrate.trapezoid(t(X), dx=0.1),
    "simpson": lambda t: scipy.integrate.simpson(t(X), dx=0.1),
    "cumulative_trapezoid": lambda t: scipy.integrate.cumulative_trapezoid(t(X), dx=0.1),
    "tanhsinh": lambda t: scipy.integrate.tanhsinh(lambda x: x**2, t(np.array(0.0)),
                                                   t(np.array(1.0))).integral,
    "derivative": lambda t: scipy.differentiate.derivative(lambda x: x**3, t(V)).df,
}

INTERPOLATIONS: dict[str, Row] = {
    "CubicSpline": lambda t: scipy.interpolate.CubicSpline(t(V), t(W))(t(V[1:5] + 1e-3)),
    "Akima1DInterpolator": lambda t:
        scipy.interpolate.Akima1DInterpolator(t(V), t(W))(t(V[1:5] + 1e-3)),
    "make_interp_spline": lambda t:
        scipy.interpolate.make_interp_spline(t(V), t(W), k=3)(t(V[1:5] + 1e-3)),
}

MATRICES: dict[str, Row] = {
    "det": lambda t: scipy.linalg.det(t(SQUARE)),
    "inv": lambda t: scipy.linalg.inv(t(SQUARE)),
    "solve": lambda t: scipy.linalg.solve(t(SQUARE), t(W[:4])),
    "svdvals": lambda t: scipy.linalg.svdvals(t(X)),
}

SPACE: dict[str, Row] = {
    "cdist": lambda t: scipy.spatial.distance.cdist(t(POINTS), t(POINTS[:4])),
    "pdist": lambda t: scipy.spatial.distance.pdist(t(POINTS)),
    "Rotation.from_euler": lambda t: Rotation.from_euler("xyz", t(POINTS[:1, [0, 1, 0]])).as_quat(),
    "Rotation.apply": lambda t: Rotation.from_quat(t(X[:, :4])).apply(t(X[:, 4:7])),
}

GROUPS = {"special": SPECIAL, "stats": STATS, "fft": FFT, "signal": SIGNALS, "ndimage": IMAGES,
          "cluster": CLUSTERS, "integrate": INTEGRALS, "interpolate": INTERPOLATIONS,
          "linalg": MATRICES, "spatial": SPACE}
CALLS = {f"{group}.{name}": call for group, calls in GROUPS.items() for name, call in calls.items()}
