"""A small network on one row of four numbers, where the overhead of a call counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import fusewire as fw

from ..peers import fusewire_maker, jax_maker, onnx_makers, torch_maker
from ..workload import Call, Inputs, Maker, Workload
from .weights import linear_layers, normal

SIZES, LAYERS = (4, 64, 64, 2), (0, 2, 4)

GRAPH = """policy (float[1,4] x) => (float[1,2] y) {
    a = Gemm<transB=1>(x, w0, b0)
    b = Tanh(a)
    c = Gemm<transB=1>(b, w2, b2)
    d = Tanh(c)
    y = Gemm<transB=1>(d, w4, b4)
}"""


def inputs() -> Inputs:
    """One observation, and the layers' weights under torch's names."""
    return {"x": normal(8, 1, SIZES[0]), "weights": linear_layers(SIZES, LAYERS)}


def network(nn: Any) -> Any:
    """The model, built of the layers of either library."""
    first, second, third = (nn.Linear(m, n) for m, n in pairwise(SIZES))
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), third).requires_grad_(False)


def fusewire(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        model = network(fw.nn)
        model.load_state_dict(inputs["weights"])
        return fusewire_maker(model.forward, compiled)({"x": inputs["x"]})

    return make


def torch(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        model = network(torch.nn)
        model.load_state_dict({k: torch.from_numpy(v) for k, v in inputs["weights"].items()})
        return torch_maker(lambda: model, compiled)({"x": inputs["x"]})

    return make


def scores(library: Any, weights: Inputs, x: Any) -> Any:
    """The model as formulas, for NumPy and jax."""
    for i in LAYERS:
        x = x @ weights[f"{i}.weight"].T + weights[f"{i}.bias"]
        x = library.tanh(x) if i != LAYERS[-1] else x
    return x


def jax(inputs: Inputs) -> Call:
    def factory() -> Any:
        import jax

        weights = jax.tree.map(jax.numpy.asarray, inputs["weights"])
        return lambda x: scores(jax.numpy, weights, x)

    return jax_maker(factory)({"x": inputs["x"]})


def numpy(inputs: Inputs) -> Call:
    return lambda: scores(np, inputs["weights"], inputs["x"])


def constants(inputs: Inputs) -> Inputs:
    return {f"{kind[0]}{i}": inputs["weights"][f"{i}.{kind}"]
            for i in LAYERS for kind in ("weight", "bias")}


WORKLOADS = [Workload(
    name="policy_latency",
    about="4-64-64-2 with tanh, batch 1",
    inputs=inputs,
    makers={"fusewire": fusewire(True), "fusewire eager": fusewire(False),
            "torch": torch(False), "torch.compile": torch(True), "jax.jit": jax,
            "numpy": numpy, **onnx_makers(GRAPH, constants)},
)]
