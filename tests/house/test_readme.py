"""The README's program runs and prints what it shows; its commands are those of .ci/run."""

from __future__ import annotations

import re

from house.pages import TEXTS, blocks
from house.repo import ROOT

README = TEXTS["README.md"]
COMMANDS = re.findall(r"^python3 -m venv \.venv && .*$", README, re.MULTILINE)


def test_the_program_is_short() -> None:
    program = next(blocks(README)).source.strip("\n")
    assert program.count("\n") < 25


def test_there_are_two_commands_to_copy() -> None:
    assert len(COMMANDS) == 2
    assert COMMANDS[0].endswith(".venv/bin/fusewire demo")


def test_ci_runs_the_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    install, test = COMMANDS[1].split(" && ")[1:]
    assert install.removeprefix(".venv/bin/python -m pip install ") in script
    assert script.rstrip().endswith(test.removeprefix(".venv/bin/python "))
