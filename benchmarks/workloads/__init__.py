"""All workloads by name, in the order of the table."""

from __future__ import annotations

from ..workload import Workload
from . import (
    black_scholes,
    call_cost,
    calls,
    compile_time,
    cross_entropy,
    data_dependent,
    digits_step,
    dynamic_batch,
    eager_layers,
    gelu_bias_residual,
    large_ops,
    layernorm,
    loader,
    matmul,
    mlp,
    mlp_eager,
    policy_latency,
    small_ops,
    softmax_rows,
)

_MODULES = (digits_step, mlp, mlp_eager, gelu_bias_residual, black_scholes, softmax_rows,
            layernorm, cross_entropy, matmul, dynamic_batch, policy_latency, data_dependent,
            small_ops, eager_layers, large_ops, calls, call_cost, compile_time, loader)

WORKLOADS: dict[str, Workload] = {w.name: w for m in _MODULES for w in m.WORKLOADS}
