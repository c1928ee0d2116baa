"""The three layers of mlp.py on batches of 1, 2, 3, ... rows, for the cost of a new size.

One call runs all batches. The cold time is that of the first such call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import fusewire as fw

from ..peers import onnx_session
from ..workload import Call, Inputs, Maker, Workload
from . import mlp
from .weights import normal

SIZES = range(1, 65)


def inputs() -> Inputs:
    x = normal(6, SIZES[-1], mlp.SIZES[0])
    return {"batches": [x[:size].copy() for size in SIZES], "weights": mlp.inputs()["weights"]}


class Sweep:
    """A call with each batch; `func` is the called function, as in functools.partial."""

    def __init__(self, func: Callable[[Any], Any], batches: Iterable[Any]) -> None:
        self.func, self.batches = func, list(batches)

    def __call__(self) -> list[Any]:
        return [self.func(batch) for batch in self.batches]


def fusewire(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        model = mlp.fusewire(inputs).requires_grad_(False)
        run = fw.compile(model.forward) if compiled else model
        return Sweep(run, map(fw.from_numpy, inputs["batches"]))

    return make


def torch(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        model = mlp.torch(inputs).eval()
        run = torch.compile(model) if compiled else model
        sweep = Sweep(run, map(torch.from_numpy, inputs["batches"]))
        mode = torch.no_grad if compiled else torch.inference_mode

        def call() -> Any:
            with mode():
                return sweep()

        return call

    return make


def jax(inputs: Inputs) -> Call:
    import jax

    run = jax.jit(mlp.jax(inputs))
    weights = jax.tree.map(jax.numpy.asarray, inputs["weights"])
    return Sweep(lambda x: jax.block_until_ready(run(weights, x)),
                 map(jax.numpy.asarray, inputs["batches"]))


def onnx(inputs: Inputs) -> Call:
    session = onnx_session(mlp.GRAPH, mlp.constants(inputs))
    return Sweep(lambda x: session.run(["y"], {"x": x}), inputs["batches"])


WORKLOADS = [Workload(
    name="dynamic_batch",
    about=f"784-512-512-10, {len(SIZES)} calls with batches of {SIZES[0]} to {SIZES[-1]}",
    inputs=inputs,
    makers={"fusewire": fusewire(True), "fusewire eager": fusewire(False),
            "torch": torch(False), "torch.compile": torch(True), "jax.jit": jax,
            "onnxruntime": onnx},
    flops=2 * sum(SIZES) * sum(mlp.PRODUCTS),
    cold_calls=1,
)]
