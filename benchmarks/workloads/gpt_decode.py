"""One more token of a text: all weights and the cache of keys and values are read for one row."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw

from ..modules import loaded, weights_of
from ..peers import fusewire_maker, onnx_file, torch_maker
from ..workload import Call, Inputs, Maker, Workload
from .gpt import Attend, Shape, jax_scores, model_of
from .weights import normal

GPT2 = Shape(12, 768, 12, 512, 50_257)
CACHE = (GPT2.layers, 1, GPT2.heads, GPT2.length, GPT2.width // GPT2.heads)


def inputs() -> Inputs:
    """The token at the last position, and the cache of the earlier ones."""
    keys, values = normal(1, *CACHE), normal(2, *CACHE)
    keys[..., -1, :] = values[..., -1, :] = 0.0
    return {"x": np.array([[4711]]), "position": np.array([GPT2.length - 1]), "keys": keys,
            "values": values, "weights": weights_of(model, 0.02)}


def model(library: Any) -> Any:
    return model_of(GPT2, library)


def decoder(library: Any, inputs: Inputs, tensor: Callable[[Any], Any]) -> Any:
    """The model with a cache that it updates: token and position -> scores."""
    attention = library.nn.functional.scaled_dot_product_attention

    class Decoder(library.nn.Module):
        def __init__(self, inputs: Inputs) -> None:
            super().__init__()
            self.model = loaded(model, library, inputs, tensor)
            for i in range(GPT2.layers):
                self.register_buffer(f"keys{i}", tensor(inputs["keys"][i]))
                self.register_buffer(f"values{i}", tensor(inputs["values"][i]))

        def forward(self, x: Any, position: Any) -> Any:
            past = library.arange(GPT2.length)[None] <= position
            attends = [self.attend(i, position, past) for i in range(GPT2.layers)]
            return self.model.scores(x, position, attends)

        def attend(self, i: int, position: Any, past: Any) -> Attend:
            keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")

            def attend(q: Any, k: Any, v: Any) -> Any:
                keys[:, :, position] = k
                values[:, :, position] = v
                return attention(q, keys, values, attn_mask=past)

            return attend

    return Decoder(inputs).requires_grad_(False).eval()


class Stateless(fw.nn.Module):
    """The model without state: it takes old keys and values, and returns those of the token."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.model = loaded(model, fw, inputs, fw.tensor)

    def forward(self, x: Any, position: Any, keys: Any, values: Any) -> Any:
        added: list[Any] = []

        def attend(q: Any, k: Any, v: Any, i: int) -> Any:
            added.extend((k, v))
            k, v = fw.concat([keys[i], k], 2), fw.concat([values[i], v], 2)
            return fw.nn.functional.scaled_dot_product_attention(q, k, v)

        attends = [functools.partial(attend, i=i) for i in range(GPT2.layers)]
        return self.model.scores(x, position, attends), *added


def fusewire(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        given = {name: inputs[name] for name in ("x", "position")}
        return fusewire_maker(decoder(fw, inputs, fw.tensor).forward, compiled)(given)

    return make


def torch(compiled: bool) -> Maker:
    def make(inputs: Inputs) -> Call:
        import torch

        given = {name: inputs[name] for name in ("x", "position")}
        return torch_maker(lambda: decoder(torch, inputs, torch.tensor), compiled)(given)

    return make


def jax(inputs: Inputs) -> Call:
    """The model in jax, with a donated cache, which it can update in place."""
    import jax

    def step(w: Any, x: Any, position: Any, cache: Any) -> Any:
        past = jax.numpy.arange(GPT2.length) <= position
        cache = list(cache)

        def attend(q: Any, k: Any, v: Any, i: int) -> Any:
            cache[i] = tuple(jax.lax.dynamic_update_slice_in_dim(old, new, position[0], 1)
                             for old, new in zip(cache[i], (k, v)))
            return jax.nn.dot_product_attention(q, *cache[i], mask=past[None, None, None])

        attends = [functools.partial(attend, i=i) for i in range(GPT2.layers)]
        return jax_scores(GPT2, w, x, position, attends), cache

    run = jax.jit(step, donate_argnums=3)
    weights, x, position, *cache = jax.tree.map(jax.numpy.asarray, (
        inputs["weights"], inputs["x"], inputs["position"],
        *(np.swapaxes(inputs[name], 2, 3) for name in ("keys", "values"))))
    state = [list(zip(*cache))]

    def call() -> Any:
        scores, state[0] = run(weights, x, position, state[0])
        return jax.block_until_ready(scores)

    return call


def onnx(inputs: Inputs) -> Call:
    given = {"x": inputs["x"], "position": inputs["position"],
             **{name: inputs[name][..., :-1, :].copy() for name in ("keys", "values")}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        fw.onnx.export(Stateless(inputs), tuple(map(fw.from_numpy, given.values())), path,
                       opset=20, input_names=list(given), verify=False)
        call = onnx_file(path, given)
    return lambda: call()[0]


WORKLOADS = [Workload(
    name="gpt_decode",
    about=f"{GPT2.layers} layers of {GPT2.width}, {GPT2.words} words: one token behind a cache of "
          f"{GPT2.length - 1}, batch 1",
    inputs=inputs,
    makers={"fusewire": fusewire(True), "fusewire eager": fusewire(False),
            "torch": torch(False), "torch.compile": torch(True), "jax.jit": jax,
            "onnxruntime": onnx},
    flops=2 * GPT2.weights,
    size=4 * (GPT2.weights + 2 * GPT2.layers * GPT2.length * GPT2.width),
)]
