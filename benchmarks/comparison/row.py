"""Times one computation in every library, interleaved, after a comparison of its values."""

from __future__ import annotations

import contextlib
import functools
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..peers import arrays_of
from ..run import error_of
from ..timing import interleaved

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]

_CALLS = 3  # of fusewire until weights are packed ahead of the calls
_PEERS_TOLERANCE = 1e-3


class WrongValues(AssertionError):
    """fusewire's results differ from the reference."""


@dataclass
class Row:
    """The seconds of a computation in each library: medians, and the fastest samples of all.

    On a machine that others use, the fastest samples are less disturbed."""

    family: str
    about: str
    fusewire: float
    peers: dict[str, float]
    error: float
    fastest: dict[str, float] = field(default_factory=dict)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> str:
        """The fastest peer, or an empty text."""
        return min(self.peers, key=self.peers.__getitem__, default="")

    @property
    def ratio_of_fastest(self) -> float:
        """The fastest sample of any peer beside that of fusewire."""
        return min(self.fastest[p] for p in self.peers) / self.fastest["fusewire"]

    @property
    def ratio(self) -> float:
        """The time of the best peer beside that of fusewire; nan without a peer."""
        return self.peers[self.best] / self.fusewire if self.peers else math.nan


def checked(call: Call, wanted: Sequence[Array], limit: float, about: str) -> float:
    """The largest error of some calls of fusewire, beside the largest element of a result.

    WrongValues if an error is larger than `limit`."""
    worst = 0.0
    for number in range(_CALLS):
        error = error_of(arrays_of(call()), [*wanted])
        worst = max(worst, error)
        if not error <= limit:
            raise WrongValues(f"{about}: call {number} differs by {error:.1e} of the largest "
                              f"element, more than {limit:.1e}")
    return worst


def agreeing(makers: dict[str, Callable[[], Call]], wanted: Sequence[Array]
             ) -> tuple[dict[str, Call], list[str]]:
    """The calls of peers whose first results agree with the reference, and notes about others."""
    calls, notes = dict[str, Call](), list[str]()
    for name, make in makers.items():
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                call = make()
                difference = error_of(arrays_of(call()), [*wanted])
        except Exception as failure:  # another library may raise anything
            notes.append(f"{name}: {type(failure).__name__}: {str(failure)[:100]!r}")
            continue
        if difference <= _PEERS_TOLERANCE:
            calls[name] = call
        else:
            notes.append(f"{name} differs by {difference:.1e}")
    return calls, notes


def timed(row: Row, call: functools.partial[Any], peers: dict[str, Call], rounds: int,
          budget: float) -> Row:
    """The row with times and kernels. `call.func` is the compiled function, `budget` the seconds
    that timing takes."""
    found = interleaved({"fusewire": call, **peers}, rounds, budget)
    times = {name: t.median for name, t in found.items()}
    row.fusewire, row.peers = times.pop("fusewire"), times
    row.fastest = {name: t.fastest for name, t in found.items()}
    row.kernels = call.func.kernels()
    return row
