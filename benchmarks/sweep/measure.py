"""Checks the values of a program in every library, and times the libraries interleaved."""

from __future__ import annotations

import contextlib
import functools
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..peers import arrays_of
from ..run import error_of
from ..timing import interleaved
from .callers import PEERS, fusewire_call, reference, torch_call
from .program import Array, Program

# the largest error beside the largest element of a result, and beside the error of torch
_TOLERANCE = {False: 5e-5, True: 1e-11}
_TIMES_TORCH = 20.0
_CALLS = 3  # of fusewire until weights are packed ahead of the calls
_SECONDS = 2.0  # of timing, for each program


class WrongValues(AssertionError):
    """fusewire's results differ from those of torch in float64."""


@dataclass
class Row:
    """The seconds of a program in each library: medians, and the fastest samples of all of them.

    On a machine that others use, the fastest samples are less disturbed."""

    program: Program
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


def checked_call(program: Program) -> tuple[functools.partial[Any], float, list[Array]]:
    """fusewire's call, the error of its results beside float64, and the results in float64.

    WrongValues if the error of any call is larger than the tolerance."""
    wanted, call, worst = reference(program), fusewire_call(program), 0.0
    limit = max(_TOLERANCE[program.is_double],
                _TIMES_TORCH * error_of(arrays_of(torch_call(program)()), wanted))
    for number in range(_CALLS):
        error = error_of(arrays_of(call()), wanted)
        worst = max(worst, error)
        if not error <= limit:
            raise WrongValues(f"{program.family}: {program.about}: call {number} differs by "
                              f"{error:.1e} of the largest element, more than {limit:.1e}")
    return call, worst, wanted


def measured(program: Program, peers: Sequence[str], rounds: int) -> Row:
    """The times of a program, nan without peers. Peers that cannot run it, or whose values differ,
    are noted."""
    call, error, wanted = checked_call(program)
    if not peers:
        return Row(program, math.nan, {}, error)
    calls, notes = {"fusewire": call}, list[str]()
    for name in peers:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                peer = PEERS[name](program)
                difference = error_of(arrays_of(peer()), wanted)
        except Exception as failure:  # another library may raise anything
            notes.append(f"{name}: {type(failure).__name__}: {str(failure)[:100]!r}")
            continue
        if difference <= 1e-3:
            calls[name] = peer
        else:
            notes.append(f"{name} differs by {difference:.1e}")
    found = interleaved(calls, rounds, _SECONDS)
    times = {n: t.median for n, t in found.items()}
    fastest, seconds = {n: t.fastest for n, t in found.items()}, times.pop("fusewire")
    return Row(program, seconds, times, error, fastest, call.func.kernels(), notes)
