"""BERT: Devlin et al., arXiv 1810.04805, with the parameter names of the published checkpoints.

Weights: the `model.safetensors` of `google-bert/bert-base-uncased`, names after `bert.`.
"""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


class Embeddings(nn.Module):
    def __init__(self, vocabulary: int, positions: int, kinds: int, width: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(positions, width)
        self.token_type_embeddings = nn.Embedding(kinds, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens: fw.Tensor, kinds: fw.Tensor) -> fw.Tensor:
        x = self.word_embeddings(tokens) + self.token_type_embeddings(kinds)
        x = x + self.position_embeddings(fw.arange(tokens.shape[1]))
        return self.dropout(self.LayerNorm(x))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None) -> fw.Tensor:
        n, length, width = x.shape
        query, key, value = (part(x).reshape(n, length, self.heads, -1).permute_dims((0, 2, 1, 3))
                             for part in (self.query, self.key, self.value))
        out = F.scaled_dot_product_attention(query, key, value, mask,
                                             dropout_p=0.1 if self.training else 0.0)
        return out.permute_dims((0, 2, 1, 3)).reshape(n, length, width)


class Output(nn.Module):
    """An affine map, added to what the block began with, and normalized."""

    def __init__(self, n_in: int, width: int) -> None:
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(n_in, width), nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: fw.Tensor, before: fw.Tensor) -> fw.Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + before)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(width, heads),
                                        "output": Output(width, width)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = Output(inner, width)

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None) -> fw.Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class BERT(nn.Module):
    """Token numbers (n, length) to a vector for each token and one for the whole, tanh'd.

    kinds: 0 or 1, the sentence of each token. mask: (n, length), True for tokens to look at.
    """

    def __init__(self, vocabulary: int = 30522, positions: int = 512, width: int = 768,
                 layers: int = 12, heads: int = 12, inner: int = 3072) -> None:
        super().__init__()
        self.embeddings = Embeddings(vocabulary, positions, 2, width)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList([Layer(width, heads, inner) for _ in range(layers)])})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})

    def forward(self, tokens: fw.Tensor, kinds: fw.Tensor | None = None,
                mask: fw.Tensor | None = None) -> tuple[fw.Tensor, fw.Tensor]:
        x = self.embeddings(tokens, fw.zeros_like(tokens) if kinds is None else kinds)
        seen = None if mask is None else mask.astype(fw.bool)[:, None, None, :]
        for layer in self.encoder["layer"]:
            x = layer(x, seen)
        return x, fw.tanh(self.pooler["dense"](x[:, 0]))
