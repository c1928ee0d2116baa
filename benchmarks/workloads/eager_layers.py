"""Layers run eagerly, forward and backward, at sizes where the overhead of ops counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fusewire as fw

from ..workload import Call, Inputs, Maker, Workload
from .weights import normal

Build = Callable[[Any], Any]  # of fusewire or torch itself, to a module
NUMBERS = np.random.default_rng(7).integers(0, 1000, 512)


def block(lib: Any) -> Any:
    """Convolution, batch normalization, ReLU, pooling."""
    nn = lib.nn
    return nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.MaxPool2d(2))


def numbered(name: str, order: int = 1) -> Build:
    """A maker of a module that calls nn.functional's `name` with its input and these integers."""
    def build(lib: Any) -> Any:
        class Numbered(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("numbers", lib.from_numpy(NUMBERS))

            def forward(self, x: Any) -> Any:
                return getattr(lib.nn.functional, name)(*(x, self.numbers)[::order])

        return Numbered()

    return build


LAYERS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "conv2d": (lambda lib: lib.nn.Conv2d(64, 64, 3, padding=1), (8, 64, 28, 28)),
    "conv_block": (block, (8, 16, 28, 28)),
    "batch_norm": (lambda lib: lib.nn.BatchNorm2d(64), (8, 64, 28, 28)),
    "layer_norm": (lambda lib: lib.nn.LayerNorm(256), (8, 128, 256)),
    "max_pool": (lambda lib: lib.nn.MaxPool2d(3, 2, 1), (8, 64, 56, 56)),
    "avg_pool": (lambda lib: lib.nn.AvgPool2d(2), (8, 64, 56, 56)),
    "lstm": (lambda lib: lib.nn.LSTM(64, 128), (50, 8, 64)),
    "attention": (lambda lib: lib.nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True),
                  (8, 32, 64)),
    "gelu": (lambda lib: lib.nn.GELU(), (64, 1024)),
    "dropout": (lambda lib: lib.nn.Dropout(0.5), (32, 64)),
    "cross_entropy": (numbered("cross_entropy"), (512, 1000)),
    "embedding": (numbered("embedding", -1), (1000, 256)),  # the input is the table
}


def inputs_of(build: Build, shape: tuple[int, ...]) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        weights = {name: normal(seed, *p.shape, scale=0.1)
                   for seed, (name, p) in enumerate(build(fw).named_parameters(), 1)}
        return {"x": normal(0, *shape), "weights": weights}

    return inputs


def called(layer: Any, x: Any) -> Call:
    """The call for a layer and an input of torch or of fusewire."""
    leaves = [x, *layer.parameters()]

    def call() -> Any:
        for leaf in leaves:
            leaf.grad = None
        out = layer(x)
        loss = (out[0] if isinstance(out, tuple) else out).abs().mean()
        loss.backward()
        return loss

    return call


def fusewire_maker(build: Build) -> Maker:
    def make(inputs: Inputs) -> Call:
        layer = build(fw)
        layer.load_state_dict({k: fw.tensor(v) for k, v in inputs["weights"].items()}, strict=False)
        return called(layer, fw.tensor(inputs["x"], requires_grad=True))

    return make


def torch_maker(build: Build) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        layer = build(torch)
        layer.load_state_dict({k: torch.tensor(v) for k, v in inputs["weights"].items()},
                              strict=False)
        return called(layer, torch.tensor(inputs["x"], requires_grad=True))

    return make


WORKLOADS = [
    Workload(f"{name}_eager", f"{name} of {shape}, forward and backward, eagerly",
             inputs_of(build, shape),
             {"fusewire eager": fusewire_maker(build), "torch": torch_maker(build)},
             tolerance=0.1 if name == "dropout" else 1e-3)  # whose zeros differ
    for name, (build, shape) in LAYERS.items()
]
