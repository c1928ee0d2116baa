"""The product of matmul.py of numbers in bfloat16, to a result in bfloat16."""

from __future__ import annotations

import functools
from dataclasses import replace

import fusewire as fw

from ..peers import jax_maker
from ..workload import Call, Inputs, Maker, Workload
from .matmul import SIZE, factory, inputs, product


def fusewire(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        a, b = (fw.from_numpy(array).to(fw.bfloat16) for array in inputs.values())
        return functools.partial(fw.compile(product) if compiled else product, a, b)

    return make


def dot(inputs: Inputs) -> Call:
    """The compiled product by the processor's instruction for bfloat16, where it has one."""
    call = fusewire(True)(inputs)
    fw.settings.bf16_dot = True
    for _ in range(2):  # recorded, and compiled
        call()
    fw.settings.bf16_dot = False
    return call


def torch(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        a, b = (torch.from_numpy(array).bfloat16() for array in inputs.values())
        return functools.partial(torch.compile(factory()) if compiled else factory(), a, b)

    return make


def jax(inputs: Inputs) -> Call:
    import jax

    halves = {name: jax.numpy.asarray(a, "bfloat16") for name, a in inputs.items()}
    return jax_maker(factory)(halves)


OTHERS: dict[str, Maker] = {"torch": torch(False), "torch.compile": torch(True), "jax.jit": jax}
USUAL = Workload(
    name="matmul_bf16_1024",
    about=f"a @ b of bfloat16, {SIZE} by {SIZE}; the limit is that of float32's multiply-adds",
    inputs=inputs,
    makers={"fusewire": fusewire(True), "fusewire eager": fusewire(False), **OTHERS},
    flops=2 * SIZE ** 3,
    size=6 * SIZE ** 2,
    tolerance=1e-2,  # of 256 steps between 1 and 2
)
WORKLOADS = [USUAL, replace(
    USUAL, name="matmul_bf16_dot_1024", about=f"{USUAL.about}; with the setting bf16_dot",
    makers={"fusewire": dot, **OTHERS})]
