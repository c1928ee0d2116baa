"""Lists the functions with effects, and what a replay does for a call of each of them."""

from __future__ import annotations

import builtins
import functools
import logging
import sys
import time
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ..scalars.symbolic_scalar import plain_value
from .arguments import Unsupported
from .effect_call import Performer
from .interception import InterceptedFunction, InterceptedStream
from .performers import Call, CallerSite, Log, Warn

_LOG_METHODS = ("debug", "info", "warning", "error", "critical", "log")
_LOG_FUNCTIONS = ("debug", "info", "warning", "error", "critical")
_CONFIGURES = ((logging.Logger, ("setLevel", "addHandler", "removeHandler")),
               (logging.Handler, ("setLevel", "setFormatter")),
               (logging.Filterer, ("addFilter", "removeFilter")),
               (logging, ("disable", "basicConfig", "setLoggerClass", "setLogRecordFactory")))
_CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
           "process_time", "process_time_ns", "thread_time", "thread_time_ns")
_WRITES = ("write", "writelines", "flush")
PRINT = builtins.print


class Described(NamedTuple):
    """An effect call: its function, its arguments, and an object that it changes."""

    performer: Performer
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Any = None


class CallContext(NamedTuple):
    """What a rule may know about a traced call."""

    stdout: Any  # the stream at the start of the call
    filters: list[Any]  # those of `warnings` at the start of the call
    site: Callable[[int], CallerSite]  # of the n-th frame around the function that is called


class Effect(NamedTuple):
    """The rule of a function with an effect."""

    describe: Callable[[CallContext, Any, tuple[Any, ...], dict[str, Any]], Described]
    with_text: bool = False  # objects are passed as the texts that they show
    tells_site: bool = False  # the message tells the line of the call, by `stacklevel`


class Clock(NamedTuple):
    """The rule of a function that reads a clock."""


class Lookup(NamedTuple):
    """The rule of a function that returns the same object for the same plain arguments."""


class Refused(NamedTuple):
    """The rule of a function that changes what effects depend on."""

    why: str


def _print(at: CallContext, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
           ) -> Described:
    kwargs = dict(kwargs)
    file = kwargs.pop("file", None)
    file = sys.__dict__["stdout"] if file is None else file
    if issubclass(type(file), InterceptedStream):
        return Described(_print_call(_stream_of_sys(file.stream_name), file.stream_name), args,
                         kwargs)
    return Described(_print_call(lambda: file, id(file)), args, kwargs, file)


def _print_call(stream: Callable[[], Any], key: Any) -> Call:
    return Call("print", lambda: functools.partial(PRINT, file=stream()), ("print", key), stream)


def _stream_of_sys(name: str) -> Callable[[], Any]:
    return lambda: plain_value(getattr(sys, name))


def stand_in_of_stream(stream: Any, name: str) -> InterceptedStream:
    """The stand-in of the output stream of this name in `sys`."""
    return InterceptedStream(stream, name, {
        method: InterceptedFunction(getattr(stream, method), _write(name, method), True)
        for method in _WRITES if hasattr(stream, method)})


def _write(name: str, method: str) -> Effect:
    """The rule of a method of an output stream."""
    def describe(at: CallContext, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
                 ) -> Described:
        stream = _stream_of_sys(name)
        if not issubclass(type(getattr(sys, name)), InterceptedStream):
            raise Unsupported(f"sys.{name} changes in the call")
        return Described(Call(f"sys.{name}.{method}", lambda: getattr(stream(), method),
                              (name, method), stream), args, kwargs)

    return Effect(describe)


def _logged(at: CallContext, method: str, logger: Any, args: tuple[Any, ...],
            kwargs: dict[str, Any], configures: bool) -> Described:
    kwargs = dict(kwargs)
    for name in ("exc_info", "stack_info"):
        if kwargs.pop(name, None):
            raise Unsupported(f"{name}= reads the running code")
    if any(getattr(type(logger), name) is not getattr(logging.Logger, name)
           for name in ("_log", "findCaller", "isEnabledFor", "makeRecord")):
        raise Unsupported(f"{type(logger).__name__} is a logger of its own kind")
    site = at.site(int(kwargs.pop("stacklevel", 1)))
    if "msg" in kwargs or kwargs.keys() - {"extra"}:
        raise Unsupported("its arguments are not known")
    return Described(Log(logger, method, site, configures), args, kwargs,
                     None if logger is logging.root else logger)


def _log_method(method: str) -> Effect:
    return Effect(lambda at, function, args, kwargs: _logged(
        at, method, args[0], args[1:], kwargs, False), tells_site=True)


def _log_function(method: str) -> Effect:
    return Effect(lambda at, function, args, kwargs: _logged(
        at, method, logging.getLogger(), args, kwargs, True), tells_site=True)


def _warn(at: CallContext, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
          ) -> Described:
    names = ("message", "category", "stacklevel", "source")
    given = dict(zip(names, args)) | kwargs
    if given.keys() - {*names} or given.get("source") is not None:
        raise Unsupported("its arguments are not known")
    if warnings.filters is not at.filters:
        raise Unsupported("the filters of warnings change in the call")
    message, category = given["message"], given.get("category") or UserWarning
    if isinstance(message, Warning):
        made_by_c = isinstance(type(message).__init__, types.WrapperDescriptorType)
        if not made_by_c or len(message.args) != 1:
            raise Unsupported(f"it warns by an object of class {type(message).__name__}")
        category, message = type(message), message.args[0]
    if not (isinstance(category, type) and issubclass(category, Warning)):
        raise Unsupported("its category is no class of warnings")
    site = at.site(max(int(given.get("stacklevel", 1)), 1))
    return Described(Warn(category, site), (message,), {})


def owners() -> list[tuple[Any, str]]:
    """The places of the functions, by owner and name."""
    return [(builtins, "print"), (warnings, "warn"), (logging, "getLogger"),
            *((logging.Logger, name) for name in _LOG_METHODS),
            *((logging, name) for name in _LOG_FUNCTIONS),
            *((owner, name) for owner, names in _CONFIGURES for name in names),
            *((time, name) for name in _CLOCKS if hasattr(time, name))]


def _rules() -> dict[int, tuple[Any, Any, bool]]:
    found: list[tuple[Any, Any, bool]] = [
        (PRINT, Effect(_print, with_text=True), True),
        (warnings.warn, Effect(_warn, tells_site=True), True),
        (logging.getLogger, Lookup(), False)]
    found += [(vars(logging.Logger)[name], _log_method(name), True) for name in _LOG_METHODS]
    found += [(vars(logging)[name], _log_function(name), True) for name in _LOG_FUNCTIONS]
    found += [(vars(owner)[name], Refused(f"{name}() changes how messages are logged"), False)
              for owner, names in _CONFIGURES for name in names]
    found += [(getattr(time, name), Clock(), False) for name in _CLOCKS if hasattr(time, name)]
    return {id(function): (function, rule, takes) for function, rule, takes in found}


RULES = _rules()
"""By id of a function: the function, its rule, and whether it takes messages."""
