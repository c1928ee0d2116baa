"""Whisper: Radford et al., arXiv 2212.04356.

Parameters have the names of `WhisperForConditionalGeneration`.
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
from ..blocks.kv_cache import CachedCall, Call, KeyValueCache, begin
from ..config import Config
from ..pretrained_model import PretrainedModel


@dataclass(frozen=True)
class WhisperConfig(Config):
    """The hyperparameters of Whisper."""

    vocab_size: int = 51865
    num_mel_bins: int = 80
    d_model: int = 384
    encoder_layers: int = 4
    decoder_layers: int = 4
    encoder_attention_heads: int = 6
    decoder_attention_heads: int = 6
    encoder_ffn_dim: int = 1536
    decoder_ffn_dim: int = 1536
    max_source_positions: int = 1500
    max_target_positions: int = 448
    activation_function: str = "gelu"

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "activation_function": tuple(ACTIVATIONS), "scale_embedding": (False,),
        "dropout": (0, 0.0), "attention_dropout": (0, 0.0), "activation_dropout": (0, 0.0)}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: fw.Tensor, source: fw.Tensor, call: Call | CachedCall | None = None,
                layer: int = 0) -> fw.Tensor:
        query = split_heads(self.q_proj(x), self.heads)
        key = split_heads(self.k_proj(source), self.heads)
        value = split_heads(self.v_proj(source), self.heads)
        out = F.scaled_dot_product_attention(query, key, value) if call is None else \
            call.attend(layer, query, key, value)
        return self.out_proj(merge_heads(out))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, activation: str) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        normed = self.self_attn_layer_norm(x)
        return self.feed_forward(x + self.self_attn(normed, normed))

    def feed_forward(self, x: fw.Tensor) -> fw.Tensor:
        """The second half of a layer, with its residual connection."""
        return x + self.fc2(self.activation(self.fc1(self.final_layer_norm(x))))


class DecoderLayer(EncoderLayer):
    """A layer that also attends to the features of the sound."""

    def __init__(self, width: int, heads: int, inner: int, activation: str) -> None:
        super().__init__(width, heads, inner, activation)
        self.encoder_attn = Attention(width, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(width)

    def forward(  # type: ignore[override]
            self, x: fw.Tensor, encoded: fw.Tensor, call: Call | CachedCall, layer: int
    ) -> fw.Tensor:
        normed = self.self_attn_layer_norm(x)
        x = x + self.self_attn(normed, normed, call, layer)
        x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), encoded)
        return self.feed_forward(x)


class Encoder(nn.Module):
    """Log-mel spectrograms (n, num_mel_bins, 2 * frames) to features (n, frames, d_model)."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width = config.d_model
        self.conv1 = nn.Conv1d(config.num_mel_bins, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config.max_source_positions, width)
        self.layers = nn.ModuleList([
            EncoderLayer(width, config.encoder_attention_heads, config.encoder_ffn_dim,
                         config.activation_function) for _ in range(config.encoder_layers)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, input_features: fw.Tensor) -> fw.Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(input_features)))).permute_dims((0, 2, 1))
        x = x + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class Decoder(nn.Module):
    """Tokens (n, length) and features of the sound to features (n, length, d_model)."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width = config.d_model
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        self.embed_positions = nn.Embedding(config.max_target_positions, width)
        self.layers = nn.ModuleList([
            DecoderLayer(width, config.decoder_attention_heads, config.decoder_ffn_dim,
                         config.activation_function) for _ in range(config.decoder_layers)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, input_ids: fw.Tensor, encoded: fw.Tensor,
                cache: KeyValueCache | None = None) -> fw.Tensor:
        call = begin(input_ids, None, cache)
        x = self.embed_tokens(input_ids) + self.embed_positions(call.positions)
        for i, layer in enumerate(self.layers):
            x = layer(x, encoded, call, i)
        return self.layer_norm(x)


class Whisper(PretrainedModel):
    """Spectrograms and tokens (n, length) to the logits of the next token (n, length, vocab_size).

    Args of a call:
        input_features: (n, num_mel_bins, 2 * max_source_positions), log-mel spectrograms.
        decoder_input_ids: (n, length), int.
        encoded: the result of `encode`, which is then not computed again. Default None.
        cache: keys and values of earlier tokens; the new ones are added. Default None.
    """

    CONFIG = WhisperConfig
    PREFIX = "model."

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__(config)
        self.model = nn.ModuleDict({"encoder": Encoder(config), "decoder": Decoder(config)})
        self.proj_out = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.proj_out.weight = self.model["decoder"].embed_tokens.weight

    def encode(self, input_features: fw.Tensor) -> fw.Tensor:
        """The features of sounds: (n, max_source_positions, d_model)."""
        return self.model["encoder"](input_features)

    def forward(self, input_features: fw.Tensor | None, decoder_input_ids: fw.Tensor,
                encoded: fw.Tensor | None = None,
                cache: KeyValueCache | None = None) -> fw.Tensor:
        if encoded is None:
            if input_features is None:
                raise fw.ArgumentError("Whisper: neither input_features nor encoded is there",
                                       "pass one")
            encoded = self.encode(input_features)
        return self.proj_out(self.model["decoder"](decoder_input_ids, encoded, cache))

    def new_cache(self, batch: int, capacity: int) -> KeyValueCache:
        """An empty cache for `batch` texts of up to `capacity` tokens."""
        config, heads = self.config, self.config.decoder_attention_heads
        return KeyValueCache.empty(config.decoder_layers, batch, heads, capacity,
                                   config.d_model // heads, self.proj_out.weight)
