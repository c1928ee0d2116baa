"""Hides fusewire's own frames from tracebacks: users see their frames and the message.

Python shows an error that nobody catches without these frames. Compiled functions, modules and
exporters leave them out of the errors that they raise, so that logged tracebacks are short, too.
With the setting `debug` above 0, all frames are shown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import ParamSpec, TypeVar

from .errors import FusewireError, is_the_users
from .settings import settings

_Error = TypeVar("_Error", bound=BaseException)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

NOTE = "  frames inside of fusewire are hidden; FUSEWIRE_DEBUG=1 shows them"


def without_inner_frames(error: _Error) -> _Error:
    """`error` itself; its traceback, and those of its causes, lose the frames of fusewire."""
    if not settings.debug:
        for one in _chain(error):
            one.__traceback__ = _shown(one)
    return error


def has_inner_frames(error: BaseException) -> bool:
    """True if `without_inner_frames` would hide frames of an error."""
    return not settings.debug and any(_shown(one) is not one.__traceback__ for one in _chain(error))


def hides_inner_frames(
    function: Callable[_Arguments, _Result]
) -> Callable[_Arguments, _Result]:
    """A function that raises the errors of `function` without fusewire's frames."""
    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise without_inner_frames(error)  # noqa: B904 it is the same
    return call


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, its cause or the error that was handled when it was raised, and so on."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _shown(error: BaseException) -> TracebackType | None:
    """The traceback of an error without fusewire's frames.

    The frames below the innermost one of a user stay if the error is Python's own, since it may be
    a bug of fusewire.
    """
    entries = []
    trace = error.__traceback__
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    users = [i for i, t in enumerate(entries) if is_the_users(t.tb_frame.f_code.co_filename)]
    if not isinstance(error, FusewireError):
        users += range(users[-1] + 1 if users else 0, len(entries))
    if len(users) == len(entries):
        return error.__traceback__
    shown: TracebackType | None = None
    for i in reversed(users):
        entry = entries[i]
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown
