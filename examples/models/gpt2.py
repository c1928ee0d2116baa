"""GPT-2: Radford et al., 2019, with the parameter names of the published checkpoints.

Weights: the `model.safetensors` of `openai-community/gpt2` and its larger siblings.
"""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


class Transposed(nn.Module):
    """x @ weight + bias: an affine map whose checkpoint stores the weight as (n_in, n_out)."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(fw.randn(n_in, n_out) * 0.02)
        self.bias = nn.Parameter(fw.zeros(n_out))

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = Transposed(width, 3 * width), Transposed(width, width)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        n, length, width = x.shape
        parts = self.c_attn(x).reshape(n, length, 3, self.heads, -1).permute_dims((2, 0, 3, 1, 4))
        query, key, value = parts[0], parts[1], parts[2]
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(out.permute_dims((0, 2, 1, 3)).reshape(n, length, width))


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = Transposed(width, 4 * width), Transposed(4 * width, width)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """Token numbers (n, length) to the logits of the next token (n, length, vocabulary)."""

    def __init__(self, vocabulary: int = 50257, positions: int = 1024, width: int = 768,
                 layers: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens: fw.Tensor) -> fw.Tensor:
        positions = fw.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T  # the embedding is the last layer too
