"""GPT-2: Radford et al., 2019, with the names of `GPT2LMHeadModel`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import fusewire as fw
from fusewire import nn

from ..blocks.activations import ACTIVATIONS
from ..blocks.heads import merge_heads, split_heads
from ..blocks.kv_cache import CachedCall, Call, KeyValueCache, begin
from ..config import Config
from ..pretrained_model import PretrainedModel


@dataclass(frozen=True)
class GPT2Config(Config):
    """`n_inner` None means 4 * n_embd."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "activation_function": tuple(ACTIVATIONS), "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,), "reorder_and_upcast_attn": (False,),
        "add_cross_attention": (False,)}


class Conv1D(nn.Module):
    """x @ weight + bias: a linear layer whose weight is stored as (n_in, n_out)."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.in_features, self.out_features = n_in, n_out
        self.weight = nn.init.normal_(nn.Parameter(fw.zeros(n_in, n_out)), std=0.02)
        self.bias = nn.Parameter(fw.zeros(n_out))

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return x @ self.weight + self.bias

    def as_linear(self) -> nn.Linear:
        """The same layer with a weight of (n_out, n_in), for `fw.quantize`."""
        linear = nn.Linear(self.in_features, self.out_features, dtype=self.weight.dtype)
        linear.load_state_dict({"weight": self.weight.detach().T, "bias": self.bias.detach()})
        return linear


nn.utils.lora.register(Conv1D, nn.utils.lora.TransposedLinearAdapter)


class Attention(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.heads = config.n_head
        self.c_attn = Conv1D(config.n_embd, 3 * config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.attn_pdrop = config.attn_pdrop
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: fw.Tensor, call: Call | CachedCall, layer: int) -> fw.Tensor:
        query, key, value = (split_heads(part, self.heads)
                             for part in fw.split(self.c_attn(x), x.shape[-1], axis=-1))
        out = call.attend(layer, query, key, value, self.attn_pdrop if self.training else 0.0)
        return self.resid_dropout(self.c_proj(merge_heads(out)))


class MLP(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        inner = config.n_inner or 4 * config.n_embd
        self.c_fc, self.c_proj = Conv1D(config.n_embd, inner), Conv1D(inner, config.n_embd)
        self.activation = ACTIVATIONS[config.activation_function]
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.dropout(self.c_proj(self.activation(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = MLP(config)

    def forward(self, x: fw.Tensor, call: Call | CachedCall, layer: int) -> fw.Tensor:
        x = x + self.attn(self.ln_1(x), call, layer)
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """Token numbers (n, length) to features (n, length, n_embd)."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)

    def forward(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None = None,
                cache: KeyValueCache | None = None) -> fw.Tensor:
        call = begin(input_ids, attention_mask, cache)
        x = self.drop(self.wte(input_ids) + self.wpe(call.positions))
        for i, block in enumerate(self.h):
            x = block(x, call, i)
        return self.ln_f(x)


class GPT2(PretrainedModel):
    """Token numbers (n, length) to the logits of the next token (n, length, vocab_size).

    Args of a call:
        input_ids: (n, length), int.
        attention_mask: (n, length), 1 or True for a token and 0 for padding. Default all ones.
        cache: keys and values of earlier tokens; the new ones are added.
    """

    CONFIG = GPT2Config
    PREFIX = "transformer."
    IGNORED = (r"h\.\d+\.attn\.(masked_)?bias",)

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.transformer = Transformer(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.transformer.wte.weight

    def forward(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None = None,
                cache: KeyValueCache | None = None) -> fw.Tensor:
        return self.lm_head(self.transformer(input_ids, attention_mask, cache))

    def new_cache(self, batch: int, capacity: int) -> KeyValueCache:
        """An empty cache for `batch` texts of up to `capacity` tokens."""
        config = self.config
        return KeyValueCache.empty(config.n_layer, batch, config.n_head, capacity,
                                   config.n_embd // config.n_head, self.transformer.wte.weight)
