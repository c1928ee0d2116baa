"""Llama 2 and 3, Mistral, Qwen 2 and 3, and Mixtral: one decoder with variations.

Touvron et al., arXiv 2307.09288; Jiang et al., arXiv 2310.06825 and 2401.04088; Yang et al., arXiv
2505.09388. Parameters have the names of `LlamaForCausalLM` and its relatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import fusewire as fw
from fusewire import nn

from ..blocks.activations import ACTIVATIONS
from ..blocks.experts import SparseExperts
from ..blocks.heads import merge_heads, split_heads
from ..blocks.kv_cache import CachedCall, Call, KeyValueCache, begin
from ..blocks.rotary import inverse_frequencies, rotate, rotation
from ..config import Config
from ..pretrained_model import PretrainedModel


@dataclass(frozen=True)
class LlamaConfig(Config):
    """The fields of all variants.

    `head_dim` None means hidden_size / num_attention_heads; `num_key_value_heads` None means
    num_attention_heads; `num_local_experts` 0 means one MLP for all tokens.
    """

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: Mapping[str, Any] | None = None
    sliding_window: int | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False  # of the queries, keys, values and the output
    qkv_bias: bool = False  # of the queries, keys and values only
    qk_norm: bool = False  # queries and keys are normalized, head by head
    mlp_bias: bool = False
    num_local_experts: int = 0
    num_experts_per_tok: int = 2

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "hidden_act": tuple(ACTIVATIONS), "attention_dropout": (0, 0.0),
        "pretraining_tp": (1, None)}
    VARIANT: ClassVar[Mapping[str, Any]] = {}
    """The fields that the architecture decides, not its config.json."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LlamaConfig:
        rope = values.get("rope_parameters") or {}  # newer files have both in one dict
        merged = {**values, **{k: rope[k] for k in ("rope_theta",) if k in rope}}
        if rope and not values.get("rope_scaling"):
            merged["rope_scaling"] = rope
        if not values.get("use_sliding_window", True):
            merged["sliding_window"] = None
        return super().from_dict({**merged, **cls.VARIANT})

    @property
    def key_value_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def size_of_head(self) -> int:
        """The features of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads


@dataclass(frozen=True)
class MistralConfig(LlamaConfig):
    """Llama with a sliding window."""

    sliding_window: int | None = 4096
    num_key_value_heads: int | None = 8


@dataclass(frozen=True)
class Qwen2Config(LlamaConfig):
    """Llama with biases of queries, keys and values."""

    VARIANT: ClassVar[Mapping[str, Any]] = {"qkv_bias": True}
    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **LlamaConfig.SUPPORTED, "use_sliding_window": (False,)}


@dataclass(frozen=True)
class Qwen3Config(LlamaConfig):
    """Llama with normalized queries and keys."""

    head_dim: int | None = 128
    VARIANT: ClassVar[Mapping[str, Any]] = {"qk_norm": True}
    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **LlamaConfig.SUPPORTED, "use_sliding_window": (False,)}


@dataclass(frozen=True)
class MixtralConfig(MistralConfig):
    """Mistral with a mixture of experts in place of each MLP."""

    intermediate_size: int = 14336
    sliding_window: int | None = None
    num_local_experts: int = 8


class Attention(nn.Module):
    """Attention in which several heads of queries share a head of keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.key_value_heads = config.num_attention_heads, config.key_value_heads
        width, size = config.hidden_size, config.size_of_head
        bias = config.attention_bias or config.qkv_bias
        self.q_proj = nn.Linear(width, self.heads * size, bias=bias)
        self.k_proj = nn.Linear(width, self.key_value_heads * size, bias=bias)
        self.v_proj = nn.Linear(width, self.key_value_heads * size, bias=bias)
        self.o_proj = nn.Linear(self.heads * size, width, bias=config.attention_bias)
        if config.qk_norm:
            self.q_norm = nn.RMSNorm(size, eps=config.rms_norm_eps)
            self.k_norm = nn.RMSNorm(size, eps=config.rms_norm_eps)
        self.qk_norm = config.qk_norm

    def forward(self, x: fw.Tensor, angles: tuple[fw.Tensor, fw.Tensor], call: Call | CachedCall,
                layer: int) -> fw.Tensor:
        query = split_heads(self.q_proj(x), self.heads)
        key = split_heads(self.k_proj(x), self.key_value_heads)
        value = split_heads(self.v_proj(x), self.key_value_heads)
        if self.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = rotate(query, *angles), rotate(key, *angles)
        return self.o_proj(merge_heads(call.attend(layer, query, key, value)))


class MLP(nn.Module):
    """A gated unit: down(act(gate(x)) * up(x))."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = nn.Linear(width, inner, bias=bias)
        self.up_proj = nn.Linear(width, inner, bias=bias)
        self.down_proj = nn.Linear(inner, width, bias=bias)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        if config.num_local_experts:
            self.block_sparse_moe = SparseExperts(
                config.hidden_size, config.intermediate_size, config.num_local_experts,
                config.num_experts_per_tok, ACTIVATIONS[config.hidden_act])
        else:
            self.mlp = MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, x: fw.Tensor, angles: tuple[fw.Tensor, fw.Tensor], call: Call | CachedCall,
                layer: int) -> fw.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), angles, call, layer)
        feed_forward = self.mlp if hasattr(self, "mlp") else self.block_sparse_moe
        return x + feed_forward(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Token numbers (n, length) to features (n, length, hidden_size)."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([DecoderLayer(config)
                                     for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.window = config.sliding_window
        self.register_buffer("frequencies", inverse_frequencies(
            config.size_of_head, config.rope_theta, config.rope_scaling), persistent=False)

    def forward(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None = None,
                cache: KeyValueCache | None = None) -> fw.Tensor:
        call = begin(input_ids, attention_mask, cache, self.window)
        x = self.embed_tokens(input_ids)
        angles = rotation(call.positions, self.frequencies, x.dtype)
        for i, layer in enumerate(self.layers):
            x = layer(x, angles, call, i)
        return self.norm(x)


class Llama(PretrainedModel):
    """Token numbers (n, length) to the logits of the next token (n, length, vocab_size).

    Args of a call:
        input_ids: (n, length), int.
        attention_mask: (n, length), 1 or True for a token and 0 for padding. Default all ones.
        cache: keys and values of earlier tokens; the new ones are added.
    """

    CONFIG = LlamaConfig
    PREFIX = "model."
    IGNORED = (r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None = None,
                cache: KeyValueCache | None = None) -> fw.Tensor:
        return self.lm_head(self.model(input_ids, attention_mask, cache))

    def new_cache(self, batch: int, capacity: int) -> KeyValueCache:
        """An empty cache for `batch` texts of up to `capacity` tokens."""
        config = self.config
        return KeyValueCache.empty(config.num_hidden_layers, batch, config.key_value_heads,
                                   capacity, config.size_of_head, self.model.embed_tokens.weight,
                                   config.sliding_window)


class Mistral(Llama):
    """Llama with a sliding window: see `Llama`."""

    CONFIG = MistralConfig


class Qwen2(Llama):
    """Llama with biases: see `Llama`."""

    CONFIG = Qwen2Config


class Qwen3(Llama):
    """Llama with normalized queries and keys: see `Llama`."""

    CONFIG = Qwen3Config


class Mixtral(Llama):
    """Llama with a mixture of experts: see `Llama`."""

    CONFIG = MixtralConfig
