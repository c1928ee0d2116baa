"""DistilBERT: Sanh et al., arXiv 1910.01108, with the names of `DistilBertModel`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

from ..blocks.activations import ACTIVATIONS
from ..blocks.heads import merge_heads, split_heads
from ..blocks.padding import padding_mask
from ..config import Config
from ..pretrained_model import PretrainedModel


@dataclass(frozen=True)
class DistilBertConfig(Config):
    """The hyperparameters of DistilBERT."""

    vocab_size: int = 30522
    max_position_embeddings: int = 512
    n_layers: int = 6
    n_heads: int = 12
    dim: int = 768
    hidden_dim: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    pad_token_id: int = 0

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {"activation": tuple(ACTIVATIONS)}


class Embeddings(nn.Module):
    """The sum of the embeddings of tokens and of their positions."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.dim, config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.dim)
        self.LayerNorm = nn.LayerNorm(config.dim, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: fw.Tensor) -> fw.Tensor:
        positions = fw.arange(input_ids.shape[1], device=input_ids.device)[None]
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        return self.dropout(self.LayerNorm(x))


class Attention(nn.Module):
    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.n_heads, config.attention_dropout
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = (
            nn.Linear(config.dim, config.dim) for _ in range(4))

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None) -> fw.Tensor:
        query, key, value = (split_heads(layer(x), self.heads)
                             for layer in (self.q_lin, self.k_lin, self.v_lin))
        dropout = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, mask, dropout)
        return self.out_lin(merge_heads(out))


class FeedForward(nn.Module):
    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.lin1 = nn.Linear(config.dim, config.hidden_dim)
        self.lin2 = nn.Linear(config.hidden_dim, config.dim)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.dropout(self.lin2(self.activation(self.lin1(x))))


class Layer(nn.Module):
    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.sa_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)
        self.ffn = FeedForward(config)
        self.output_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None) -> fw.Tensor:
        x = self.sa_layer_norm(self.attention(x, mask) + x)
        return self.output_layer_norm(self.ffn(x) + x)


class DistilBert(PretrainedModel):
    """Tokens (n, length) to features (n, length, dim).

    Args of a call:
        input_ids: (n, length), int.
        attention_mask: (n, length), 1 or True for a token and 0 for padding. Default all ones.
    """

    CONFIG = DistilBertConfig
    OUTER_PREFIX = "distilbert."
    IGNORED = (r"vocab_.*", r"(pre_)?classifier\..*")

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.transformer = nn.ModuleDict({"layer": nn.ModuleList(
            [Layer(config) for _ in range(config.n_layers)])})

    def forward(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None = None) -> fw.Tensor:
        x = self.embeddings(input_ids)
        mask = padding_mask(attention_mask)
        for layer in self.transformer["layer"]:
            x = layer(x, mask)
        return x
