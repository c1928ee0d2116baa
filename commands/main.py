"""Runs the `fusewire` command: collects its commands, parses the command line, runs one of them."""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import os
import pkgutil
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import fusewire as fw

from ..export.report.environment import version
from .support.command import Command
from .support.failures import error_result, message_of, status_of
from .support.screen import RED, Screen, painted

EXIT_CODES = {0: "done", 1: "failed", 2: "wrong usage", 130: "interrupted"}
_MAX_COLUMNS = 100  # of help


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: a key of EXIT_CODES."""
    options = parser().parse_args(arguments)
    if options.command is None:
        parser().print_help()
        return 2
    screen = Screen(options.json)
    path, sys.path[:] = list(sys.path), sys.path  # a user's file adds its folder
    try:
        with screen.redirected_stdout(), _short_warnings():
            result = commands()[options.command].run(options, screen)
        screen.show(result)
        return 0
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:
        _show(error, options.command, screen)
        return status_of(error)
    finally:
        sys.path[:] = path


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:
    """A context in which each warning is one line. Their source lines are in the command's code."""
    shown = warnings.formatwarning
    warnings.formatwarning = lambda message, *args, **kwargs: f"warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = shown


def _show(error: BaseException, command: str, screen: Screen) -> None:
    """Shows an error to people on standard error, and to programs in the JSON object."""
    text = message_of(error)
    lead = "" if text.startswith("Traceback") else f"fusewire {command}: "
    print(painted(lead + text, RED, sys.stderr), file=sys.stderr)
    screen.show(error_result(error))


@functools.cache
def commands() -> Mapping[str, Command]:
    """All commands by name: the COMMAND of each module beside this one."""
    package = __name__.rpartition(".")[0]
    names = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.ispkg]
    modules = {name: importlib.import_module(f"{package}.{name}") for name in names
               if f"{package}.{name}" != __name__}
    return {name: module.COMMAND for name, module in modules.items()}


def parser() -> argparse.ArgumentParser:
    """The parser of the command line, with its help."""
    root = argparse.ArgumentParser("fusewire", description=fw.__doc__, epilog=_epilog(),
                                   formatter_class=_Help)
    root.add_argument("--version", action="version", version=f"fusewire {version('fusewire')}")
    subparsers = root.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in commands().items():
        subparser = subparsers.add_parser(name, help=command.help, description=command.description,
                                          epilog=_examples(command), formatter_class=_Help)
        command.add_arguments(subparser)
        subparser.add_argument("--json", action="store_true",
                               help="show one JSON object on standard output, and nothing else "
                               "there")
    return root


def _epilog() -> str:
    codes = "\n".join(f"  {code:3}  {meaning}" for code, meaning in EXIT_CODES.items())
    return (f"exit status:\n{codes}\n\nNO_COLOR=1 turns colours off; output to a file or pipe has "
            "neither colours nor bars.\n`fusewire COMMAND --help` shows more, with examples.")


def _examples(command: Command) -> str:
    return "examples:\n" + "\n".join(f"  fusewire {line}\n      {meaning}"
                                     for line, meaning in command.examples.items())


class _Help(argparse.RawDescriptionHelpFormatter):
    """A formatter that fills descriptions and keeps the line breaks of examples."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30,
                         width=min(shutil.get_terminal_size().columns, _MAX_COLUMNS) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)
