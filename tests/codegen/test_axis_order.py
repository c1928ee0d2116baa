"""Windows and taken elements are computed in the order of axes in which their operands lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.graph import Graph
from fusewire.capture.passes.pass_manager import run
from fusewire.codegen.compile import compile_graph, passes_for
from fusewire.codegen.fusion.axis_order import order_axes
from fusewire.codegen.fusion.concat_splitting import split_concats
from fusewire.codegen.ir.target_info import Machine

resize = fw.onnx.operators.Resize


def normal(*shape: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(shape).standard_normal(shape).astype(np.float32))


def image(tokens: fw.Tensor, height: int, width: int) -> fw.Tensor:
    """Rows of channels, one for each pixel, seen as an image."""
    batch, _, channels = tokens.shape
    return tokens.transpose(1, 2).reshape(batch, channels, height, width)


def tokens(pixels: fw.Tensor) -> fw.Tensor:
    return pixels.reshape(*pixels.shape[:2], -1).transpose(1, 2)


def upsampled(pixels: fw.Tensor, height: int, width: int, mode: str = "linear") -> fw.Tensor:
    return resize(pixels, None, None, (*pixels.shape[:2], height, width), mode=mode,
                  coordinate_transformation_mode="half_pixel")


def reordered(function: Callable[..., Any], *args: Any) -> list[Any]:
    """The shapes of values that `order_axes` adds; the results are compared with eager ones."""
    graph, arrays = recorded(function, *args)
    assert_same(compile_graph(graph)(list(arrays))[0], function(*args), 4)
    return changed_shapes(graph)


def changed_shapes(graph: Graph) -> list[Any]:
    ready = split_concats(run(graph, passes_for(Machine())), Machine())
    new, _ = order_axes(ready, Machine())
    before = {n.type for n in ready.nodes()}
    return [n.type.shape for n in new.nodes() if n.type not in before
            and (n.kind in ("reduce", "pointwise") or n.op == "concat")]


@pytest.mark.parametrize(("channels", "stride", "kernel"), [
    (16, 1, 3), (24, 2, 3), (70, 1, 5), (33, 2, 5), (48, 1, 1)])
def test_depthwise_convolutions_of_tokens(channels: int, stride: int, kernel: int) -> None:
    def layer(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
        out = F.conv2d(image(x, 24, 20), w, b, stride=stride, padding=kernel // 2, groups=channels)
        return F.gelu(tokens(out)) * 2

    made = reordered(layer, normal(2, 480, channels), normal(channels, 1, kernel, kernel),
                     normal(channels))
    assert any(shape[-1] == channels for shape in made) or kernel == 1


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("sizes", [((4, 6), (8, 12)), ((7, 5), (9, 13)), ((8, 8), (5, 3))])
def test_images_of_tokens_are_resized(sizes: Any, mode: str) -> None:
    (height, width), larger = sizes
    made = reordered(lambda x, w: F.conv2d(upsampled(image(x, height, width), *larger, mode), w),
                     normal(1, height * width, 48), normal(20, 48, 1, 1))
    assert mode == "nearest" or all(shape[-1] == 48 for shape in made)


def test_concats_are_written_with_channels_last() -> None:
    def layer(a: fw.Tensor, b: fw.Tensor, w: fw.Tensor) -> fw.Tensor:
        both = fw.concat([upsampled(image(a, 8, 8), 32, 32), image(b, 32, 32)], axis=1)
        return F.conv2d(both, w)

    made = reordered(layer, normal(1, 64, 32), normal(1, 1024, 48), normal(24, 80, 1, 1))
    assert (1, 32, 32, 80) in made


def test_a_residual_is_added_in_either_order() -> None:
    def layer(x: fw.Tensor, w: fw.Tensor, other: fw.Tensor) -> fw.Tensor:
        out = F.conv2d(image(x, 8, 8), w, padding=1, groups=32)
        return fw.relu(out + other).sum(axis=1)

    reordered(layer, normal(1, 64, 32), normal(32, 1, 3, 3), normal(1, 32, 8, 8))


@pytest.mark.parametrize("function", [
    lambda x, w: fw.relu(F.conv2d(x, w, padding=1, groups=32)) * 2,
    lambda x, w: F.conv2d(F.conv2d(x, w, padding=1, groups=32), w, padding=1, groups=32) * 2,
    lambda x, w: F.max_pool2d(x, 2) + w.sum(),
    lambda x, w: upsampled(x, 16, 16) + w.sum()])
def test_images_stay_as_they_are(function: Callable[..., Any]) -> None:
    assert not reordered(function, normal(1, 32, 8, 8), normal(32, 1, 3, 3))


def test_windows_of_the_value_keep_it() -> None:
    """A dense convolution reads pixels of a row side by side."""
    def layer(x: fw.Tensor, w: fw.Tensor, dense: fw.Tensor) -> fw.Tensor:
        return F.conv2d(F.conv2d(image(x, 8, 8), w, padding=1, groups=32), dense, padding=1)

    assert not reordered(layer, normal(1, 64, 32), normal(32, 1, 3, 3), normal(8, 32, 3, 3))
