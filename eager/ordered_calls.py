"""Performs ordered ops once a call: a call that starts again takes the results that it has had.

A replay of a compiled function may give up in the middle of a call, and Python runs the call from
its start. `check=` evaluates a graph several times. Other processes have taken part in the ordered
ops by then, and would not take part again. So a log of the call has their results, by `turn`: the
number of the ordered op in the call. Backward programs count down from -1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import Any

from .errors import CollectiveError


class _Log(threading.local):
    """The results of the ordered ops of the compiled call that this thread runs."""

    results: dict[int, tuple[Any, Any]] | None = None  # by number; None outside of compiled calls
    base = 0  # the number at which the innermost call began
    position = 0  # the number of the ordered op that Python issues next
    checked: dict[int, tuple[Any, Any]] | None = None  # of the backward program under `check=`


_LOG = _Log()


@contextmanager
def one_call() -> Iterator[None]:
    """A context for one compiled call, whose ordered ops happen once, however often it starts.
    A call inside of another one continues its log."""
    outermost, base = _LOG.results is None, _LOG.base
    if outermost:
        _LOG.results, _LOG.position = {}, 0
    _LOG.base = _LOG.position
    try:
        yield
    finally:
        _LOG.base = base
        if outermost:
            _LOG.results = None


def start_again() -> None:
    """Lets Python issue the ordered ops of the call from the first one."""
    _LOG.position = _LOG.base


def next_turn() -> int | None:
    """The number in its call of the ordered op that Python issues next; None outside of calls."""
    return None if _LOG.results is None else _LOG.position - _LOG.base


@contextmanager
def one_program() -> Iterator[None]:
    """A context for one run of a program that is evaluated several times to check it."""
    before, _LOG.checked = _LOG.checked, {}
    try:
        with nullcontext() if _LOG.results is not None else one_call():
            yield
    finally:
        _LOG.checked = before


def perform(run: Callable[[str, Any, Mapping[str, Any]], Any], kind: str, array: Any,
            params: Mapping[str, Any], turn: int | None) -> Any:
    """The result of run(kind, array, params), or the one that this call has had before.

    CollectiveError if the call issues another op at this position than before.
    """
    result = begin(run, kind, array, params, turn)
    return result.result() if isinstance(result, Future) else result


def begin(run: Callable[[str, Any, Mapping[str, Any]], Any], kind: str, array: Any,
          params: Mapping[str, Any], turn: int | None) -> Any:
    """As `perform`, for a `run` that returns a Future: the result may not be there yet."""
    log = _LOG.checked if turn is not None and turn < 0 else _LOG.results
    if log is None:
        return run(kind, array, params)
    number = turn if log is _LOG.checked and turn is not None else \
        _LOG.position if turn is None else _LOG.base + turn
    key = kind, array.shape, tuple(sorted(params.items()))
    if number not in log:
        log[number] = key, run(kind, array, params)
    before, result = log[number]
    if before != key:
        raise CollectiveError(
            f"this call ran again and issues, as its ordered operation number {number}, {key} "
            f"where it issued {before} before", "a function must issue the same collectives when "
            "it runs again on the same inputs")
    if log is _LOG.results:
        _LOG.position = max(_LOG.position, number + 1)
    return result
