"""The `fusewire` command as a whole: its help, its exit codes, its restraint, its errors."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fusewire.commands.main import EXIT_CODES, commands, main, parser
from fusewire.commands.support.command import Command
from fusewire.commands.support.screen import Screen, painted, plain
from house.repo import ROOT, project


def test_version(call: Any) -> None:
    assert call("--version") == (0, f"fusewire {project()['project']['version']}\n", "")


def test_no_command_shows_the_help(call: Any) -> None:
    done = call()
    assert done.status == 2
    assert all(f"\n    {name} " in done.out for name in commands())
    assert all(f"{code}  {meaning}\n" in done.out for code, meaning in EXIT_CODES.items())


def test_a_command_is_a_file() -> None:
    files = {p.stem for p in (ROOT / "commands").glob("*.py")} - {"__init__", "main"}
    assert files == commands().keys()


@pytest.mark.parametrize("name", commands())
def test_help_teaches(call: Any, name: str) -> None:
    status, out, _ = call(name, "--help")
    assert status == 0 and "--json" in out
    for line in commands()[name].examples:
        assert f"fusewire {line}\n" in out and line.split()[0] == name


@pytest.mark.parametrize("name", commands())
def test_examples_can_be_typed(name: str) -> None:
    for line in commands()[name].examples:
        assert parser().parse_args(line.split()).command == name


@pytest.mark.parametrize("wrong", [
    ["dem"], ["demo", "--epochs", "0"], ["demo", "--seed", "x"], ["run"], ["bench", "nothing"],
    ["export", "a.py:f"], ["export", "a.py:f", "--out", "x", "--input", "x=float33[3]"],
    ["explain", "a.py:f", "--input", "x"], ["explain", "a.py:f", "--dynamic", "x:batch"],
])
def test_wrong_usage(call: Any, wrong: list[str]) -> None:
    done = call(*wrong)
    assert done.status == 2 and done.out == "" and "usage: fusewire" in done.err


@pytest.mark.parametrize(("terminal", "no_color", "colour"), [
    (True, "", True), (True, "1", False), (False, "", False),
])
def test_colour_only_where_it_is_seen_and_wanted(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, no_color: str, colour: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\033[" in painted("x", "1")) is colour


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_only_where_somebody_watches(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    assert list(Screen(json=False).bar(range(3), "calls")) == [0, 1, 2]
    assert ("calls" in stream.getvalue()) is terminal


def test_what_is_no_number_is_still_json() -> None:
    found = {"a": float("nan"), "b": [float("inf"), 1.5], "c": (Path("x"), None, True)}
    assert plain(found) == {"a": "nan", "b": ["inf", 1.5], "c": ["x", None, True]}


def test_interrupted(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("fusewire.commands.main.commands", lambda: {
        "cache": Command("", "", {}, lambda parser: None, interrupt)})
    assert call("cache") == (130, "", "fusewire cache: interrupted\n")


# ---- errors, each with what a user is told
ERRORS = [
    ("nett.py:Net", "there is no file nett.py\n  help: in that folder there is net.py"),
    ("net.py", "'net.py' names no function\n"
               "  help: write file.py:name; the names are Net, Sized, made, "),
    ("net.py:Nett", "net.py has no 'Nett'\n  help: did you mean Net?"),
    ("net.py:model.heat", "Net of net.py has no 'heat'\n  help: did you mean head?"),
    ("net.py:number", "net.py:number is of type int, not a function or module"),
    ("net.py:Sized", "net.py:Sized is a class whose constructor takes arguments\n  help: name "),
    ("net.py:product", "product takes x, y: x, y missing\n  help: describe it, as in --input"),
    ("bad.py:f", '  File "{folder}/bad.py", line 2\n    def f(x:\n'),
    ("ends.py:f", "ends.py exits with 3 when it is imported"),
]


@pytest.mark.parametrize(("target", "says"), ERRORS)
def test_what_cannot_be_found(call: Any, net: Path, target: str, says: str) -> None:
    (net.parent / "bad.py").write_text("import math\ndef f(x:\n    pass\n")
    (net.parent / "ends.py").write_text("raise SystemExit(3)")
    done = call("explain", target)
    assert done.status in (1, 2) and done.out == ""
    assert done.err.startswith(f"fusewire explain: {says.format(folder=net.parent)}")


def test_errors_of_the_user_show_the_lines_of_the_user(call: Any, net: Path) -> None:
    done = call("explain", "net.py:broken", "--input", "x=float32[3]")
    lines = [line for line in done.err.splitlines() if line.startswith("  File")]
    assert done.status == 1 and done.err.endswith("ValueError: no (3,) here\n")
    assert [line.split(", ")[2] for line in lines] == ["in broken", "in inner"]
    assert all(str(net) in line for line in lines)


def test_errors_of_ours_name_the_line_of_the_user(call: Any, net: Path) -> None:
    done = call("explain", "net.py:bends", "--input", "x=float32[3]")
    assert done.status == 1 and "matmul: inner sizes differ" in done.err
    assert f"\n  at: {net}:" in done.err and ", in bends\n" in done.err


def test_errors_as_json(call: Any, net: Path) -> None:
    done = call("explain", "net.py:bends", "--input", "x=float32[3]", "--json")
    error = done.json["error"]
    assert done.status == 1 and error["kind"] == "ShapeError"
    assert error["message"].startswith("matmul: inner sizes") and str(net) in error["line"]


def test_json_is_all_there_is_on_standard_output(net: Path) -> None:
    """Also where the user's function prints; warnings are short, and on standard error."""
    command = [sys.executable, "-m", "fusewire", "explain", "net.py:talks", "--input", "float32[3]"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["fallbacks"] == 9
    assert "a line of the user's\n" in done.stderr
    told = "talks: graph break, its operations run as separate compiled subgraphs: net.py:"
    assert f"\nwarning: {told}" in "\n" + done.stderr


def test_nothing_is_left_behind(net: Path, call: Any) -> None:
    before = list(sys.path)
    assert call("explain", "net.py:Net", "--input", "x=float32[2,4]").status == 0
    assert sys.path == before


def test_main_takes_the_arguments_of_the_process(monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["fusewire", "cache", "--json"])
    assert main() == 0 and "folder" in json.loads(capsys.readouterr().out)
