"""Reductions of windows: a kernel copies each pixel once, and reads the copy without masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir import loop_ir
from fusewire.codegen.ir.loop_ir import Kernel
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named
from fusewire.eager.ops.shape.window import window

TARGETS = ["", "x86-64-v3", "x86-64"]
# (images, channels, height, width), kernel, stride, dilation, padding
CONVOLUTIONS: list[tuple[Any, ...]] = [
    ((1, 8, 14, 9), (3, 3), (1, 1), (1, 1), (1, 1)),   # rows of results left over
    ((2, 4, 17, 33), (5, 5), (2, 2), (1, 1), (2, 2)),
    ((1, 6, 20, 20), (3, 3), (1, 1), (2, 2), (2, 2)),
    ((1, 6, 20, 23), (7, 7), (3, 3), (1, 1), (0, 0)),  # pixels that no window reads
    ((2, 5, 9, 64), (3, 1), (1, 1), (1, 1), (1, 0)),
    ((1, 7, 40, 31), (1, 5), (1, 2), (1, 1), (0, 2)),
    ((1, 4, 7, 7), (5, 5), (1, 1), (1, 1), (6, 6)),    # windows with nothing but padding
    ((1, 9, 12, 12), (5, 5), (2, 2), (3, 3), (6, 6)),
    ((1, 4, 120, 110), (3, 3), (1, 1), (1, 1), (1, 1)),  # several bands
    ((1, 4, 90, 75), (5, 5), (2, 2), (1, 1), (2, 2)),
]


def depthwise(x: Any, w: Any, stride: Any, dilation: Any, padding: Any) -> Any:
    """The convolution of each channel with its own filter, in float64."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *((p, p) for p in padding)))
    high, across = (d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:]))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (high, across), (2, 3))
    picked = windows[:, :, ::stride[0], ::stride[1], ::dilation[0], ::dilation[1]]
    return np.einsum("ncuvxy,cxy->ncuv", picked, w[:, 0].astype(np.float64))


def copies(kernel: Kernel) -> bool:
    """True if a kernel reads windows from a copy of the image."""
    return any(b.name == "image" for b in kernel.scratch)


@pytest.mark.parametrize("shape, kernel, stride, dilation, padding", CONVOLUTIONS)
@pytest.mark.parametrize("activation", [fw.relu, F.silu])
def test_depthwise_convolutions(shape: Any, kernel: Any, stride: Any, dilation: Any, padding: Any,
                                activation: Any) -> None:
    """With a cheap activation, which follows each sum, and one in a loop of its own."""
    rng = np.random.default_rng(sum(shape))
    x, w, b = (rng.standard_normal(s).astype("float32")
               for s in (shape, (shape[1], 1, *kernel), shape[1:2]))

    def layer(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
        return activation(F.conv2d(x, w, b, stride, padding, dilation, shape[1]))

    want = depthwise(x, w, stride, dilation, padding) + b[:, None, None]
    want = np.maximum(want, 0) if activation is fw.relu else want / (1 + np.exp(-want))
    graph, arrays = recorded(layer, *map(fw.from_numpy, (x, w, b)))
    for target in TARGETS:
        program = compile_graph(graph, named(target))
        assert [copies(k) for k in program.kernels] == [True]
        np.testing.assert_allclose(program(list(arrays))[0], want, 0, 1e-6 * np.abs(want).max())


def test_the_interpreter_agrees() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((1, 4, 23, 10), (4, 1, 5, 3)))

    def layer(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        return F.conv2d(x, w, stride=2, padding=(2, 1), groups=4)

    graph, arrays = recorded(layer, *map(fw.from_numpy, (x, w)))
    for machine in (Machine(), Machine(vector_bytes=16, registers=16)):
        (got,) = interpreted(graph, arrays, machine)
        np.testing.assert_allclose(got, depthwise(x, w, (2, 2), (1, 1), (2, 1)), 1e-4, 1e-5)


def test_weights_of_each_position() -> None:
    """Weights that differ by row and column, in an image of several bands."""
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((1, 4, 80, 70), (80, 70, 3, 3)))

    def layer(x: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        return fw.sum(window(x, (3, 3), (80, 70), (1, 1), (1, 1), (1, 1)) * w, (-2, -1))

    graph, arrays = recorded(layer, *map(fw.from_numpy, (x, w)))
    program = compile_graph(graph)
    assert [copies(k) for k in program.kernels] == [True]
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    np.testing.assert_allclose(program(list(arrays))[0], (windows * w).sum((-2, -1)), 1e-4, 1e-5)


def test_maxima_of_windows() -> None:
    """The fill is -inf, not 0; a nan reaches the windows that hold it, and no others."""
    x = -np.abs(np.random.default_rng(1).standard_normal((2, 4, 13, 13))).astype("float32") - 1
    x[0, 1, 5, 6] = np.nan
    graph, arrays = recorded(lambda x: F.max_pool2d(x, 3, 1, 1), fw.from_numpy(x))
    program = compile_graph(graph)
    assert [copies(k) for k in program.kernels] == [True]
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    np.testing.assert_array_equal(program(list(arrays))[0], windows.max(axis=(4, 5)))


def test_windows_are_read_without_masks() -> None:
    """Tiles of several rows, in which each update reads the copy."""
    x, w = fw.ones((1, 16, 28, 28)), fw.ones((16, 1, 5, 5))
    graph, _ = recorded(lambda x, w: F.conv2d(x, w, padding=2, groups=16), x, w)
    _, launches = lower_graph(graph, Machine())
    updates = [s for s in loop_ir.walk(launches[0].kernel.body) if isinstance(s, loop_ir.Update)]
    loads = [e for s in updates for e in loop_ir.subexpressions(loop_ir.expressions(s))
             if isinstance(e, loop_ir.Load)]
    assert len({s.register for s in updates}) >= 4
    assert not any(e.mask is not None for e in loads)


def test_pixels_that_few_windows_read_are_not_copied() -> None:
    graph, _ = recorded(lambda x: F.max_pool2d(x, 2, 2), fw.ones((1, 16, 28, 28)))
    assert not any(map(copies, compile_graph(graph).kernels))
