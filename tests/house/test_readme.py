"""The README is short, its program too, and its set-up has two lines. `run` tests the program."""

from __future__ import annotations

import re

from fusewire.benchmarks.workloads import WORKLOADS
from house.pages import PAGES, TEXTS, blocks
from house.repo import ROOT

README = TEXTS["README.md"]
MOST_LINES = 120


def test_it_is_short() -> None:
    assert README.count("\n") <= MOST_LINES
    assert next(blocks(README)).source.strip("\n").count("\n") < 25


def test_the_set_up_has_two_lines() -> None:
    lines = re.search(r"## Set-up\n\n```\n(.*?)\n```", README, re.DOTALL)
    assert lines is not None
    install, demo = lines[1].split("\n")
    assert install.endswith("pip install -e .") and demo == ".venv/bin/fusewire demo"


def test_its_pictures_are_small() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", README)
    assert pictures and all((ROOT / name).stat().st_size < 150_000 for name in pictures)


def test_every_row_of_its_tables_names_a_benchmark() -> None:
    names = re.findall(r"^\|[^|]+\| `(\w+)` \| [\d.]+ [mu]s ", README, re.MULTILINE)
    assert len(names) > 10
    assert set(names) - set(WORKLOADS) == set()


def test_ci_runs_the_command_for_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = re.search(r"`\.venv/bin/python (-m pytest -n auto[^`]*)`", TEXTS["CONTRIBUTING.md"])
    assert command is not None and script.rstrip().endswith(command[1])


def test_every_page_of_users_is_short_enough_to_read() -> None:
    users = [n for n in PAGES if n.startswith(("docs/tutorials", "docs/explanation"))]
    assert [name for name in users if len(TEXTS[name].split()) > 2500] == []
