"""The repository's text knows no machine: no absolute home or work path, no package index."""

from __future__ import annotations

import re

from house.repo import ROOT, files

TEXT = {".py", ".md", ".toml", ".css", ".html", ".txt", ".json", ".yml", ".yaml", ".cfg", ".typed",
        ".svg", ""}
# Written in pieces, so that this file does not find itself.
FOLDERS = "|".join(["roo" "t", "wor" "k", "hom" "e", "Use" "rs"])
MACHINE = re.compile(rf"(?<![\w.\-}}/*])/(?:{FOLDERS})(?:/|\b(?![\w-]))")
INDEX = re.compile("|".join(["pypi" r"\.org", "python" "hosted", "--index" "-url",
                             "extra-index" "-url", "local" r"host:\d+/simple"]))


def matches(pattern: re.Pattern[str]) -> list[str]:
    """`file:line: text` of every match in the repository's text files."""
    return [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for path in files() if path.suffix in TEXT and path.name != "LICENSE"
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if pattern.search(line)]


def test_no_machine_path() -> None:
    assert matches(MACHINE) == []


def test_no_package_index() -> None:
    assert matches(INDEX) == []


def test_the_pattern_sees() -> None:
    seen = ["cd /" + "root/x", "path='/" + "work'", "/" + "home/me/code"]
    passed = ["a/" + "work/b", "x /" + "workers", "https://example.com/" + "root/", "../" + "work"]
    assert all(MACHINE.search(text) for text in seen)
    assert not any(MACHINE.search(text) for text in passed)
