"""The functions of the namespace special."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from inputs import given, x
from parity.entry import Table

import fusewire as fw

TABLE = Table("special functions")
FACTOR = 50  # of the usual tolerance: both are approximations of many terms


def special(name: str, *inputs: Any, theirs: Any = None, ours: Any = None, kinds: str = "fh",
            loose: float = FACTOR, **how: Any) -> None:
    TABLE(f"special.{name}", *inputs, theirs=theirs or f"special.{name}", ours=ours, kinds=kinds,
          loose=loose, **how)


for name in "erf erfc erfcx i0 i0e i1 i1e ndtr log_ndtr expit sinc exp2 expm1".split():
    special(name, x(3, 4), also=[[given(0.5, -1.0, 5.0)]])
    special(name, given(0.0), label="at 0", differs={
        "grad grad": "torch's is nan"} if name == "sinc" else {})
for name in ("modified_bessel_k0", "modified_bessel_k1"):
    for scaled in ("", "scaled_"):
        special(scaled + name, x(3, 4, low=0.2, high=9), grad=False)
        special(scaled + name, given(0.0, -1.0, np.inf, np.nan), label="special", grad=False)
special("spherical_bessel_j0", x(3, 4), also=[[given(0.0, 0.4, -30.0)]], grad=False)
special("sigmoid", x(3, 4), theirs="special.expit")
for name in "digamma gammaln psi lgamma".split():
    special(name, x(3, 4, low=0.2, high=6), theirs={"lgamma": "lgamma"}.get(name))
    special(name, given(-0.5, -1.3, -2.7, 30.0), label="negative",
            theirs={"lgamma": "lgamma"}.get(name))
special("log1p", x(3, 4, low=-0.5))
for name in ("erfinv", "logit", "ndtri"):
    low = -0.9 if name == "erfinv" else 0.1
    special(name, x(3, 4, low=low, high=0.9))
special("logit", given(0.0, 0.3, 0.5, 1.0), label="eps",
        differs={"grad grad": "torch's is nan outside of eps to 1 - eps, where logit is constant"},
        ours=lambda a: fw.special.logit(a, 0.1), theirs=lambda a: torch.special.logit(a, 0.1))
special("entr", x(3, 4, low=0.1))
for name in ("xlogy", "xlog1py"):
    special(name, x(3, 4, low=0.1), x(4, low=0.2))
    special(name, given(0.0, 0.0, 2.0), given(1.0, 2.0, 3.0), label="at 0")


def polygamma(n: int, a: Any) -> Any:
    """torch's, but for n = 1, where it has no more than nine digits in float64."""
    return torch.special.zeta(2.0, a) if n == 1 else torch.special.polygamma(n, a)


for n in (0, 1, 2, 3):
    special("polygamma", x(3, 4, low=0.5, high=5), label=f"n={n}",
            ours=lambda a, n=n: fw.special.polygamma(n, a),
            theirs=lambda a, n=n: polygamma(n, a))
special("multigammaln", x(3, 4, low=2, high=6), ours=lambda a: fw.special.multigammaln(a, 3),
        theirs=lambda a: torch.special.multigammaln(a, 3))
special("zeta", x(3, 4, low=1.5, high=5), x(3, 4, low=0.5), grad=False)
for name in ("gammainc", "gammaincc"):
    special(name, x(3, 4, low=0.5, high=5), x(3, 4, low=0.5, high=5), label="by x",
            ours=lambda a, b, n=name: getattr(fw.special, n)(a.detach(), b),
            theirs=lambda a, b, n=name: getattr(torch.special, n)(a.detach(), b))
special("betaln", x(3, 4, low=0.5), x(3, 4, low=0.5),
        theirs=lambda a, b: torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b))
special("logsumexp", x(2, 3), ours=lambda a: fw.special.logsumexp(a, 1),
        theirs=lambda a: torch.logsumexp(a, 1))
for name in ("softmax", "log_softmax"):
    special(name, x(2, 3), ours=lambda a, n=name: getattr(fw.special, n)(a, 1),
            theirs=lambda a, n=name: getattr(torch.special, n)(a, 1))
for name in "erfc erfinv lgamma digamma sinc logit erfcx i0 entr xlogy".split():
    TABLE(name, *[x(3, 4, low=0.1, high=0.9)] * (2 if name == "xlogy" else 1), loose=FACTOR,
          theirs=f"special.{name}" if name in ("erfcx", "entr") else name)
TABLE("polygamma", x(3, 4, low=0.5), loose=FACTOR, ours=lambda a: fw.polygamma(1, a),
      theirs=lambda a: polygamma(1, a))
