"""Models in int8 (`fw.quantize`), beside themselves in float32 and beside onnxruntime on both."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fusewire as fw
from fusewire import nn

from ..peers import onnx_file
from ..workload import Call, Inputs, Maker, Workload
from .weights import normal

WIDTH, ROWS = 1024, 64
CHANNELS, INNER, SIDE, IMAGES = 256, 64, 28, 4
Make = Callable[[], nn.Module]


def perceptron() -> nn.Module:
    """Four linear layers."""
    fw.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    return nn.Sequential(*[x for layer in layers for x in (layer, nn.ReLU())][:-1])


class Bottleneck(nn.Module):
    """Convolutions of 1, 3 and 1, with batch norms, and what goes past them."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((CHANNELS, INNER, 1), (INNER, INNER, 3), (INNER, CHANNELS, 1))
        self.layers = nn.Sequential(*[x for a, b, k in sizes for x in (
            nn.Conv2d(a, b, k, padding="same", bias=False), nn.BatchNorm2d(b), nn.ReLU())][:-1])

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return fw.relu(x + self.layers(x))


def bottlenecks() -> nn.Module:
    """Two blocks of a ResNet."""
    fw.manual_seed(0)
    return nn.Sequential(Bottleneck(), Bottleneck()).eval()


def threes() -> nn.Module:
    """Three convolutions of 3 by 3, which in float32 take Winograd's way."""
    fw.manual_seed(0)
    layers = [nn.Conv2d(INNER, INNER, 3, padding=1) for _ in range(3)]
    return nn.Sequential(*[x for layer in layers for x in (layer, nn.ReLU())])


def quantized(make: Make, inputs: Inputs, **how: Any) -> nn.Module:
    """The model in int8, calibrated on what it is timed on."""
    return fw.quantize(make(), [fw.from_numpy(inputs["x"])], **how).model


def fusewire(make: Make, inputs: Inputs, compiled: bool = True, **how: Any) -> Call:
    model = make().eval() if how.get("to") == "float32" else quantized(make, inputs, **how)
    x = fw.from_numpy(inputs["x"])
    run = fw.compile(model.forward, fullgraph=True) if compiled else model

    def call() -> Any:
        with fw.no_grad():
            return run(x)

    return call


def onnxruntime(make: Make, inputs: Inputs, exact: bool = False, **how: Any) -> Call:
    model = make().eval() if exact else quantized(make, inputs, **how)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        fw.onnx.export(model, (fw.from_numpy(inputs["x"]),), path, input_names=["x"])
        return onnx_file(path, inputs)


def makers(make: Make, **how: Any) -> dict[str, Maker]:
    part = functools.partial
    return {"fusewire": part(fusewire, make, **how),
            "fusewire float32": part(fusewire, make, to="float32"),
            "fusewire eager": part(fusewire, make, compiled=False, **how),
            "onnxruntime": part(onnxruntime, make, **how),
            "onnxruntime float32": part(onnxruntime, make, exact=True)}


def rows() -> Inputs:
    return {"x": normal(3, ROWS, WIDTH)}


def images(channels: int) -> Inputs:
    return {"x": normal(4, IMAGES, channels, SIDE, SIDE)}


PLACES = IMAGES * SIDE * SIDE
BLOCK = 2 * CHANNELS * INNER + 9 * INNER * INNER
WORKLOADS = [
    Workload("int8_mlp", f"four layers of {WIDTH}, batch {ROWS}, in int8; the limit is float32's",
             rows, makers(perceptron), 8 * ROWS * WIDTH**2, 4 * WIDTH**2, 5e-2),
    Workload("int8_mlp_dynamic", "the same, each batch in its own range", rows,
             makers(perceptron, activations="dynamic"), 8 * ROWS * WIDTH**2, 4 * WIDTH**2, 5e-2),
    Workload("int8_resnet", f"two bottlenecks, {CHANNELS} channels, {SIDE} by {SIDE}, batch "
             f"{IMAGES}, in int8", functools.partial(images, CHANNELS), makers(bottlenecks),
             4 * PLACES * BLOCK, 8 * CHANNELS * PLACES, 5e-2),
    Workload("int8_conv3", f"three convolutions of 3 by 3, {INNER} channels, {SIDE} by {SIDE}, "
             f"batch {IMAGES}, in int8", functools.partial(images, INNER), makers(threes),
             6 * PLACES * 9 * INNER**2, 8 * INNER * PLACES, 5e-2),
]
