"""The `fusewire` command: its exit codes, its help, its restraint with colours."""

from __future__ import annotations

import pytest

from fusewire.cli import _painted, main
from fusewire.eager.settings import KNOBS, settings
from house.repo import project


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"fusewire {project()['project']['version']}\n"


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "doctor" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["dem"], ["demo", "--epochs", "0"], ["demo", "--seed", "x"]])
def test_wrong_usage(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(wrong)
    assert stopped.value.code == 2


@pytest.mark.parametrize(("terminal", "no_color", "painted"), [
    (True, "", True), (True, "1", False), (False, "", False),
])
def test_colour_only_where_it_is_seen_and_wanted(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, no_color: str, painted: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\033[" in _painted("x", "1")) is painted


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = {line.partition(" ")[0] for line in lines}
    assert {"fusewire", "Python", "processor", "threads"} <= names
    assert ["self-test", "passed"] in map(str.split, lines)
    assert lines[-len(KNOBS):] == repr(settings).splitlines()[1:]
