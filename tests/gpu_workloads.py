"""Builds the workloads of the GPU benchmarks in sizes for tests."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def small(workloads: ModuleType) -> dict[str, Any]:
    """A small instance of each workload, by name. `workloads`: the package benchmarks.workloads."""
    w: Any = workloads
    workloads_small = [
        w.gelu_bias_residual.workload(5), w.black_scholes.workload(700), w.softmax_rows.workload(5),
        *w.layernorm.workloads(6), *w.reductions.workloads(30, 7), w.cross_entropy.workload(9, 70),
        w.embedding.workload(50, 8, 30), w.optimizer_step.workload(1, 8), w.matmul.workload(33),
        *w.attention.workloads(2, 2, 20), w.convolution.workload(2, 8, 6),
        w.resnet.workloads(2, pixels=8)[0],
        w.gpt.workload(w.gpt.Shape(1, 16, 2, 8, 30), 2)]
    return {workload.name.replace("matmul_33", "matmul_4096"): workload
            for workload in workloads_small}
