"""The `fusewire` command: finds what it can do, reads what is asked for, does it."""

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

from ..export.demo.environment import version
from .support.command import Command
from .support.failures import found_of, status_of, told
from .support.screen import RED, Screen, painted

EXIT_CODES = {0: "done", 1: "failed", 2: "wrong usage", 130: "interrupted"}
_WIDEST = 100  # columns of help


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: a key of EXIT_CODES."""
    options = parser().parse_args(arguments)
    if options.command is None:
        parser().print_help()
        return 2
    screen = Screen(options.json)
    path, sys.path[:] = list(sys.path), sys.path  # a user's file adds its folder
    try:
        with screen.kept_clean(), _short_warnings():
            found = commands()[options.command].run(options, screen)
        screen.show(found)
        return 0
    except BrokenPipeError:  # whoever read has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:
        _show(error, options.command, screen)
        return status_of(error)
    finally:
        sys.path[:] = path


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:
    """A context in which warnings are a line each: their places are in the command's own code."""
    shown = warnings.formatwarning
    warnings.formatwarning = lambda message, *args, **kwargs: f"warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = shown


def _show(error: BaseException, command: str, screen: Screen) -> None:
    """What went wrong: to people on standard error, to programs in the JSON object."""
    text = told(error)
    lead = "" if text.startswith("Traceback") else f"fusewire {command}: "
    print(painted(lead + text, RED, sys.stderr), file=sys.stderr)
    screen.show(found_of(error))


@functools.cache
def commands() -> Mapping[str, Command]:
    """All commands by name: every module beside this one that holds one."""
    package = __name__.rpartition(".")[0]
    found = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.ispkg]
    modules = {name: importlib.import_module(f"{package}.{name}") for name in found
               if f"{package}.{name}" != __name__}
    return {name: module.COMMAND for name, module in modules.items()}


def parser() -> argparse.ArgumentParser:
    """What reads the command line, with its help."""
    made = argparse.ArgumentParser("fusewire", description=fw.__doc__, epilog=_epilog(),
                                   formatter_class=_Help)
    made.add_argument("--version", action="version", version=f"fusewire {version('fusewire')}")
    below = made.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in commands().items():
        own = below.add_parser(name, help=command.help, description=command.description,
                               epilog=_examples(command), formatter_class=_Help)
        command.add_arguments(own)
        own.add_argument("--json", action="store_true",
                         help="show one JSON object on standard output, and nothing else there")
    return made


def _epilog() -> str:
    codes = "\n".join(f"  {code:3}  {meaning}" for code, meaning in EXIT_CODES.items())
    return (f"exit status:\n{codes}\n\nNO_COLOR=1 turns colours off; output to a file or pipe has "
            "neither colours nor bars.\n`fusewire COMMAND --help` shows more, with examples.")


def _examples(command: Command) -> str:
    return "examples:\n" + "\n".join(f"  fusewire {line}\n      {meaning}"
                                     for line, meaning in command.examples.items())


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with descriptions filled, and examples as they are written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30,
                         width=min(shutil.get_terminal_size().columns, _WIDEST) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)
