"""Collects the special functions under PyTorch's names: `fw.special`."""

from __future__ import annotations

from ..ops.elementwise.pointwise import erf, exp2, expm1, log1p, sigmoid
from ..ops.reduction.softmax import log_softmax, logsumexp, softmax
from ..ops.special.bessel_k import (
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from ..ops.special.gamma import (
    betaln,
    digamma,
    gammainc,
    gammaincc,
    lgamma,
    multigammaln,
    polygamma,
    zeta,
)
from ..ops.special.special import (
    entr,
    erfc,
    erfcx,
    erfinv,
    i0,
    i0e,
    i1,
    i1e,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    sinc,
    xlog1py,
    xlogy,
)

expit, gammaln, psi = sigmoid, lgamma, digamma  # SciPy's names

__all__ = [
    "betaln", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1",
    "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e", "lgamma", "log1p", "log_ndtr",
    "log_softmax", "logit", "logsumexp", "modified_bessel_k0", "modified_bessel_k1",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "sigmoid", "sinc", "softmax", "spherical_bessel_j0", "xlog1py",
    "xlogy", "zeta",
]
