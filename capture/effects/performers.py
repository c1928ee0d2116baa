"""Defines what each kind of effect call does, in the traced call and in each replay."""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ...eager.errors import is_our_file
from ..scalars.symbolic_scalar import plain_value
from .effect_call import Performer
from .interception import RECORDERS

FAST_PATH_FILE = "<direct>"  # the file name of generated functions that replay calls
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING,
           "error": logging.ERROR, "critical": logging.CRITICAL}


class CallerSite(NamedTuple):
    """The frame to which a message belongs.

    `outside`: 0 for a frame of the traced function, else the number of the frame around the
    compiled function, which may differ from call to call.
    """

    outside: int
    filename: str
    line: int
    function: str
    variables: dict[str, Any]  # the globals

    @property
    def key(self) -> Any:
        """A key that is equal for equal sites."""
        return (self.outside,) if self.outside else (
            self.outside, self.filename, self.line, self.function, id(self.variables))

    def now(self) -> CallerSite:
        """The site in the call that runs now."""
        if not self.outside or RECORDERS.current is not None:
            return self
        return site_of(frame_outside(sys._getframe(1), self.outside), self.outside)


def site_of(frame: Any, outside: int) -> CallerSite:
    """The site of a frame."""
    return CallerSite(outside, frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name,
                      frame.f_globals)


def frame_outside(frame: Any, number: int) -> Any:
    """The frame of this number outside of fusewire, from a frame within; the outermost one if there
    are fewer."""
    while frame.f_back is not None and (is_our_file(frame.f_code.co_filename)
                                        or frame.f_code.co_filename == FAST_PATH_FILE):
        frame = frame.f_back
    for _ in range(number - 1):
        frame = frame.f_back or frame
    return frame


class Call(Performer):
    """A call of one function: `print`, or a method that writes to a stream.

    `find` returns the function in each call, since `sys.stdout` may be another stream. `stream`
    returns the stream.
    """

    def __init__(self, name: str, find: Callable[[], Callable[..., Any]], key: Any,
                 stream: Callable[[], Any]) -> None:
        self.name, self._find, self._key, self._stream = name, find, key, stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def runs_python(self) -> bool:
        write = getattr(plain_value(self._stream()), "write", None)
        return not isinstance(write, types.BuiltinFunctionType)

    def perform(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._find()(*args, **kwargs)


class Log(Performer):
    """A call of a method of a logger. Its level, its handlers and filters count in each call."""

    def __init__(self, logger: logging.Logger, method: str, site: CallerSite,
                 configures: bool) -> None:
        """`configures`: a root logger without handlers gets one, as for `logging.info`."""
        self.name = f"{'logging' if configures else 'Logger'}.{method}"
        self._logger, self._method, self._site = logger, method, site
        self._configures = configures
        self._key = id(logger), method, site.key, configures

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def perform(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        logger, site, rest = self._logger, self._site.now(), list(args)
        if self._configures and not logger.handlers:
            logging.basicConfig()
        level = rest.pop(0) if self._method == "log" else _LEVELS[self._method]
        if logger.isEnabledFor(level):
            message = rest.pop(0)
            logger.handle(logger.makeRecord(
                logger.name, level, site.filename, site.line, message, tuple(rest), None,
                site.function, kwargs.get("extra")))


class Warn(Performer):
    """A call of `warnings.warn`: its filters and its registry of warnings count in each call."""

    name = "warnings.warn"

    def __init__(self, category: type[Warning], site: CallerSite) -> None:
        self._category, self._site = category, site
        self._key = category, site.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Warn) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def perform(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = self._site.now()
        registry = site.variables.setdefault("__warningregistry__", {})
        warnings.warn_explicit(args[0], self._category, site.filename, site.line,
                               _module_of(site), registry)

    def raises(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        site = self._site.now()
        return any(action == "error" for action in _actions(args[0], self._category, site))


def _module_of(site: CallerSite) -> str:
    return str(site.variables.get("__name__") or "<string>")


def _actions(text: str, category: type[Warning], site: CallerSite) -> list[str]:
    """The action of the first filter that a warning matches."""
    for action, message, kind, module, line in warnings.filters:
        if _matches(message, text) and issubclass(category, kind) \
                and _matches(module, _module_of(site)) and line in (0, site.line):
            return [action]
    return [getattr(warnings, "defaultaction", "default")]


def _matches(pattern: Any, text: str) -> bool:
    if pattern is None or isinstance(pattern, str):
        return pattern is None or pattern == text
    return pattern.match(text) is not None
