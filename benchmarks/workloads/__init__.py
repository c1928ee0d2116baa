"""Lists all workloads by name, in the order of the tables: for the CPU, and larger for a GPU."""

from __future__ import annotations

from ..workload import Workload
from . import (
    attention,
    black_scholes,
    call_cost,
    calls,
    compile_time,
    convolution,
    cross_entropy,
    data_dependent,
    digits_step,
    dynamic_batch,
    dynamic_length,
    eager_layers,
    embedding,
    gelu_bias_residual,
    gpt,
    gpt_decode,
    large_ops,
    layernorm,
    loader,
    lstm,
    matmul,
    matmul_bf16,
    matmul_int8,
    mlp,
    mlp_eager,
    mobilenet,
    optimizer_step,
    policy_latency,
    quantized,
    reductions,
    resnet,
    small_ops,
    softmax_rows,
    sorting,
)

_MODULES = (digits_step, mlp, mlp_eager, gelu_bias_residual, black_scholes, softmax_rows,
            layernorm, cross_entropy, matmul, matmul_bf16, matmul_int8, sorting, dynamic_batch,
            dynamic_length, policy_latency, data_dependent, attention, gpt, gpt_decode,
            convolution, mobilenet, resnet, quantized, lstm, small_ops, eager_layers, large_ops,
            calls, call_cost, compile_time, loader)

_FOR_GPUS = (gelu_bias_residual, black_scholes, softmax_rows, layernorm, reductions, cross_entropy,
             embedding, optimizer_step, matmul, attention, convolution, resnet, gpt)

WORKLOADS: dict[str, Workload] = {w.name: w for m in _MODULES for w in m.WORKLOADS}
ON_GPU: dict[str, Workload] = {w.name: w for m in _FOR_GPUS for w in m.ON_GPU}
