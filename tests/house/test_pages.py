"""The Python on the pages of docs/ runs and prints the block below it. The pages for maintainers
name files that exist, and the glossary has one row for each term."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from house import file_map
from house.repo import ROOT, files, project, shape_of

# A block of Python, and the block without a language that follows at once, if there is one.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
# A file or folder of the checkout, perhaps with `*`, and a link to one from a page.
FOLDERS = ("benchmarks|capture|codegen|commands|data|distributed|docs|eager|examples|export"
           "|frontends|metrics|models|tests|training")
NAMED = re.compile(rf"(?<![\w./(-])(?:{FOLDERS}|\.ci)/[\w./*-]*[\w*]")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
MOST_WORDS = 2500  # of the architecture page: it is read on the first day
PAGES = {str(page.relative_to(ROOT)): page for page in
         sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})}
FOR_MAINTAINERS = [name for name in PAGES if name.startswith("docs/internals/") or name in (
    "CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md")]
TEXTS = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("page", [name for name, text in TEXTS.items() if BLOCK.search(text)])
def test_blocks_print_what_they_show(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                     ) -> None:
    monkeypatch.chdir(tmp_path)
    text, names = TEXTS[page], dict[str, Any](__name__=page)
    for block in BLOCK.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))  # so that errors name the page's lines
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(above + block[1], f"{page}.md", "exec"), names)
        assert shape_of(printed.getvalue()) == shape_of(block[2] or "")


def test_the_architecture_page_names_every_package() -> None:
    packages = {str(path.parent.relative_to(ROOT)) for path in files()
                if path.name == "__init__.py" and path.parent.parent != ROOT.parent}
    staged = {p for p in packages if p.startswith(("capture/", "codegen/"))}
    assert {p for p in staged if f"`{p}`" not in TEXTS["architecture"]} == set()


def test_the_architecture_page_leads_to_every_page_on_internals() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs/internals").iterdir()}
    assert pages - set(LINK.findall(TEXTS["architecture"])) == set()


def test_the_architecture_page_is_short() -> None:
    assert len(TEXTS["architecture"].split()) <= MOST_WORDS


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
def test_links_lead_to_files(name: str) -> None:
    targets = set(LINK.findall(PAGES[name].read_text(encoding="utf-8")))
    assert {t for t in targets if not (PAGES[name].parent / t).exists()} == set()


def glossary() -> list[list[str]]:
    """The rows of the glossary: term, meaning, where."""
    lines = [line for line in TEXTS["glossary"].splitlines() if line.startswith("|")]
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


def test_training_is_such_a_page() -> None:
    assert len(BLOCK.findall(TEXTS["training"])) == 5


def test_the_page_of_files_is_up_to_date() -> None:
    assert file_map.PAGE.read_text(encoding="utf-8") == file_map.page(), \
        "write it anew: PYTHONPATH=tests python -m house.file_map"
