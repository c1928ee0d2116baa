"""Defines commands, their errors, and the type of their results."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .screen import Screen

Result = dict[str, Any]  # the JSON object: numbers, texts, lists and dictionaries


@dataclass(frozen=True)
class Command:
    """A command with its help and its arguments. A module of `commands` defines one as COMMAND.

    `run` shows results on the screen while it works, and returns all of them for --json.
    """

    help: str                    # one line, for the list of commands
    description: str             # a paragraph, for its own help
    examples: Mapping[str, str]  # command lines without `fusewire`, and their meaning
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Screen], Result]


class Failed(Exception):
    """A command could not finish, or a check of it failed."""

    status = 1

    def __init__(self, message: str, help: str = "", result: Result | None = None) -> None:
        super().__init__(message)
        self.message, self.help, self.result = message, help, result or {}

    def __str__(self) -> str:
        return f"{self.message}\n  help: {self.help}" if self.help else self.message


class WrongUsage(Failed):
    """The arguments of a command are invalid or contradict each other."""

    status = 2


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def with_folder(path: Path) -> Path:
    """The path of a file to write, whose folder exists now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
