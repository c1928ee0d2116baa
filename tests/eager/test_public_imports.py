"""Import statements of the public modules work in a fresh process, in any order."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fusewire.eager.front.hints import SPACES

MODULES = [path.replace("fw", "fusewire", 1) for path in SPACES]


@pytest.mark.parametrize("reverse", [False, True])
def test_import_statements(reverse: bool) -> None:
    lines = [f"import {name}; assert {name}.__name__" for name in sorted(MODULES, reverse=reverse)]
    lines.append("assert sys.modules['fusewire.onnx'] is fusewire.onnx")
    subprocess.run([sys.executable, "-c", "import sys\n" + "\n".join(lines)], check=True)
