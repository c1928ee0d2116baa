"""Chooses by measured time whether a function with graph breaks runs eagerly or as subgraphs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ...eager.core.tensor import Tensor

WARM_UP = 8  # calls as subgraphs before the first trial: compilation, caches of the processor
# Calls with new subgraphs before the first trial. A function that makes other subgraphs in most
# calls never settles, and a trial has to tell that its subgraphs do not pay.
WARM_UP_UNSETTLED = 12
_CALLS_PER_MODE = 3  # in a trial, in turn; the fastest call of each mode counts
_FIRST_INTERVAL, _LONGEST_INTERVAL = 64, 4096  # calls between trials; it doubles


class ModeChoice:
    """The mode of calls whose arguments have about the same size.

    Deferring an op costs some microseconds of Python. Compiled subgraphs of small tensors save
    less. No constant says how small they are: that depends on the machine and on the function. So
    a trial compares both modes, and trials repeat at growing intervals.
    """

    def __init__(self) -> None:
        self._calls_left, self._interval = WARM_UP, _FIRST_INTERVAL
        self._unsettled_left = WARM_UP_UNSETTLED
        self._trial: list[bool] = []  # the modes of the calls of a trial that are left
        self._seconds = {True: math.inf, False: math.inf}  # the fastest call of a trial, by mode
        self.is_eager = False  # the present mode

    def next_mode(self) -> bool:
        """True if the next call runs eagerly."""
        if self._trial:
            return self._trial[-1]
        return self.is_eager

    def note(self, seconds: float, settled: bool = True) -> None:
        """Notes the time of a call in the mode that `next_mode` returned. `settled`: False if the
        call met new subgraphs."""
        if not settled and self._unsettled_left:
            self._unsettled_left -= 1
            if self._unsettled_left:
                return
            self._calls_left = 0
        if self._trial:
            mode = self._trial.pop()
            self._seconds[mode] = min(self._seconds[mode], seconds)
            if not self._trial:
                self._end_trial()
        else:
            self._calls_left -= 1
            if self._calls_left <= 0:
                self._trial = [True, False] * _CALLS_PER_MODE
                self._seconds = {True: math.inf, False: math.inf}

    def take_eager_calls(self, most: int) -> int:
        """Takes calls, at most so many, that run eagerly without being noted: none if the mode is
        another one, or is to be tried again."""
        taken = 0 if self._trial or not self.is_eager else min(most, self._calls_left - 1)
        self._calls_left -= taken
        return taken

    def _end_trial(self) -> None:
        self.is_eager = self._seconds[True] < self._seconds[False]
        self._calls_left = self._interval
        self._interval = min(2 * self._interval, _LONGEST_INTERVAL)


class ModeChoices:
    """The choices of one function, by the size of the arguments."""

    def __init__(self) -> None:
        self._by_size: defaultdict[int, ModeChoice] = defaultdict(ModeChoice)

    def of(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> ModeChoice:
        """The choice for arguments of this size: its binary logarithm, rounded down."""
        size = 0
        for x in (*args, *kwargs.values()):
            if isinstance(x, Tensor):
                size += x._data.size
        return self._by_size[size.bit_length()]

    def take_eager_calls(self, most: int) -> int:
        """Takes calls of any arguments that run eagerly: none unless all arguments so far were of
        about one size, since others may choose the other mode."""
        if len(self._by_size) != 1:
            return 0
        choice, = self._by_size.values()
        return choice.take_eager_calls(most)
