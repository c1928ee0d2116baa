"""The README's program runs and prints what it shows; its commands are those of .ci/run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from house.repo import ROOT, shape_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAM, OUTPUT = re.findall(r"```python\n(.*?)```\s+```\n(.*?)```", README, re.DOTALL)[0]
COMMANDS = re.findall(r"^python3 -m venv \.venv && .*$", README, re.MULTILINE)


def test_the_program_prints_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "circle.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", "circle.py"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert (done.stderr, shape_of(done.stdout)) == ("", shape_of(OUTPUT))


def test_the_program_is_short() -> None:
    assert PROGRAM.count("\n") <= 25


def test_there_are_two_commands_to_copy() -> None:
    assert len(COMMANDS) == 2
    assert COMMANDS[0].endswith(".venv/bin/fusewire demo")


def test_ci_runs_the_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    install, test = COMMANDS[1].split(" && ")[1:]
    assert install.removeprefix(".venv/bin/python -m pip install ") in script
    assert script.rstrip().endswith(test.removeprefix(".venv/bin/python "))
