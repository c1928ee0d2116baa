"""BERT and RoBERTa: Devlin et al., arXiv 1810.04805; Liu et al., arXiv 1907.11692.

Parameters have the names of `BertModel` and `RobertaModel`.
"""

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
class BertConfig(Config):
    """The hyperparameters of BERT."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "hidden_act": tuple(ACTIVATIONS), "position_embedding_type": ("absolute",),
        "is_decoder": (False,), "add_cross_attention": (False,)}
    FIRST_POSITION: ClassVar[int | None] = 0
    """The position of the first token; None means the one behind `pad_token_id`."""


@dataclass(frozen=True)
class RobertaConfig(BertConfig):
    """The hyperparameters of RoBERTa, whose positions begin behind that of padding."""

    vocab_size: int = 50265
    max_position_embeddings: int = 514
    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 1
    FIRST_POSITION: ClassVar[int | None] = None


class Embeddings(nn.Module):
    """The sum of the embeddings of tokens, of their positions and of their sentences."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.first_position, self.pad_token_id = config.FIRST_POSITION, config.pad_token_id

    def forward(self, input_ids: fw.Tensor, token_type_ids: fw.Tensor | None) -> fw.Tensor:
        if token_type_ids is None:
            token_type_ids = fw.zeros_like(input_ids)
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        x = x + self.position_embeddings(self.positions(input_ids))
        return self.dropout(self.LayerNorm(x))

    def positions(self, input_ids: fw.Tensor) -> fw.Tensor:
        """The position of each token, (1, length) or (n, length)."""
        if self.first_position is not None:
            positions = fw.arange(input_ids.shape[1], device=input_ids.device)
            return positions[None] + self.first_position
        is_token = (input_ids != self.pad_token_id).astype(fw.int64)
        return fw.cumulative_sum(is_token, axis=1) * is_token + self.pad_token_id


class SelfAttention(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None) -> fw.Tensor:
        query, key, value = (split_heads(layer(x), self.heads)
                             for layer in (self.query, self.key, self.value))
        dropout = self.dropout if self.training else 0.0
        return merge_heads(F.scaled_dot_product_attention(query, key, value, mask, dropout))


class Output(nn.Module):
    """A linear layer, the residual connection around it, and layer norm."""

    def __init__(self, n_in: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(n_in, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: fw.Tensor, residual: fw.Tensor) -> fw.Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Layer(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(config),
                                        "output": Output(config.hidden_size, config)})
        self.intermediate = nn.ModuleDict(
            {"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = Output(config.intermediate_size, config)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None) -> fw.Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(self.activation(self.intermediate["dense"](x)), x)


class Bert(PretrainedModel):
    """Tokens to features (n, length, hidden_size) and a pooled vector (n, hidden_size).

    Args of a call:
        input_ids: (n, length), int.
        attention_mask: (n, length), 1 or True for a token and 0 for padding. Default all ones.
        token_type_ids: (n, length), the sentence of each token. Default all zeros.
    """

    CONFIG = BertConfig
    OUTER_PREFIX = "bert."
    IGNORED = (r".*position_ids", r"cls\..*", r"lm_head\..*", r"classifier\..*")

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(
            [Layer(config) for _ in range(config.num_hidden_layers)])})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.hidden_size)})

    def forward(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None = None,
                token_type_ids: fw.Tensor | None = None) -> tuple[fw.Tensor, fw.Tensor]:
        x = self.embeddings(input_ids, token_type_ids)
        mask = padding_mask(attention_mask)
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x, fw.tanh(self.pooler["dense"](x[:, 0]))


class Roberta(Bert):
    """BERT with other positions: see `Bert`."""

    CONFIG = RobertaConfig
    OUTER_PREFIX = "roberta."
