"""What a command says when something went wrong: the user's part of it, and nothing else."""

from __future__ import annotations

import functools
import traceback
from pathlib import Path

from ...eager.errors import FusewireError, is_our_file
from ...eager.front.advice import advise
from .command import Failed, Found

INTERRUPTED = 130  # the exit status of what Ctrl-C ended
_HERE = str(Path(__file__).parents[1])
_PYTHONS_OWN = ("<frozen importlib", "<frozen runpy")


def status_of(error: BaseException) -> int:
    """The exit status that stands for an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return error.status if isinstance(error, Failed) else 1


def found_of(error: BaseException) -> Found:
    """An error for --json, with what had been found before it."""
    message = getattr(error, "message", "") or str(error)
    about = {"kind": type(error).__name__, "message": message, "help": getattr(error, "help", ""),
             "line": _line(error) if isinstance(error, FusewireError) else ""}
    return {**(error.found if isinstance(error, Failed) else {}), "error": about}


@functools.singledispatch
def told(error: BaseException) -> str:
    """An error in words: of a program of the user's by its traceback, from its first line on."""
    advise(error)
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not _is_inner(f.filename)]
    lines = traceback.format_list(users or frames)
    return "".join(["Traceback (most recent call last):\n", *lines,
                    *traceback.format_exception_only(type(error), error)]).rstrip()


@told.register
def _told(error: Failed) -> str:
    return str(error)


@told.register
def _told_of_ours(error: FusewireError) -> str:
    error.line = _line(error)
    return str(error)


@told.register
def _told_of_files(error: OSError) -> str:
    if error.filename is None or not error.strerror:
        return told.dispatch(BaseException)(error)
    return f"{error.filename}: {error.strerror}"


@told.register
def _told_of_syntax(error: SyntaxError) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).rstrip()


@told.register
def _told_of_interruption(error: KeyboardInterrupt) -> str:
    return "interrupted"


def _line(error: FusewireError) -> str:
    """The user's line that met an error: none where the command itself asked."""
    return "" if error.line.startswith((_HERE, *_PYTHONS_OWN)) else error.line


def _is_inner(file: str) -> bool:
    """Whether a file is of no use in a traceback: ours, or Python's machinery of imports."""
    return is_our_file(file) or file.startswith((_HERE, *_PYTHONS_OWN))
