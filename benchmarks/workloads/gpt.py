"""A decoder of GPT-2's kind, and a training step of a small one with AdamW."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..modules import model_trainings, weights_of
from ..workload import Inputs, Workload

Attend = Callable[[Any, Any, Any], Any]  # of queries, keys and values


@dataclass(frozen=True)
class Shape:
    """The size of a model: at most `length` positions, `words` in the vocabulary."""

    layers: int
    width: int
    heads: int
    length: int
    words: int

    @property
    def weights(self) -> int:
        """The number of weights in the products of a token."""
        return self.layers * 12 * self.width ** 2 + self.words * self.width


def model_of(shape: Shape, library: Any) -> Any:
    """The model of a library's modules (Radford et al. 2019): from tokens to scores.

    `scores` takes positions and, for each layer, the attention. A call is causal over all tokens.
    """
    nn, F, width = library.nn, library.nn.functional, shape.width

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, attend: Attend) -> Any:
            n, t, _ = x.shape
            q, k, v = (library.moveaxis(part.reshape(n, t, shape.heads, -1), 1, 2)
                       for part in self.mix(self.first(x)).chunk(3, -1))
            x = x + self.out(library.moveaxis(attend(q, k, v), 1, 2).reshape(n, t, width))
            return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(shape.words, width)
            self.positions = nn.Embedding(shape.length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(shape.layers)])
            self.last = nn.LayerNorm(width)
            self.head = nn.Linear(width, shape.words, bias=False)

        def forward(self, x: Any) -> Any:
            causal = functools.partial(F.scaled_dot_product_attention, is_causal=True)
            positions = library.arange(x.shape[1], device=x.device)
            scores = self.scores(x, positions, [causal] * shape.layers)
            return scores.reshape(-1, shape.words)

        def scores(self, x: Any, positions: Any, attends: list[Attend]) -> Any:
            x = self.words(x) + self.positions(positions)
            for block, attend in zip(self.blocks, attends):
                x = block(x, attend)
            return self.head(self.last(x))

    return Model()


def jax_scores(shape: Shape, w: Any, x: Any, positions: Any, attends: list[Attend]) -> Any:
    """The model in jax, with heads after positions, as jax's attention takes them."""
    import jax
    import jax.numpy as jnp

    def norm(name: str, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        deviation = jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(name: str, x: Any) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    n, t = x.shape
    x = w["words.weight"][x] + w["positions.weight"][positions]
    for i, attend in enumerate(attends):
        at = f"blocks.{i}"
        parts = jnp.split(linear(f"{at}.mix", norm(f"{at}.first", x)), 3, -1)
        q, k, v = (part.reshape(n, t, shape.heads, -1) for part in parts)
        x = x + linear(f"{at}.out", attend(q, k, v).reshape(n, t, shape.width))
        y = jax.nn.gelu(linear(f"{at}.up", norm(f"{at}.second", x)), approximate=True)
        x = x + linear(f"{at}.down", y)
    return norm("last", x) @ w["head.weight"].T


def workload(shape: Shape, batch: int) -> Workload:
    tokens = batch * shape.length
    attention = shape.layers * tokens * shape.length * shape.width  # of a product, half is skipped
    parameters = shape.weights + (shape.words + shape.length) * shape.width

    def model(library: Any) -> Any:
        return model_of(shape, library)

    def inputs() -> Inputs:
        """Random tokens, and the next of each as its label."""
        given = np.random.default_rng(10).integers(0, shape.words, (batch, shape.length + 1))
        return {"x": given[:, :-1].copy(), "labels": given[:, 1:].reshape(-1).copy(),
                "weights": weights_of(model, 0.02)}

    def jax(w: Any, x: Any) -> Any:
        import jax

        causal = functools.partial(jax.nn.dot_product_attention, is_causal=True)
        scores = jax_scores(shape, w, x, jax.numpy.arange(x.shape[1]), [causal] * shape.layers)
        return scores.reshape(-1, shape.words)

    return Workload(
        name="gpt_train_step",
        about=f"{shape.layers} layers of {shape.width}, {batch} times {shape.length} tokens: "
              "forward, cross entropy, backward, AdamW",
        inputs=inputs,
        makers=model_trainings(model, jax, "AdamW", 3e-4),
        flops=6 * tokens * shape.weights + 7 * attention,
        size=28 * parameters,
        tolerance=2e-3,
        training=True,
        memory=True,
    )


WORKLOADS = [workload(Shape(4, 256, 8, 256, 4096), 4)]
ON_GPU = [workload(Shape(6, 512, 8, 512, 32_768), 8)]
