"""Ways that meet again after a decision: what follows is in the model once."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fusewire as fw
from fusewire.export.onnx import compare, export


def t(*values: float) -> fw.Tensor:
    return fw.from_numpy(np.array(values, np.float32))


INPUTS = [t(*np.random.default_rng(i).standard_normal(12)) for i in range(40)]


def ten_times(x: fw.Tensor) -> fw.Tensor:
    for i in range(10):
        x = x + 1 if x[i] > 0 else x * 2
    return x


def in_a_row(x: fw.Tensor) -> fw.Tensor:
    if x[0] > 0:
        shifted = x + 1
        x = shifted * 0.5
    if x[1] > 0:
        x = x * 2
    elif x[2] > 0:
        x = x - 3
    if x[3] > 0.5:
        x = -x
    return x.exp()


def counted(x: fw.Tensor) -> Any:
    n, scale = 0, 1.0
    if x[0] > 0:
        n += 1
    if x[1] > 0:
        n, scale = n + 2, 0.5
    if x[2] > n:
        scale = scale / 2
    if n > 1:
        x = x * n
    return x * scale, x + n


def broken_off(x: fw.Tensor) -> Any:
    total = x * 0
    for i in range(8):
        if x[i] > 1:
            break
        total = total + x[i]
    if total[0] > 0:
        total = total * 2
    return total


def two_deep(x: fw.Tensor) -> fw.Tensor:
    for i in range(3):
        for j in range(3):
            if x[i + j] > x[j]:
                x = x + 0.5 * i
            else:
                x = x - 0.25 * j
    return x


def turns_between(x: fw.Tensor) -> fw.Tensor:
    if x[0] > 0:
        while x.sum() > 1:
            x = x - 0.5
    else:
        while x.sum() < -1:
            x = x + 0.25
    if x[1] > 0:
        x = x * 3
    while x.max() > 2:
        x = x / 2
        if x[2] > 0:
            x = x - 0.125
        if x[3] > 0:
            x = x + 0.0625
    return x


def helped(x: fw.Tensor) -> fw.Tensor:
    def side(y: fw.Tensor, k: int) -> fw.Tensor:
        if y[k] > 0:
            z = y * 2
            return z - 1
        if y[k + 1] > 0:
            y = y + 1
        return y

    x = side(x, 0)
    x = side(x, 4)
    return x if x[8] > 0 else side(x, 6)


def shared(x: fw.Tensor) -> Any:
    y = x * 1
    if x[0] > 0:
        y = x
    if x[1] > 0:
        y += 1
    kept = [x, y]
    if x[2] > 0:
        kept.append(y * 2)
    else:
        kept.append(x * 3)
    if x[3] > 0:
        kept[1] = kept[2]
    return kept[1], kept[2]


MEET = [ten_times, in_a_row, counted, broken_off, two_deep, turns_between, helped, shared]


def by_index(x: fw.Tensor) -> fw.Tensor:
    """An int that tells a place has to be one int on each way."""
    k = 0
    if x[0] > 0:
        k = 3
    if x[1] > 0:
        x = x + 1
    return x * x[k]


def over_a_list(x: fw.Tensor) -> fw.Tensor:
    """Whether a turn is the first or the second of the ones only the iterator knows."""
    for k in [1, 1, 2]:
        if x[k] > 0:
            x = x - 0.75
            continue
        x = x * 2
    return x


def skipping(x: fw.Tensor) -> fw.Tensor:
    turns = iter([0, 0, 0, 0])
    for k in turns:
        if x[k] > 0:
            next(turns, None)
            x = x - 0.5
        x = x + 0.1
    return x


def among(x: fw.Tensor) -> fw.Tensor:
    """One question after another at one place of the code."""
    n = 0
    while n < 2:
        if x[0].item() * 0 + n in [x[1].item() * 0, x[2].item() * 0 + 1]:
            x = x + 1
        n += 1
    return x


def folded(x: fw.Tensor) -> fw.Tensor:
    """What `reduce` has so far nobody sees."""
    return functools.reduce(lambda a, b: a + b if a[0] > 0 else a - b, [x, x * 2, x * 3])


def wrapped(x: fw.Tensor) -> fw.Tensor:
    """The left operand waits on the stack."""
    return (x * 2 if x[0] > 0 else x) + (x * 3 if x[1] > 0 else -x)


APART = [by_index, over_a_list, skipping, among, folded, wrapped]


@pytest.mark.parametrize("fn", [*MEET, *APART])
def test_every_way_is_right(fn: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export(fn, INPUTS[0], path)
    run = compare.runner(path.read_bytes()).run
    for x in INPUTS:
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
    (ten_times, [0] * 10), (in_a_row, [0, 0, 1, 0]), (counted, [0] * 4), (two_deep, [0] * 9)])
def test_one_decision_after_another(fn: Any, depths: list[int], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export(fn, INPUTS[0], path)
    assert sorted(ifs(onnx.load(path).graph)) == sorted(depths)


def test_a_hundred_decisions(tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        for i in range(100):
            if x[i % 12] > 0:
                x = x - 0.5
        return x

    path = tmp_path / "model.onnx"
    report = export(fn, INPUTS[0], path, examples=[INPUTS[1]])
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
