"""Layers run eagerly, forward and backward: sizes at which the calls of ops take time too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusewire as fw

from ..workload import Call, Inputs, Maker, Workload
from .weights import normal

Build = Callable[[Any], Any]  # of `nn`, fusewire's or torch's, to a module


def block(nn: Any) -> Any:
    """Convolution, batch normalization, ReLU, pooling."""
    return nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.MaxPool2d(2))


LAYERS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "conv_block": (block, (8, 16, 28, 28)),
    "batch_norm": (lambda nn: nn.BatchNorm2d(64), (8, 64, 28, 28)),
    "max_pool": (lambda nn: nn.MaxPool2d(3, 2, 1), (8, 64, 56, 56)),
    "lstm": (lambda nn: nn.LSTM(64, 128), (50, 8, 64)),
    "attention": (lambda nn: nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True),
                  (8, 32, 64)),
    "gelu": (lambda nn: nn.GELU(), (64, 1024)),
    "dropout": (lambda nn: nn.Dropout(0.5), (32, 64)),
}


def inputs_of(build: Build, shape: tuple[int, ...]) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        weights = {name: normal(seed, *p.shape, scale=0.1)
                   for seed, (name, p) in enumerate(build(fw.nn).named_parameters(), 1)}
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
        layer = build(fw.nn)
        layer.load_state_dict({k: fw.tensor(v) for k, v in inputs["weights"].items()}, strict=False)
        return called(layer, fw.tensor(inputs["x"], requires_grad=True))

    return make


def torch_maker(build: Build) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        layer = build(torch.nn)
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
