"""Paths that merge after a branch: the code behind the merge point is in the model once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from deciding import APART, MEET, OF_TWELVE, counting, in_a_row, ten_times, two_deep

import fusewire as fw
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare


@pytest.mark.parametrize("fn", [*MEET, *APART])
def test_every_way_is_right(fn: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export(fn, OF_TWELVE[0], path)
    run = compare.runner(path.read_bytes()).run
    for x in OF_TWELVE:
        wanted = fn(fw.from_numpy(x.numpy().copy()))
        for have, want in zip(run({"x": x.numpy()}), wanted if isinstance(wanted, tuple)
                              else [wanted], strict=True):
            np.testing.assert_allclose(have, want.numpy(), 1e-5, 1e-5)


def ifs(graph: Any, depth: int = 0) -> list[int]:
    """How deep each `If` lies in others."""
    found = []
    for node in graph.node:
        found += [depth] if node.op_type == "If" else []
        for attribute in node.attribute:
            found += ifs(attribute.g, depth + 1)
    return found


@pytest.mark.parametrize(("fn", "depths"), [
    (ten_times, [0] * 10), (in_a_row, [0, 0, 1, 0]), (counting, [0] * 4), (two_deep, [0] * 9)])
def test_one_decision_after_another(fn: Any, depths: list[int], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export(fn, OF_TWELVE[0], path)
    assert sorted(ifs(onnx.load(path).graph)) == sorted(depths)


def test_a_hundred_decisions(tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        for i in range(100):
            if x[i % 12] > 0:
                x = x - 0.5
        return x

    path = tmp_path / "model.onnx"
    report = export(fn, OF_TWELVE[0], path, examples=[OF_TWELVE[1]])
    assert len(ifs(onnx.load(path).graph)) == 100 and report.max_error == 0


def test_sizes_vary_where_ways_meet(tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        n = x.shape[0]
        if x.sum() > 0:
            x = x.reshape(n, 2, 3) if False else x * n
        if x[0, 0] > 0:
            x = x.reshape(n * 2, 3).reshape(n, 6) + 1
        return x / n

    path = tmp_path / "model.onnx"
    export(fn, fw.ones(4, 6), path, dynamic_shapes={"x": {0: "n"}})
    assert ifs(onnx.load(path).graph) == [0, 0]
    run = compare.runner(path.read_bytes()).run
    for sign in (1, -1):
        x = fw.ones(7, 6) * sign
        np.testing.assert_allclose(run({"x": x.numpy()})[0], fn(x).numpy(), rtol=1e-6)
