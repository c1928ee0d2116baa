"""Causal attention of several heads: its results, and the gradients of all three inputs."""

from __future__ import annotations

from typing import Any

import fusewire as fw
from fusewire.nn import functional as F

from ..modules import inferences
from ..peers import fusewire_maker, jax_maker, torch_gradients
from ..workload import Inputs, Workload
from .weights import normal

WIDTH = 64  # of a head


def module(library: Any) -> Any:
    """Attention as a module of a library."""
    class Attention(library.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            attention = library.nn.functional.scaled_dot_product_attention
            return attention(q, k, v, is_causal=True)

    return Attention()


def jax(weights: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention in jax, faster than jax's own function, which takes heads after positions."""
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * WIDTH ** -0.5
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(seen, scores, -1e30), -1), v)


def fusewire_train(q: Any, k: Any, v: Any, dy: Any) -> Any:
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return (y.detach(), *fw.grad(y, [q, k, v], dy))


def torch() -> Any:
    import torch as library

    return module(library)


def jax_train() -> Any:
    import jax as library

    def both(q: Any, k: Any, v: Any, dy: Any) -> Any:
        y, back = library.vjp(lambda q, k, v: jax(None, q, k, v), q, k, v)
        return (y, *back(dy))

    return both


def workloads(batch: int, heads: int, length: int) -> list[Workload]:
    pairs = batch * heads * length * (length + 1) // 2  # of a query and a key that is not masked
    product, exponentials = 2 * pairs * WIDTH, 20 * pairs
    array = 4 * batch * heads * length * WIDTH  # bytes of queries, keys, values or answers

    def given() -> Inputs:
        return {name: normal(9 + i, batch, heads, length, WIDTH) for i, name in enumerate("qkv")}

    def inputs() -> Inputs:
        return given() | {"weights": {}}

    def train_inputs() -> Inputs:
        return given() | {"dy": normal(20, batch, heads, length, WIDTH)}

    return [
        Workload(
            name="attention_infer",
            about=f"causal attention, batch {batch}, {heads} heads of {WIDTH}, {length} positions",
            inputs=inputs,
            makers=inferences(module, jax),
            flops=2 * product + exponentials,
            size=4 * array,
            kept=True,
        ),
        Workload(
            name="attention_train",
            about="the same and the gradients of queries, keys and values",
            inputs=train_inputs,
            makers={
                "fusewire": fusewire_maker(fusewire_train, True),
                "fusewire eager": fusewire_maker(fusewire_train, False),
                "torch": torch_gradients(torch, "qkv", False),
                "torch.compile": torch_gradients(torch, "qkv", True),
                "jax.jit": jax_maker(jax_train),
            },
            # the backward computes the softmax again
            flops=7 * product + 2 * exponentials,
            size=8 * array,
            kept=True,
            memory=True,
        ),
    ]


WORKLOADS, ON_GPU = workloads(4, 8, 512), workloads(8, 16, 1024)
