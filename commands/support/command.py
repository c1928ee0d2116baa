"""What a command is: a module of the folder `commands` holds one as COMMAND."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .screen import Screen

Found = dict[str, Any]  # what --json shows: numbers, texts, lists and dictionaries


@dataclass(frozen=True)
class Command:
    """A command: what --help says of it, what it takes, and what it does.

    `run` tells people what it finds by the screen as it goes on, and returns all of it for --json.
    """

    help: str                    # one line, for the list of commands
    description: str             # a paragraph, for its own help
    examples: Mapping[str, str]  # what stands after `fusewire`, and what that does
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Screen], Found]


class Failed(Exception):
    """A command that could not do what was asked, or found what ought not to be."""

    status = 1

    def __init__(self, message: str, help: str = "", found: Found | None = None) -> None:
        super().__init__(message)
        self.message, self.help, self.found = message, help, found or {}

    def __str__(self) -> str:
        return f"{self.message}\n  help: {self.help}" if self.help else self.message


class WrongUsage(Failed):
    """Arguments of a command that make no sense together."""

    status = 2


def positive(text: str) -> int:
    """A number from 1 on, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value
