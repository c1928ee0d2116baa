"""Llama: Touvron et al., arXiv 2302.13971, with the parameter names of the published checkpoints.

Weights: the `model.safetensors` of Llama 2 and 3 and of models built alike.
"""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


def rotated(x: fw.Tensor, base: float) -> fw.Tensor:
    """`x` (n, heads, length, d) turned by angles that grow with the position: arXiv 2104.09864."""
    length, d = x.shape[-2:]
    rates = base ** (fw.arange(0, d, 2, dtype=fw.float32) / -d)
    angles = fw.arange(length, dtype=fw.float32)[:, None] * rates
    cos, sin = fw.cos(angles), fw.sin(angles)
    first, second = x[..., :d // 2], x[..., d // 2:]
    return fw.concat([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, key_heads: int, base: float) -> None:
        super().__init__()
        size = width // heads
        self.heads, self.key_heads, self.base = heads, key_heads, base
        self.q_proj = nn.Linear(width, heads * size, bias=False)
        self.k_proj = nn.Linear(width, key_heads * size, bias=False)
        self.v_proj = nn.Linear(width, key_heads * size, bias=False)
        self.o_proj = nn.Linear(heads * size, width, bias=False)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        n, length, width = x.shape
        query, key, value = (
            part(x).reshape(n, length, heads, -1).permute_dims((0, 2, 1, 3))
            for part, heads in ((self.q_proj, self.heads), (self.k_proj, self.key_heads),
                                (self.v_proj, self.key_heads)))
        out = F.scaled_dot_product_attention(
            rotated(query, self.base), rotated(key, self.base), value, is_causal=True,
            enable_gqa=True)
        return self.o_proj(out.permute_dims((0, 2, 1, 3)).reshape(n, length, width))


class MLP(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, key_heads: int, base: float) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(width, heads, key_heads, base), MLP(width, inner)
        self.input_layernorm = nn.RMSNorm(width, eps=1e-6)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary: int, width: int, inner: int, layers: int, heads: int,
                 key_heads: int, base: float) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            [Layer(width, inner, heads, key_heads, base) for _ in range(layers)])
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, tokens: fw.Tensor) -> fw.Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Llama(nn.Module):
    """Token numbers (n, length) to the logits of the next token (n, length, vocabulary)."""

    def __init__(self, vocabulary: int = 32000, width: int = 4096, inner: int = 11008,
                 layers: int = 32, heads: int = 32, key_heads: int = 32,
                 base: float = 10000.0) -> None:
        super().__init__()
        self.model = Decoder(vocabulary, width, inner, layers, heads, key_heads, base)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: fw.Tensor) -> fw.Tensor:
        return self.lm_head(self.model(tokens))
