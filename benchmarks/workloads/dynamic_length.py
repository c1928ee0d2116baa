"""A recurrent network in plain Python over sequences of many lengths, which collects its outputs.

One call runs all sequences. The cold time is that of the first such call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusewire as fw

from ..workload import Call, Inputs, Maker, Workload
from .dynamic_batch import Sweep
from .weights import normal

LENGTHS = range(2, 42)
WIDTH = 64


def inputs() -> Inputs:
    x, weight = normal(7, LENGTHS[-1], WIDTH), normal(8, WIDTH, WIDTH) / WIDTH
    return {"sequences": [x[:length].copy() for length in LENGTHS], "weight": weight}


def network(library: Any, weight: Any) -> Callable[[Any], Any]:
    """The network with the functions of a library."""
    def run(x: Any) -> Any:
        h, out = library.zeros(WIDTH), []
        for row in x:
            h = library.tanh(row + h @ weight)
            out.append(h)
        return library.stack(out)

    return run


def fusewire(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        run = network(fw, fw.from_numpy(inputs["weight"]))
        return Sweep(fw.compile(run) if compiled else run,
                     map(fw.from_numpy, inputs["sequences"]))

    return make


def torch(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        run = network(torch, torch.from_numpy(inputs["weight"]))
        sweep = Sweep(torch.compile(run) if compiled else run,
                      map(torch.from_numpy, inputs["sequences"]))

        def call() -> Any:
            with torch.no_grad():
                return sweep()

        return call

    return make


def jax(inputs: Inputs) -> Call:
    """The loop as a scan, which is compiled once for each length."""
    import jax

    def scanned(weight: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = jax.numpy.tanh(row + h @ weight)
            return h, h

        return jax.lax.scan(step, jax.numpy.zeros(WIDTH), x)[1]

    run, weight = jax.jit(scanned), jax.numpy.asarray(inputs["weight"])
    return Sweep(lambda x: jax.block_until_ready(run(weight, x)),
                 map(jax.numpy.asarray, inputs["sequences"]))


WORKLOADS = [Workload(
    name="dynamic_length",
    about=f"recurrent network of {WIDTH} units, {len(LENGTHS)} calls with sequences of "
          f"{LENGTHS[0]} to {LENGTHS[-1]} rows",
    inputs=inputs,
    makers={"fusewire": fusewire(True), "fusewire eager": fusewire(False),
            "torch": torch(False), "torch.compile": torch(True), "jax.jit": jax},
    flops=2 * sum(LENGTHS) * WIDTH * WIDTH,
    cold_calls=1,
)]
