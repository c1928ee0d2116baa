"""The product of matmul.py with operands and result in bfloat16."""

from __future__ import annotations

from dataclasses import replace

import fusewire as fw

from ..peers import fusewire_maker, pure
from ..workload import Call, Inputs, Workload
from .matmul import SIZE, factory, inputs, product

DTYPE = "bfloat16"


def dot(inputs: Inputs) -> Call:
    """The compiled product with the processor's instruction for bfloat16, if it has one."""
    call = fusewire_maker(product, True, DTYPE)(inputs)
    fw.settings.bf16_dot = True
    for _ in range(2):  # recorded, and compiled
        call()
    fw.settings.bf16_dot = False
    return call


USUAL = Workload(
    name="matmul_bf16_1024",
    about=f"a @ b of bfloat16, {SIZE} by {SIZE}; the limit is that of float32's multiply-adds",
    inputs=inputs,
    makers=pure(product, factory, factory, dtype=DTYPE),
    flops=2 * SIZE ** 3,
    size=6 * SIZE ** 2,
    tolerance=1e-2,  # of 256 steps between 1 and 2
)
_OTHERS = {name: make for name, make in USUAL.makers.items() if not name.startswith("fusewire")}
WORKLOADS = [USUAL, replace(
    USUAL, name="matmul_bf16_dot_1024", about=f"{USUAL.about}; with the setting bf16_dot",
    makers={"fusewire": dot, **_OTHERS})]
