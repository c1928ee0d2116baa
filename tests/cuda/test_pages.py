"""The programs of the pages, as they are, on a machine whose tensors are on a GPU by themselves:
they print there what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from emulated_gpu import emulated_gpus

from fusewire.eager.arrays import devices
from house.pages import TEXTS, run

PAGES = ("docs/how_to/deploy/load_onnx.md", "docs/how_to/deploy/native_library.md",
         "docs/how_to/gpu.md", "docs/how_to/port/fusewire_names.md", "docs/reference/compile.md",
         "README.md")
ON_GPU = re.compile(r",? (?:device=|on )'?cuda:\d+'?")


@pytest.mark.parametrize("page", PAGES)
def test_programs_print_what_the_page_shows(page: str, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TEXTS[page].replace("range(200)", "range(20)")  # the emulator is slow
    with emulated_gpus() as gpus, devices.making_on("cuda:0"):
        for printed, shown in run(text, page, lambda out: ON_GPU.sub("", out)):
            assert printed == shown
    assert gpus[0].launches
