"""A step of AdamW alone, over the parameters of a decoder: bound by memory; for a GPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import fusewire as fw

from .. import place
from ..training import UPDATES, stepper
from ..workload import Call, Inputs, Maker, Workload
from .weights import normal

LR = 1e-3


def shapes_of(layers: int, width: int) -> list[tuple[int, ...]]:
    """The parameters of layers of a decoder."""
    return layers * [(3 * width, width), (3 * width,), (width, width), (width,), (4 * width, width),
                     (4 * width,), (width, 4 * width), *5 * [(width,)]]


def _halves(inputs: Inputs) -> Iterator[list[Any]]:
    """The parameters, then their gradients."""
    return ([a for name, a in inputs.items() if name[0] == kind] for kind in "pg")


def fusewire(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        parameters, gradients = ([place.moved(fw.tensor(a)) for a in half]
                                 for half in _halves(inputs))
        optimizer = _given(fw, parameters, gradients)

        def step() -> Any:
            optimizer.step()
            return parameters[1].detach()

        return functools.partial(fw.compile(step) if compiled else step)

    return make


def torch(fused: bool, compiled: bool = False) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        parameters, gradients = ([place.moved(torch.tensor(a)) for a in half]
                                 for half in _halves(inputs))
        optimizer = _given(torch, parameters, gradients, fused=fused or None)
        step = torch.compile(optimizer.step) if compiled else optimizer.step

        def call() -> Any:
            step()
            return parameters[1].detach().clone()

        return call

    return make


def _given(library: Any, parameters: list[Any], gradients: list[Any], **how: Any) -> Any:
    for p, g in zip(parameters, gradients):
        p.requires_grad_().grad = g
    return stepper(library, parameters, "AdamW", lr=LR, **how)


def jax(inputs: Inputs) -> Call:
    import jax
    import jax.numpy as jnp

    parameters, gradients = ([jnp.array(a) for a in half] for half in _halves(inputs))
    zeros = functools.partial(jax.tree.map, jnp.zeros_like, parameters)
    state = [(parameters, zeros(), zeros(), jnp.float32(0))]
    run = jax.jit(lambda state, gradients: UPDATES["AdamW"](*state, gradients, LR),
                  donate_argnums=0)
    wait = place.unless_queued(jax.block_until_ready)

    def call() -> Any:
        state[0] = run(state[0], gradients)
        return wait(state[0][0][1])

    return call


def workload(layers: int, width: int) -> Workload:
    shapes = shapes_of(layers, width)
    count = sum(math.prod(shape) for shape in shapes)

    def inputs() -> Inputs:
        return {f"{kind}{i}": normal(seed + i, *shape)
                for kind, seed in (("p", 0), ("g", 1000)) for i, shape in enumerate(shapes)}

    return Workload(
        name="adamw_step",
        about=f"AdamW on {len(shapes)} parameters of {count / 1e6:.0f} million numbers",
        inputs=inputs,
        makers={"fusewire": fusewire(True), "fusewire eager": fusewire(False),
                "torch": torch(False), "torch fused": torch(True),
                "torch.compile": torch(False, True), "jax.jit": jax},
        flops=20 * count,
        size=28 * count,  # a parameter and its two means are read and written, a gradient is read
        training=True,
    )


ON_GPU = [workload(12, 768)]
