"""Models in int8 (`fw.quantize`) and float32, in fusewire and onnxruntime; torch in float32."""

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
Build = Callable[[Any], Any]  # of fusewire or torch itself, to a module


def perceptron(lib: Any) -> Any:
    """Four linear layers."""
    layers = [lib.nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    return lib.nn.Sequential(*[x for layer in layers for x in (layer, lib.nn.ReLU())][:-1])


def bottlenecks(lib: Any) -> Any:
    """Two blocks of a ResNet: convolutions of 1, 3 and 1, with batch norms and residuals."""
    nn = lib.nn
    sizes = ((CHANNELS, INNER, 1), (INNER, INNER, 3), (INNER, CHANNELS, 1))

    class Bottleneck(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*[x for a, b, k in sizes for x in (
                nn.Conv2d(a, b, k, padding="same", bias=False), nn.BatchNorm2d(b), nn.ReLU())][:-1])

        def forward(self, x: Any) -> Any:
            return lib.relu(x + self.layers(x))

    return nn.Sequential(Bottleneck(), Bottleneck())


def threes(lib: Any) -> Any:
    """Three convolutions of 3 by 3, which use Winograd's algorithm in float32."""
    layers = [lib.nn.Conv2d(INNER, INNER, 3, padding=1) for _ in range(3)]
    return lib.nn.Sequential(*[x for layer in layers for x in (layer, lib.nn.ReLU())])


def exact(build: Build) -> nn.Module:
    """The model in float32, with equal weights in each call."""
    fw.manual_seed(0)
    model: nn.Module = build(fw).eval()
    return model


def quantized(build: Build, inputs: Inputs, **how: Any) -> nn.Module:
    """The model in int8, calibrated on the inputs of the benchmark."""
    return fw.quantize(exact(build), [fw.from_numpy(inputs["x"])], **how).model


def fusewire(build: Build, inputs: Inputs, compiled: bool = True, small: bool = True, **how: Any
             ) -> Call:
    model = quantized(build, inputs, **how) if small else exact(build)
    x = fw.from_numpy(inputs["x"])
    run = fw.compile(model.forward, fullgraph=True) if compiled else model

    def call() -> Any:
        with fw.no_grad():
            return run(x)

    return call


def torch(build: Build, inputs: Inputs) -> Call:
    """The model in float32."""
    import torch as library

    model, x = build(library).eval(), library.from_numpy(inputs["x"])
    model.load_state_dict({name: library.tensor(value.numpy())
                           for name, value in exact(build).state_dict().items()})

    def call() -> Any:
        with library.inference_mode():
            return model(x)

    return call


def onnxruntime(build: Build, inputs: Inputs, small: bool = True, **how: Any) -> Call:
    model = quantized(build, inputs, **how) if small else exact(build)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        fw.onnx.export(model, (fw.from_numpy(inputs["x"]),), path, input_names=["x"])
        return onnx_file(path, inputs)


def makers(build: Build, **how: Any) -> dict[str, Maker]:
    part = functools.partial
    return {"fusewire": part(fusewire, build, **how),
            "fusewire float32": part(fusewire, build, small=False),
            "fusewire eager": part(fusewire, build, compiled=False, **how),
            "onnxruntime": part(onnxruntime, build, **how),
            "onnxruntime float32": part(onnxruntime, build, small=False),
            "torch": part(torch, build)}


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
