"""Rows of attention and transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from inputs import bools, given, made, x
from layers.row import layer

CAUSAL = made(lambda rng, d: np.triu(np.full((4, 4), -np.inf, d), 1))  # numbers to add
LATER = made(lambda rng, d: np.triu(np.ones((4, 4), bool), 1))  # the same as truth values
PADDING = given([False, False, True, True], [False, True, False, False], dtype=bool)
HEADS = made(lambda rng, d: rng.normal(size=(4, 4, 4)).astype(d))  # a mask for each head


def call(*names: str, count: int = 1, times: int = 1, **options: Any) -> Any:
    """A call with `count` tensors, each `times` times, and further inputs by their names.

    Only torch's attention without fused kernels has second derivatives.
    """
    def run(lib: Any, module: Any, *inputs: Any) -> Any:
        tensors = [t for t in inputs[:count] for _ in range(times)]
        with lib.nn.attention.sdpa_kernel(lib.nn.attention.SDPBackend.MATH):
            return module(*tensors, **dict(zip(names, inputs[count:])), **options)

    return run


BOTH = ("attn_mask", "key_padding_mask")

# ---- attention by itself
layer("MultiheadAttention", 6, 2, inputs=[x(4, 2, 6), x(5, 2, 6), x(5, 2, 6)])
layer("MultiheadAttention", 6, 2, inputs=[x(4, 2, 6)], call=call(times=3), label="to itself")
layer("MultiheadAttention", 6, 3, batch_first=True, bias=False,
      inputs=[x(2, 4, 6), x(2, 5, 6), x(2, 5, 6)])
layer("MultiheadAttention", 6, 2, kdim=3, vdim=5, inputs=[x(4, 2, 6), x(5, 2, 3), x(5, 2, 5)])
layer("MultiheadAttention", 6, 2, add_bias_kv=True, add_zero_attn=True,
      inputs=[x(4, 2, 6), x(5, 2, 6), x(5, 2, 6)])
layer("MultiheadAttention", 6, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True,
      label="more keys, masks", inputs=[x(2, 4, 6), LATER, PADDING],
      call=call(*BOTH, times=3))
layer("MultiheadAttention", 6, 2, label="without batch", inputs=[x(4, 6), x(5, 6), x(5, 6)])
layer("MultiheadAttention", 6, 2, batch_first=True, label="without batch, padding",
      inputs=[x(4, 6), given(False, True, False, False, dtype=bool)],
      call=call("key_padding_mask", times=3))
layer("MultiheadAttention", 6, 2, dropout=0.5, random=True, inputs=[x(4, 2, 6)], call=call(times=3))
for more in ({"need_weights": False}, {"average_attn_weights": False}):
    label = ", ".join(more)
    layer("MultiheadAttention", 6, 2, label=label, inputs=[x(4, 2, 6)], call=call(times=3, **more))
    layer("MultiheadAttention", 6, 2, label=f"{label}, causal", inputs=[x(4, 2, 6), LATER],
          call=call("attn_mask", times=3, is_causal=True, **more))
    layer("MultiheadAttention", 6, 2, label=f"{label}, both masks", batch_first=True,
          inputs=[x(2, 4, 6), LATER, PADDING],
          call=call(*BOTH, times=3, **more))
    layer("MultiheadAttention", 6, 2, label=f"{label}, of each head",
          inputs=[x(4, 2, 6), HEADS, x(2, 4)],
          call=call(*BOTH, times=3, **more))

# ---- layers and stacks of them
for more in ({}, {"norm_first": True}, {"batch_first": True, "activation": "gelu"},
             {"bias": False, "layer_norm_eps": 0.1}):
    layer("TransformerEncoderLayer", 6, 2, 8, **more, inputs=[x(4, 2, 6)], call=call(),
          random=True)
    layer("TransformerDecoderLayer", 6, 2, 8, **more, inputs=[x(4, 2, 6), x(4, 2, 6)],
          call=call(count=2), random=True)
layer("TransformerEncoderLayer", 6, 2, 8, dropout=0.0, activation=lambda lib: lib.tanh,
      inputs=[x(4, 6)], call=call(), label="without batch, a function")
layer("TransformerEncoderLayer", 6, 2, 8, dropout=0.0, label="masks",
      inputs=[x(4, 2, 6), CAUSAL, PADDING], call=call("src_mask", "src_key_padding_mask"))
layer("TransformerEncoderLayer", 6, 2, 8, dropout=0.0, label="causal",
      inputs=[x(4, 2, 6), LATER], call=call("src_mask", is_causal=True))
layer("TransformerDecoderLayer", 6, 2, 8, dropout=0.0, norm_first=True, label="masks",
      inputs=[x(4, 2, 6), x(4, 2, 6), LATER, bools(4, 4), PADDING],
      call=call("tgt_mask", "memory_mask", "tgt_key_padding_mask", count=2))


def encoder(lib: Any) -> Any:
    return lib.nn.TransformerEncoderLayer(6, 2, 8, 0.0)


def decoder(lib: Any) -> Any:
    return lib.nn.TransformerDecoderLayer(6, 2, 8, 0.0, batch_first=True)


layer("TransformerEncoder", encoder, 2, enable_nested_tensor=False, inputs=[x(4, 2, 6)],
      call=call())
layer("TransformerEncoder", encoder, 2, norm=lambda lib: lib.nn.LayerNorm(6),
      enable_nested_tensor=False, inputs=[x(4, 2, 6), CAUSAL, PADDING],
      call=call("mask", "src_key_padding_mask"))
layer("TransformerDecoder", decoder, 2, norm=lambda lib: lib.nn.LayerNorm(6),
      inputs=[x(2, 4, 6), x(2, 3, 6), LATER], call=call("tgt_mask", count=2))
layer("Transformer", 6, 2, 1, 1, 8, 0.0, batch_first=True,
      inputs=[x(2, 3, 6), x(2, 4, 6), LATER, PADDING],
      call=call("tgt_mask", "tgt_key_padding_mask", count=2))
layer("Transformer", 6, 2, 2, 1, 8, batch_first=True, activation="gelu",
      inputs=[x(2, 4, 6), x(2, 3, 6)], call=call(count=2), random=True)
