"""The Python on the pages of docs/ runs, and prints what the block below it shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from house.repo import ROOT, files, shape_of

# A block of Python, and the block without a language that follows at once, if there is one.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
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


def test_training_is_such_a_page() -> None:
    assert len(BLOCK.findall(TEXTS["training"])) == 4
