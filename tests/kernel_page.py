"""Writes docs/appendix/cuda_kernels.md: resources and memory traffic of the main GPU kernels.

    python tests/kernel_page.py > docs/appendix/cuda_kernels.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import numpy as np
from compiled_for_cuda import compile_on
from emulated import EmulatedDevice
from kinds import adam
from oracle import recorded, tensors

import fusewire as fw
import fusewire.nn.functional as F
from emulator.traffic import Traffic
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.eager.upper_layer import UPPER

HEAD = """# CUDA kernels: registers, shared memory and traffic

Written by `python tests/kernel_page.py > docs/appendix/cuda_kernels.md`, which a test checks.

Registers of a thread and bytes of shared memory are those of NVRTC 12.6 for sm_80 and sm_90. No
kernel spills registers to memory. The emulator counts the traffic of the first block. *sectors* is
the number of 32-byte sectors that its warps move, divided by the least number that holds the bytes
they request. *banks* is the number of accesses to shared memory, with those repeated for bank
conflicts, divided by the number without conflicts. 1 is ideal.

| what | kernel | blocks x threads | registers sm_80 / sm_90 | shared | sectors | banks |
|---|---|---|---|---|---|---|
"""


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_back(*args: Any) -> Any:
    own = [x.detach().requires_grad_() for x in args]
    return fw.grad(causal(*own).sum(), own)


def weight_gradient(x: Any, w: Any) -> Any:
    own = w.detach().requires_grad_()
    return fw.grad(F.conv2d(x, own, padding=1).sum(), own)


def six_updates(*args: Any) -> Any:
    """Updates of six parameters of two alternating sizes, with gradients and both averages."""
    return [adam(*args[n::6]) for n in range(6)]


Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {
    "bias and ReLU": (lambda x, b: fw.relu(x + b), ((512, 256), (256,))),
    "a transposed matrix": (lambda x: x.T * 2, ((256, 256),)),
    "softmax of rows": (lambda x: fw.softmax(x, -1), ((64, 1024),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, w.shape, w, b), ((64, 768), (768,), (768,))),
    "sums of columns": (lambda x: x.sum(0), ((4096, 64),)),
    "sum of everything": (lambda x: x.sum(), ((1 << 18,),)),
    "log-softmax of 50,000 classes": (lambda x: fw.log_softmax(x, -1)[:, 3], ((4, 50_000),)),
    "product, 256 by 256": (lambda x, y: x @ y, ((256, 256), (256, 256))),
    "product, both turned": (lambda x, y: x.T @ y.T, ((256, 256), (256, 256))),
    "product, 1536 by 1536": (lambda x, y: x @ y, ((1536, 32), (32, 1536))),
    "convolution, 3 by 3": (lambda x, w: F.conv2d(x, w, padding=1), ((4, 16, 28, 28),
                                                                    (32, 16, 3, 3))),
    "its gradient by the weight": (weight_gradient, ((4, 16, 28, 28), (32, 16, 3, 3))),
    "max pooling": (lambda x: F.max_pool2d(x, 2), ((4, 16, 28, 28),)),
    "causal attention": (causal, ((1, 2, 128, 64),) * 3),
    "its gradients": (causal_back, ((1, 2, 128, 64),) * 3),
    "Adam": (adam, ((1 << 14,),) * 4),
    "Adam, six parameters": (six_updates, ((1 << 14,), (500,)) * 12),
    "dropout": (lambda x: F.dropout(x, 0.5), ((256, 256),)),
    "running sums of rows": (lambda x: fw.cumulative_sum(x, axis=1), ((64, 1024),)),
    "order of rows": (lambda x: fw.argsort(x, axis=1), ((8, 1000),)),
}
OF_BFLOAT16: dict[str, Case] = {
    f"{name}, bfloat16": CASES[name] for name in (
        "product, 256 by 256", "product, both turned", "convolution, 3 by 3",
        "its gradient by the weight")}


def page() -> str:
    """The whole page."""
    tables = [rows(name, case, dtype) for cases, dtype in (
        (CASES, fw.float32), (OF_BFLOAT16, fw.bfloat16)) for name, case in cases.items()]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for table in tables for row in table)


def rows(name: str, case: Case, dtype: Any) -> Iterable[tuple[str, ...]]:
    """A row for each kernel of a case."""
    function, shapes = case
    rng = np.random.default_rng(0)
    fw.manual_seed(0)
    args = tensors([rng.standard_normal(shape).astype(dtype) for shape in shapes])
    with mock.patch.object(UPPER, "large_op", None):  # no native code for eager ops in the trace
        graph, arrays = recorded(function, *args)
    device = EmulatedDevice(traced=True)
    program = compile_on(graph, device)
    program(list(arrays))
    resources = [nvrtc.compile(program.code, arch).resources for arch in ("sm_80", "sm_90")]
    for f in program.program.module.functions:
        kernel_resources = [t[f.name] for t in resources]
        assert not any(r.spill_stores or r.spill_loads for r in kernel_resources), f.name
        registers = " / ".join(str(r.registers) for r in kernel_resources)
        moved = device.moved[f.name]
        yield (name, re.sub(r"^k\d+_", "", f.name), f"{f.grid} x {f.block}", registers,
               f"{kernel_resources[-1].shared + f.shared:,}", ratio(moved, "global"),
               ratio(moved, "shared"))


def ratio(moved: Iterable[Traffic], memory: str) -> str:
    """The memory traffic over the least possible traffic."""
    own = [t for t in moved if t.memory == memory]
    return f"{sum(t.cost for t in own) / sum(t.ideal for t in own):.2f}" if own else ""


if __name__ == "__main__":
    print(page(), end="")
