"""Arrays that are read across their rows are transposed in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice
from oracle import assert_same, recorded, tensors

import fusewire as fw
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.codegen.cuda.runtime.device_executable import DeviceExecutable
from fusewire.codegen.gpu import lower

Shape = tuple[int, ...]


def run(function: Callable[..., Any], *shapes: Shape, traced: bool = False
        ) -> tuple[DeviceExecutable, EmulatedDevice]:
    """The program of a function, after its numbers were NumPy's."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    graph, arrays = recorded(function, *tensors(given))
    device = EmulatedDevice(order=7, traced=traced)
    program = compile_on(graph, device)
    for got, wanted in zip(program(list(arrays)), evaluate(graph, arrays)):
        assert_same(got, wanted)
    return program, device


def tiles(program: DeviceExecutable) -> int:
    """How many arrays the program turns."""
    return sum(len(k.scratch) for f in program.program.module.functions for k in f.kernels)


CASES: dict[str, tuple[Callable[..., Any], list[Shape], int]] = {
    "whole tiles": (lambda x: x.T * 2, [(64, 32)], 1),
    "tiles that are not full": (lambda x: x.T * 2, [(40, 70)], 1),
    "beside one that is not turned": (lambda x, y: fw.relu(x.T + y), [(40, 33), (33, 40)], 1),
    "two": (lambda x, y: x.T - 3 * y.T, [(40, 33), (40, 33)], 2),
    "batched": (lambda x: fw.permute_dims(x, (0, 2, 1)) * 2, [(3, 50, 33)], 1),
    "pixels, which are one axis": (
        lambda x: fw.permute_dims(x, (0, 3, 1, 2)) * 2, [(2, 6, 5, 40)], 1),
    "rows that stay rows": (lambda x: fw.permute_dims(x, (2, 0, 1, 3)) * 2, [(3, 5, 33, 20)], 0),
    "too narrow for a tile": (lambda x: x.T * 2, [(8, 500)], 0),
    "no axis along which it lies": (lambda x: x[:, ::2] * 2, [(40, 80)], 0),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_turned(name: str) -> None:
    function, shapes, count = CASES[name]
    program, _ = run(function, *shapes)
    assert tiles(program) == count


def test_nothing_is_moved_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    def worst() -> float:
        _, device = run(lambda x: x.T * 2, (128, 128), traced=True)
        return max(t.ratio for moved in device.moved.values() for t in moved)

    assert worst() == 1.0
    monkeypatch.setattr(lower, "transposed_loads", lambda nest, runs: None)
    assert worst() >= 4.0
