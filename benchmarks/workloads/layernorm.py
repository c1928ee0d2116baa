"""Layer normalization and its gradients; fusewire composes them of means and arithmetic."""

from __future__ import annotations

from typing import Any

import fusewire as fw

from ..peers import fusewire_maker, jax_maker, pure, torch_gradients
from ..workload import Inputs, Workload
from .weights import normal

COLUMNS, EPS = 768, 1e-5


def graph(rows: int) -> str:
    return f"""norm (float[{rows},{COLUMNS}] x, float[{COLUMNS}] w, float[{COLUMNS}] b)
    => (float[{rows},{COLUMNS}] y) {{
    y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, b)
}}"""


def fusewire(x: Any, w: Any, b: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * fw.rsqrt(variance + EPS) * w + b


def fusewire_train(x: Any, w: Any, b: Any, dy: Any) -> Any:
    x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
    y = fusewire(x, w, b)
    return (y.detach(), *fw.grad(y, [x, w, b], dy))


def torch() -> Any:
    from torch.nn import functional

    return lambda x, w, b: functional.layer_norm(x, (COLUMNS,), w, b, EPS)


def jax() -> Any:
    from jax import lax

    def norm(x: Any, w: Any, b: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * lax.rsqrt(variance + EPS) * w + b

    return norm


def jax_train() -> Any:
    import jax as library

    def both(x: Any, w: Any, b: Any, dy: Any) -> Any:
        y, back = library.vjp(jax(), x, w, b)
        return (y, *back(dy))

    return both


def workloads(rows: int) -> list[Workload]:
    def inputs() -> Inputs:
        return {"x": normal(4, rows, COLUMNS), "w": 1 + normal(5, COLUMNS, scale=0.1),
                "b": normal(6, COLUMNS, scale=0.1)}

    def train_inputs() -> Inputs:
        return inputs() | {"dy": normal(7, rows, COLUMNS)}

    return [
        Workload(
            name="layernorm",
            about=f"layer normalization of {rows} rows of {COLUMNS}",
            inputs=inputs,
            makers=pure(fusewire, torch, jax, graph(rows)),
            flops=9 * rows * COLUMNS,
            size=8 * rows * COLUMNS,
            kept=True,
        ),
        Workload(
            name="layernorm_train",
            about="the same and the gradients of all its inputs",
            inputs=train_inputs,
            makers={
                "fusewire": fusewire_maker(fusewire_train, True),
                "fusewire eager": fusewire_maker(fusewire_train, False),
                "torch": torch_gradients(torch, "xwb", False),
                "torch.compile": torch_gradients(torch, "xwb", True),
                "jax.jit": jax_maker(jax_train),
            },
            flops=20 * rows * COLUMNS,
            size=16 * rows * COLUMNS,
            kept=True,
            memory=True,
        ),
    ]


WORKLOADS, ON_GPU = workloads(8192), workloads(1 << 16)
