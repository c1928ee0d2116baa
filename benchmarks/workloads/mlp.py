"""Three linear layers, 784-512-512-10, on a batch of 128: scores, and a training step with Adam."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import fusewire as fw
from fusewire import nn

from ..peers import fusewire_maker, onnx_makers
from ..training import trainings
from ..workload import Call, Inputs, Maker, Workload
from .weights import linear_layers, normal

BATCH, SIZES, LAYERS = 128, (784, 512, 512, 10), (0, 2, 4)
PRODUCTS = [m * n for m, n in pairwise(SIZES)]
PARAMETERS = sum(PRODUCTS) + sum(SIZES[1:])

GRAPH = """mlp (float[N,784] x) => (float[N,10] y) {
    a = Gemm<transB=1>(x, w0, b0)
    b = Relu(a)
    c = Gemm<transB=1>(b, w2, b2)
    d = Relu(c)
    y = Gemm<transB=1>(d, w4, b4)
}"""


def inputs() -> Inputs:
    """Random images and labels, and the layers' weights under torch's names."""
    labels = np.random.default_rng(7).integers(0, 10, BATCH)
    return {"x": normal(6, BATCH, 784), "labels": labels,
            "weights": linear_layers(SIZES, LAYERS)}


def fusewire(inputs: Inputs) -> nn.Sequential:
    layers = [nn.Linear(m, n) for m, n in pairwise(SIZES)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    model.load_state_dict(inputs["weights"])
    return model


def torch(inputs: Inputs) -> Any:
    import torch
    from torch import nn

    layers = [nn.Linear(m, n) for m, n in pairwise(SIZES)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    model.load_state_dict({k: torch.tensor(v) for k, v in inputs["weights"].items()})
    return model


def jax(inputs: Inputs) -> Any:
    import jax

    def scores(w: Any, x: Any, key: Any = None) -> Any:
        for i in LAYERS:
            x = x @ w[f"{i}.weight"].T + w[f"{i}.bias"]
            x = jax.nn.relu(x) if i != LAYERS[-1] else x
        return x

    return scores


def fusewire_infer(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        with fw.no_grad():
            call = fusewire_maker(fusewire(inputs).forward, compiled)({"x": inputs["x"]})
        return _without_gradients(call)

    return make


class _without_gradients:
    """The call under no_grad; `func` is the called function, as in functools.partial."""

    def __init__(self, call: Any) -> None:
        self.call, self.func = call, call.func

    def __call__(self) -> Any:
        with fw.no_grad():
            return self.call()


def torch_infer(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch as library

        model, x = torch(inputs).eval(), library.from_numpy(inputs["x"])
        model = library.compile(model) if compiled else model
        mode = library.no_grad if compiled else library.inference_mode

        def call() -> Any:
            with mode():
                return model(x)

        return call

    return make


def jax_infer(inputs: Inputs) -> Call:
    import jax as library

    run = library.jit(jax(inputs))
    weights, x = library.tree.map(library.numpy.asarray, (inputs["weights"], inputs["x"]))
    return lambda: library.block_until_ready(run(weights, x))


def constants(inputs: Inputs) -> Inputs:
    return {f"{kind[0]}{i}": inputs["weights"][f"{i}.{kind}"]
            for i in LAYERS for kind in ("weight", "bias")}


WORKLOADS = [
    Workload(
        name="mlp_train_step",
        about="784-512-512-10, batch 128: forward, cross entropy, backward, Adam",
        inputs=inputs,
        makers=trainings(fusewire, torch, jax, "Adam", 1e-3),
        flops=2 * BATCH * (3 * sum(PRODUCTS) - PRODUCTS[0]),
        size=28 * PARAMETERS,
        tolerance=2e-3,
        training=True,
        memory=True,
    ),
    Workload(
        name="mlp_infer",
        about="784-512-512-10, batch 128: scores",
        inputs=inputs,
        makers={
            "fusewire": fusewire_infer(True), "fusewire eager": fusewire_infer(False),
            "torch": torch_infer(False), "torch.compile": torch_infer(True),
            "jax.jit": jax_infer, **onnx_makers(GRAPH, constants),
        },
        flops=2 * BATCH * sum(PRODUCTS),
        size=4 * (PARAMETERS + BATCH * (784 + 10)),
    ),
]
