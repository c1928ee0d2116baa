"""Checks the values of a program in every library, and times the libraries interleaved."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ..comparison.row import Row, agreeing, checked, timed
from ..peers import arrays_of
from ..run import error_of
from .callers import PEERS, fusewire_call, reference, torch_call
from .program import Array, Program

# the largest error beside the largest element of a result, and beside the error of torch
_TOLERANCE = {False: 5e-5, True: 1e-11}
_TIMES_TORCH = 20.0
_SECONDS = 2.0  # of timing, for each program


def checked_call(program: Program) -> tuple[functools.partial[Any], float, list[Array]]:
    """fusewire's call, the error of its results beside float64, and the results in float64.

    WrongValues if the error of any call is larger than the tolerance."""
    wanted, call = reference(program), fusewire_call(program)
    limit = max(_TOLERANCE[program.is_double],
                _TIMES_TORCH * error_of(arrays_of(torch_call(program)()), wanted))
    return call, checked(call, wanted, limit, f"{program.family}: {program.about}"), wanted


def measured(program: Program, peers: Sequence[str], rounds: int) -> Row:
    """The times of a program, nan without peers. Peers that cannot run it, or whose values differ,
    are noted."""
    call, error, wanted = checked_call(program)
    row = Row(program.family, program.about, math.nan, {}, error)
    if not peers:
        return row
    calls, row.notes = agreeing({p: functools.partial(PEERS[p], program) for p in peers}, wanted)
    return timed(row, call, calls, rounds, _SECONDS)
