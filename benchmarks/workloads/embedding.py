"""The gradient of an embedding, which adds rows at repeated indices; for a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

import fusewire as fw
from fusewire.nn import functional as F

from .. import place
from ..peers import fusewire_maker, jax_maker
from ..workload import Call, Inputs, Maker, Workload
from .weights import normal


def fusewire(w: Any, tokens: Any, dy: Any) -> Any:
    w = w.detach().requires_grad_()
    return fw.grad(F.embedding(tokens, w), [w], dy)


def torch(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        w, tokens, dy = (place.moved(torch.from_numpy(a)) for a in inputs.values())
        w.requires_grad_()
        chosen = torch.nn.functional.embedding
        chosen = torch.compile(chosen) if compiled else chosen
        return lambda: torch.autograd.grad(chosen(tokens, w), w, dy)

    return make


def jax() -> Any:
    import jax

    return lambda w, tokens, dy: jax.vjp(lambda w: w[tokens], w)[1](dy)


def workload(words: int, width: int, tokens: int) -> Workload:
    def inputs() -> Inputs:
        """Tokens, some of them frequent, most of them absent."""
        chosen = np.random.default_rng(14).zipf(1.3, tokens) % words
        return {"w": normal(13, words, width), "tokens": chosen, "dy": normal(15, tokens, width)}

    return Workload(
        name="embedding_gradient",
        about=f"the gradient of {words} rows of {width}, of which {tokens} are chosen",
        inputs=inputs,
        makers={"fusewire": fusewire_maker(fusewire, True),
                "fusewire eager": fusewire_maker(fusewire, False),
                "torch": torch(False), "torch.compile": torch(True), "jax.jit": jax_maker(jax)},
        flops=tokens * width,
        size=4 * (words + tokens) * width,
    )


ON_GPU = [workload(50_257, 768, 16_384)]
