"""The programs of the pages, as they are, on a machine whose tensors are on a GPU by themselves:
they print there what the pages show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from emulated_gpu import emulated_gpus

from fusewire.eager.arrays import devices
from house.repo import shape_of
from house.test_pages import BLOCK, TEXTS
from house.test_readme import OUTPUT, PROGRAM

PAGES = {**{name: TEXTS[name] for name in ("aot", "compile", "cuda", "onnx_load", "training")},
         "README": f"```python\n{PROGRAM}```\n```\n{OUTPUT}```\n".replace("(200)", "(20)")}
ON_GPU = re.compile(r",? (?:device=|on )'?cuda:\d+'?")


def printed(program: str, name: str, names: dict[str, Any]) -> str:
    """What a program prints, but for where tensors are."""
    out = io.StringIO()
    with devices.making_on("cuda:0"), contextlib.redirect_stdout(out):
        exec(compile(program, f"{name}.md", "exec"), names)
    return ON_GPU.sub("", out.getvalue())


@pytest.mark.parametrize("page", PAGES)
def test_programs_print_what_the_page_shows(page: str, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, names = PAGES[page], dict[str, Any](__name__=page)
    with emulated_gpus() as gpus:
        for block in BLOCK.finditer(text):
            above = "\n" * text.count("\n", 0, block.start(1))
            found = printed(above + block[1], page, names)
            assert shape_of(found) == shape_of(block[2] or "")
    assert gpus[0].launches
