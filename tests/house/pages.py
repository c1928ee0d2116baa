"""The pages of the documentation: their texts, their blocks of Python, their links and headings."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from house.repo import ROOT, shape_of

# A block of Python, and the block without a language that follows at once, if there is one.
BLOCK = re.compile(r"^```python\n(.*?)^```\n\n?(?:```\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")  # to a file, perhaps with a heading
PAGES = {str(page.relative_to(ROOT)): page for page in
         sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
         if "api" not in page.parent.parts}  # docs/reference/api is generated from docstrings
TEXTS = {name: page.read_text(encoding="utf-8") for name, page in PAGES.items()}
WITH_BLOCKS = [name for name, text in TEXTS.items() if BLOCK.search(text)]


@dataclass(frozen=True)
class Block:
    """A block of Python of a page: its source, padded so that errors name the page's lines, and
    the output that the page shows."""

    source: str
    shown: str


def blocks(text: str) -> Iterator[Block]:
    """The blocks of Python of a page, in order."""
    for block in BLOCK.finditer(text):
        yield Block("\n" * text.count("\n", 0, block.start(1)) + block[1], block[2] or "")


def run(text: str, name: str, printed: Callable[[str], str] = str) -> list[tuple[str, str]]:
    """For each block what it printed and what the page shows, digits replaced.

    All blocks of a page are one program. `name` is the file in error messages and in `explain`;
    `printed` changes the output before it is compared.
    """
    names, compared = dict[str, Any](__name__=Path(name).stem), []
    for block in blocks(text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block.source, Path(name).name, "exec"), names)
        compared.append((shape_of(printed(out.getvalue())), shape_of(block.shown)))
    return compared


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site make them."""
    titles = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(name: str) -> list[str]:
    """The links of a page to files and headings that do not exist."""
    text = FENCE.sub("", TEXTS[name])
    return [f"{target}#{anchor}" for target, anchor in LINK.findall(text)
            if (target or anchor) and not _leads_somewhere(PAGES[name], target, anchor)]


def _leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    path = (page.parent / target).resolve() if target else page
    if not path.exists():
        return False
    return not anchor or (path.suffix == ".md" and anchor in anchors(path.read_text("utf-8")))
