"""A language model's step with a cache of keys and values that grows: an input and an output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare

WORDS, WIDTH, HEADS, LAYERS, LONGEST = 20, 16, 2, 2, 12


class Block(nn.Module):
    """A layer of GPT-2, which reads the keys and values of the tokens before from a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: fw.Tensor, past: fw.Tensor, mask: fw.Tensor) -> Any:
        n, t, _ = x.shape
        q, k, v = (fw.moveaxis(p.reshape(n, t, HEADS, -1), 1, 2)
                   for p in self.qkv(self.first(x)).chunk(3, -1))
        k, v = fw.concat([past[0], k], 2), fw.concat([past[1], v], 2)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        x = x + self.out(fw.moveaxis(mixed, 1, 2).reshape(n, t, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.second(x)))), fw.stack([k, v])


class Step(nn.Module):
    """Tokens [n, t] and the cache [layer, key or value, n, head, past, width] to logits of the last
    token, and the cache with these tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])

    def forward(self, tokens: fw.Tensor, cache: fw.Tensor) -> Any:
        past, t = cache.shape[4], tokens.shape[1]
        at = fw.arange(past, past + t)
        mask = fw.arange(past + t)[None] <= at[:, None]
        x, kept = self.words(tokens) + self.places(at), []
        for block, each in zip(self.blocks, fw.unstack(cache)):
            x, new = block(x, each, mask)
            kept.append(new)
        return x[:, -1] @ self.words.weight.T, fw.stack(kept)


def empty(n: int, past: int = 0) -> Any:
    return np.zeros((LAYERS, 2, n, HEADS, past, WIDTH // HEADS), np.float32)


@pytest.fixture(params=[18, 23])
def step(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Step, Any, Any]:
    """A model, its export, and onnxruntime's (or the reference's) run of that."""
    fw.manual_seed(0)
    model, path = Step().eval(), tmp_path / "step.onnx"
    export(model, (fw.ones(2, 3, dtype=fw.int64), fw.from_numpy(empty(2, 4))), path,
           output_names=["logits", "cache_after"], opset=request.param, dynamic_shapes={
               "tokens": {0: "batch", 1: "new"}, "cache": {2: "batch", 4: "past"}})
    return model, onnx.load(path), compare.runner(path.read_bytes()).run


def test_writes_on_from_an_empty_cache(step: Any) -> None:
    """Four tokens at once, then one by one: as eager does, and as all tokens at once give."""
    model, _, run = step
    tokens = np.random.default_rng(0).integers(0, WORDS, (3, 4))
    cache, eager = empty(3), fw.from_numpy(empty(3))
    written, given = tokens, tokens
    for _ in range(6):
        logits, cache = run({"tokens": given, "cache": cache})
        with fw.no_grad():
            wanted, eager = model(fw.from_numpy(given), eager)
            whole, _ = model(fw.from_numpy(written), fw.from_numpy(empty(3)))
        np.testing.assert_allclose(logits, wanted.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(logits, whole.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(cache, eager.numpy(), rtol=1e-4, atol=1e-5)
        given = logits.argmax(-1)[:, None]
        written = np.concatenate([written, given], 1)
    assert cache.shape == (LAYERS, 2, 3, HEADS, 9, WIDTH // HEADS)


def test_the_model_tells_how_the_cache_grows(step: Any) -> None:
    _, model, _ = step
    shapes = {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
              for v in (*model.graph.input, *model.graph.output)}
    assert shapes["cache"] == [LAYERS, 2, "batch", HEADS, "past", WIDTH // HEADS]
    assert shapes["cache_after"][2] == "batch" and "past" in str(shapes["cache_after"][4])
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Attention") == (LAYERS if model.opset_import[0].version == 23 else 0)
