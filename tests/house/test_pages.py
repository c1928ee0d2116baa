"""The Python on the pages of docs/ runs and prints the block below it, and links lead somewhere.
The pages for maintainers name files that exist, and the glossary has one row for each term."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from house import file_map
from house.pages import LINK, PAGES, TEXTS, WITH_BLOCKS, anchors, broken_links, run
from house.repo import ROOT, files, project

# A file or folder of the checkout, perhaps with `*`.
FOLDERS = ("benchmarks|capture|codegen|commands|data|distributed|docs|eager|examples|export"
           "|frontends|metrics|models|tests|training")
NAMED = re.compile(rf"(?<![\w./(-])(?:{FOLDERS}|\.ci)/[\w./*-]*[\w*]")
MOST_WORDS = 2500  # of the architecture page: it is read on the first day
MOST_FILES = 20    # of a folder of pages
FOR_MAINTAINERS = [name for name in PAGES if name.startswith("docs/internals/")
                   or name in ("CONTRIBUTING.md", "docs/glossary.md")]
ARCHITECTURE = TEXTS["docs/internals/architecture.md"]


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_blocks_print_what_they_show(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                     ) -> None:
    monkeypatch.chdir(tmp_path)
    for printed, shown in run(TEXTS[page], page):
        assert printed == shown


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith("docs/tutorials/")])
def test_a_tutorial_is_a_program(page: str) -> None:
    assert page in WITH_BLOCKS or page.endswith(("index.md", "examples.md"))


def test_folders_of_pages_are_small() -> None:
    folders = {page.parent for page in PAGES.values()} - {ROOT}
    counts = {folder.name: len(list(folder.glob("*.*"))) for folder in folders}
    assert {name: n for name, n in counts.items() if n > MOST_FILES} == {}


def test_the_architecture_page_names_every_package() -> None:
    packages = {str(path.parent.relative_to(ROOT)) for path in files()
                if path.name == "__init__.py" and path.parent.parent != ROOT.parent}
    staged = {p for p in packages if p.startswith(("capture/", "codegen/"))}
    assert {p for p in staged if f"`{p}`" not in ARCHITECTURE} == set()


def test_the_architecture_page_leads_to_every_page_on_internals() -> None:
    pages = {page.name for page in (ROOT / "docs/internals").iterdir()} - {"architecture.md"}
    assert pages - {target for target, _ in LINK.findall(ARCHITECTURE)} == set()


def test_the_architecture_page_is_short() -> None:
    assert len(ARCHITECTURE.split()) <= MOST_WORDS


@pytest.mark.parametrize("name", FOR_MAINTAINERS)
def test_every_file_that_a_page_names_exists(name: str) -> None:
    assert missing_in(PAGES[name].read_text(encoding="utf-8")) == set()


def missing_in(text: str) -> set[str]:
    """The files and folders that `text` names and the checkout lacks."""
    return {path for path in NAMED.findall(text) if not any(ROOT.glob(path))}


def test_a_missing_file_is_found() -> None:
    text = "`eager/absent.py`, `.ci/run`, tests/none_*.py and `tests/codegen/golden`"
    assert missing_in(text) == {"eager/absent.py", "tests/none_*.py"}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_headings(name: str) -> None:
    assert broken_links(name) == []


def test_anchors_are_those_of_headings() -> None:
    text = "# A `fw.name`, and more\n```\n# a comment\n```\n## What if 2 > 1?\n"
    assert anchors(text) == {"a-fwname-and-more", "what-if-2--1"}


def glossary() -> list[list[str]]:
    """The rows of the glossary: term, meaning, where."""
    lines = [line for line in TEXTS["docs/glossary.md"].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_glossary_has_one_row_for_each_term() -> None:
    terms = [term.lower() for term, _, _ in glossary()]
    assert len(terms) > 60
    assert sorted(set(terms)) == sorted(terms)


def test_every_term_has_a_meaning_and_one_place() -> None:
    assert [row for row in glossary() if not all(row) or len(NAMED.findall(row[2])) != 1] == []


def test_the_workflow_runs_the_supported_pythons() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    listed = re.search(r"python: \[(.*)\]", workflow)
    versions = [c.rpartition(" ")[2] for c in project()["project"]["classifiers"]
                if re.search(r":: 3\.\d+$", c)]
    assert listed is not None and re.findall(r"3\.\d+", listed[1]) == versions
    assert "run: .ci/run\n" in workflow


def test_the_page_of_files_is_up_to_date() -> None:
    assert file_map.PAGE.read_text(encoding="utf-8") == file_map.page(), \
        "write it anew: PYTHONPATH=tests python -m house.file_map"
