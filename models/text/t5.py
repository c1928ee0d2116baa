"""T5 and Flan-T5: Raffel et al., arXiv 1910.10683.

Parameters have the names of `T5ForConditionalGeneration`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

from ..blocks.activations import ACTIVATIONS
from ..blocks.heads import merge_heads, split_heads
from ..config import Config
from ..pretrained_model import PretrainedModel


@dataclass(frozen=True)
class T5Config(Config):
    """The hyperparameters of T5.

    `num_decoder_layers` None means num_layers, `scale_decoder_outputs` None tie_word_embeddings.
    """

    vocab_size: int = 32128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int | None = None
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "feed_forward_proj": ("relu", "gated-gelu", "gated-silu")}

    @property
    def decoder_layers(self) -> int:
        """The number of layers of the decoder."""
        return self.num_layers if self.num_decoder_layers is None else self.num_decoder_layers

    @property
    def scales_outputs(self) -> bool:
        """True if the features are scaled before the last layer."""
        return self.tie_word_embeddings if self.scale_decoder_outputs is None \
            else self.scale_decoder_outputs


class RelativeBias(nn.Embedding):
    """A number for each head and bucket of distances, which is added to the attention scores.

    Near distances have a bucket each; farther ones share buckets of growing width.
    """

    def __init__(self, config: T5Config, both_sides: bool) -> None:
        super().__init__(config.relative_attention_num_buckets, config.num_heads)
        self.buckets = config.relative_attention_num_buckets
        self.max_distance, self.both_sides = config.relative_attention_max_distance, both_sides

    def between(self, length: int) -> fw.Tensor:
        """The numbers for all pairs of positions: (1, heads, length, length)."""
        positions = fw.arange(length, device=self.weight.device)
        distance = positions[None, :] - positions[:, None]
        return self(self.bucket(distance)).permute_dims((2, 0, 1))[None]

    def bucket(self, distance: fw.Tensor) -> fw.Tensor:
        """The bucket of each distance, of its shape."""
        buckets, first = self.buckets, fw.zeros_like(distance)
        if self.both_sides:
            buckets //= 2
            first = (distance > 0).astype(fw.int64) * buckets
            distance = distance.abs()
        else:
            distance = fw.maximum(-distance, 0)
        near = buckets // 2
        scale = (buckets - near) / math.log(self.max_distance / near)
        growth = fw.log(fw.maximum(distance, 1).astype(fw.float32) / near) * scale
        far = fw.minimum(near + growth.astype(fw.int64), buckets - 1)
        return first + fw.where(distance < near, distance, far)


class Attention(nn.Module):
    """Attention without scaling; `has_bias` marks the first layer, whose bias all layers use."""

    def __init__(self, config: T5Config, has_bias: bool, both_sides: bool) -> None:
        super().__init__()
        inner = config.num_heads * config.d_kv
        self.heads, self.dropout = config.num_heads, config.dropout_rate
        self.q, self.k, self.v = (nn.Linear(config.d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, config.d_model, bias=False)
        if has_bias:
            self.relative_attention_bias = RelativeBias(config, both_sides)

    def forward(self, x: fw.Tensor, source: fw.Tensor, bias: fw.Tensor | None) -> fw.Tensor:
        query, key, value = (split_heads(layer(y), self.heads)
                             for layer, y in ((self.q, x), (self.k, source), (self.v, source)))
        dropout = self.dropout if self.training else 0.0
        return self.o(merge_heads(F.scaled_dot_product_attention(
            query, key, value, bias, dropout, scale=1.0)))


class FeedForward(nn.Module):
    """wo(act(wi(x))), or with a gate wo(act(wi_0(x)) * wi_1(x))."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        gate, _, name = config.feed_forward_proj.rpartition("-")
        self.activation = ACTIVATIONS["gelu_new" if name == "gelu" else name]
        self.gated = bool(gate)
        for layer in ("wi_0", "wi_1") if gate else ("wi",):
            setattr(self, layer, nn.Linear(config.d_model, config.d_ff, bias=False))
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        hidden = self.activation(self.wi_0(x)) * self.wi_1(x) if self.gated \
            else self.activation(self.wi(x))
        return self.wo(self.dropout(hidden))


class Sublayer(nn.Module):
    """x + dropout(layer(norm(x))), where the layer has the attribute name of the checkpoint."""

    def __init__(self, config: T5Config, name: str, layer: nn.Module) -> None:
        super().__init__()
        setattr(self, name, layer)
        self.layer_norm = nn.RMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.name = name

    def forward(self, x: fw.Tensor, *args: Any) -> fw.Tensor:
        layer = getattr(self, self.name)
        normed = self.layer_norm(x)
        source = args if self.name != "SelfAttention" else (normed, *args)
        return x + self.dropout(layer(normed, *source))


class Block(nn.Module):
    def __init__(self, config: T5Config, is_decoder: bool, is_first: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        sublayers = [Sublayer(config, "SelfAttention",
                              Attention(config, is_first, both_sides=not is_decoder))]
        if is_decoder:
            sublayers.append(Sublayer(config, "EncDecAttention",
                                      Attention(config, False, both_sides=True)))
        sublayers.append(Sublayer(config, "DenseReluDense", FeedForward(config)))
        self.layer = nn.ModuleList(sublayers)

    def forward(self, x: fw.Tensor, bias: fw.Tensor, encoded: fw.Tensor | None,
                encoded_bias: fw.Tensor | None) -> fw.Tensor:
        x = self.layer[0](x, bias)
        if self.is_decoder:
            x = self.layer[1](x, encoded, encoded_bias)
        return self.layer[-1](x)


class Stack(nn.Module):
    """Embedded tokens (n, length, d_model) to features of the same shape."""

    def __init__(self, config: T5Config, is_decoder: bool) -> None:
        super().__init__()
        layers = config.decoder_layers if is_decoder else config.num_layers
        self.block = nn.ModuleList([Block(config, is_decoder, i == 0) for i in range(layers)])
        self.final_layer_norm = nn.RMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.is_decoder = is_decoder

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None = None,
                encoded: fw.Tensor | None = None,
                encoded_mask: fw.Tensor | None = None) -> fw.Tensor:
        length = x.shape[1]
        attention = self.block[0].layer[0].SelfAttention
        bias = attention.relative_attention_bias.between(length)
        if self.is_decoder:
            bias = bias + additive(fw.tril(fw.ones((length, length), device=x.device))[None, None])
        if mask is not None:
            bias = bias + additive(mask[:, None, None, :])
        encoded_bias = None if encoded_mask is None else additive(encoded_mask[:, None, None, :])
        x = self.dropout(x)
        for block in self.block:
            x = block(x, bias, encoded, encoded_bias)
        return self.dropout(self.final_layer_norm(x))


def additive(mask: fw.Tensor) -> fw.Tensor:
    """0 where a mask is set and the least float32 elsewhere, of the shape of the mask."""
    return fw.where(mask.astype(fw.bool), 0.0, fw.finfo(fw.float32).min).astype(fw.float32)


class T5(PretrainedModel):
    """Tokens of a source and of a target to the logits of the next token of the target.

    The result is (n, target length, vocab_size).

    Args of a call:
        input_ids: (n, length), int, of the source.
        decoder_input_ids: (n, target length), int, of the target.
        attention_mask: (n, length), 1 or True for a token and 0 for padding. Default all ones.
        encoded: the result of `encode`, which is then not computed again. Default None.
    """

    CONFIG = T5Config
    IGNORED = (r"(encoder|decoder)\.embed_tokens\.weight",
               r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight")

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder, self.decoder = Stack(config, False), Stack(config, True)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.shared.weight

    def encode(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None = None) -> fw.Tensor:
        """The features of a source: (n, length, d_model)."""
        return self.encoder(self.shared(input_ids), attention_mask)

    def forward(self, input_ids: fw.Tensor | None, decoder_input_ids: fw.Tensor,
                attention_mask: fw.Tensor | None = None,
                encoded: fw.Tensor | None = None) -> fw.Tensor:
        if encoded is None:
            if input_ids is None:
                raise fw.ArgumentError("T5: neither input_ids nor encoded is there", "pass one")
            encoded = self.encode(input_ids, attention_mask)
        x = self.decoder(self.shared(decoder_input_ids), None, encoded, attention_mask)
        if self.config.scales_outputs:
            x = x * self.config.d_model ** -0.5
        return self.lm_head(x)
