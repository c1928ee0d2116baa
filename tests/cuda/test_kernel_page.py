"""docs/appendix/cuda_kernels.md is what `tests/kernel_page.py` writes."""

from __future__ import annotations

import sys
from pathlib import Path

import kernel_page
import pytest

PAGE = Path(kernel_page.__file__).parent.parent / "docs/appendix/cuda_kernels.md"


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == kernel_page.page(), \
        "python tests/kernel_page.py > docs/appendix/cuda_kernels.md"
