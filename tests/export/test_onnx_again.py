"""Models with decisions and loops: exported, loaded, exported again, and run at several inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deciding
import numpy as np
import pytest

import fusewire as fw
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare

# Loops in loops, and ways out of their middle: loaded, these are more decisions than before, and
# not all of them meet again.
TOO_MANY = ("more than 64 paths", "change different variables on each path")


@pytest.mark.parametrize(("fn", "inputs"), deciding.ALL, ids=lambda x: getattr(x, "__name__", ""))
def test_loaded_and_exported_again(fn: Any, inputs: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    export(fn, inputs[0], first)
    model = fw.onnx.load(first)
    try:
        export(model, inputs[0], second)
    except fw.ExportError as error:
        assert fn.__name__ in ("nested", "broken_off", "turns_between", "left_early")
        assert any(words in str(error) for words in TOO_MANY)
        return
    runs = [compare.runner(path.read_bytes()).run for path in (first, second)]
    for x in inputs:
        for one, two in zip(*(run({"x": x.numpy()}) for run in runs), strict=True):
            np.testing.assert_allclose(one, two, 1e-5, 1e-5)
