"""Long rows are cut, and their parts added up by teams of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice
from oracle import assert_same, recorded, tensors

import fusewire as fw
from emulator.emulator import AVAILABLE
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.gpu import lower
from fusewire.codegen.gpu.thread_mapping import thread_mapping_of

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the emulator compiles with g++")

CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
    "few parts": (lambda x: x.sum(-1) + 1, (5, 700), 32),
    "as many as a warp has threads": (lambda x: fw.exp(x.max(-1)), (2, 32 * 64), 32),
    "many parts": (lambda x: x.mean(), (40_001,), 256),
    "of several rows": (lambda x: x.min(-1), (3, 39_999), 256),
    "along axes that are not the last": (lambda x: x.sum((0, 2)), (20, 3, 1000), 256),
    "whole numbers": (lambda x: (x * 10).astype(fw.int32).sum(), (9000,), 256),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_of_long_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "MIN_SPLIT_ROW", 64)
    function, shape, threads = CASES[name]
    given = [np.random.default_rng(0).standard_normal(shape).astype(np.float32)]
    graph, arrays = recorded(function, *tensors(given))
    program = compile_on(graph, EmulatedDevice(order=3))
    assert_same(program(list(arrays))[0], evaluate(graph, arrays)[0], 100)
    _, total = program.program.module.functions
    assert thread_mapping_of(total.kernels[0]).group_threads == threads
