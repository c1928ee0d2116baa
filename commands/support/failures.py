"""Formats errors for users: messages, and tracebacks of their own code only."""

from __future__ import annotations

import functools
import traceback
from pathlib import Path

from ...eager.errors import FusewireError, is_our_file
from ...eager.front.advice import advise
from .command import Failed, Result

INTERRUPTED = 130  # the exit status after Ctrl-C
_HERE = str(Path(__file__).parents[1])
_IMPORT_MACHINERY = ("<frozen importlib", "<frozen runpy")


def status_of(error: BaseException) -> int:
    """The exit status of an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return error.status if isinstance(error, Failed) else 1


def error_result(error: BaseException) -> Result:
    """The JSON object of an error, with the results before it."""
    message = getattr(error, "message", "") or str(error)
    fields = {"kind": type(error).__name__, "message": message, "help": getattr(error, "help", ""),
              "line": _line(error) if isinstance(error, FusewireError) else ""}
    return {**(error.result if isinstance(error, Failed) else {}), "error": fields}


@functools.singledispatch
def message_of(error: BaseException) -> str:
    """The message of an error; for one in the user's code, its traceback without our frames."""
    advise(error)
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not _is_inner(f.filename)]
    lines = traceback.format_list(users or frames)
    return "".join(["Traceback (most recent call last):\n", *lines,
                    *traceback.format_exception_only(type(error), error)]).rstrip()


@message_of.register
def _failed_message(error: Failed) -> str:
    return str(error)


@message_of.register
def _fusewire_message(error: FusewireError) -> str:
    error.line = _line(error)
    return str(error)


@message_of.register
def _file_message(error: OSError) -> str:
    if error.filename is None or not error.strerror:
        return message_of.dispatch(BaseException)(error)
    return f"{error.filename}: {error.strerror}"


@message_of.register
def _syntax_message(error: SyntaxError) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).rstrip()


@message_of.register
def _interrupt_message(error: KeyboardInterrupt) -> str:
    return "interrupted"


def _line(error: FusewireError) -> str:
    """The user's line that raised an error, or "" if the command itself raised it."""
    return "" if error.line.startswith((_HERE, *_IMPORT_MACHINERY)) else error.line


def _is_inner(file: str) -> bool:
    """True for files that tracebacks leave out: those of this package and of Python's imports."""
    return is_our_file(file) or file.startswith((_HERE, *_IMPORT_MACHINERY))
