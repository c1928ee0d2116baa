"""Attention and embeddings as functions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch.nn.functional as F
from inputs import bools, given, ints, made, x
from parity.entry import Table
from parity.functional import functions
from torch.nn.attention import SDPBackend, sdpa_kernel

import fusewire as fw

TABLE = Table("attention and embeddings")
function = functions(TABLE)
OURS = fw.nn.functional

# ---- rows by their numbers
function("embedding", ints(2, 3, below=5), x(5, 4))
function("embedding", given(dtype="i8"), x(5, 4), label="nothing",
         differs={"grad grad": "torch's of an empty result is an error"})
function("embedding", ints(4, below=5), x(5, 4), more={"padding_idx": -2})
function("embedding", given(1, 1, 2, dtype="i8"), x(5, 4), more={"scale_grad_by_freq": True},
         differs={"grad grad": "torch's leaves out what the first one is divided by"})
function("embedding", ints(4, below=5), x(5, 4), label="max_norm",
         differs={"forward": "it goes through the change of the weight, torch's does not"},
         ours=lambda i, w: OURS.embedding(i, w * 1, max_norm=1.5),
         theirs=lambda i, w: F.embedding(i, w * 1, max_norm=1.5))
BAG: dict[str, Any] = {"differs": dict.fromkeys(
    ("grad grad", "forward"), "torch has it for single rows only")}
for mode in ("sum", "mean", "max"):
    function("embedding_bag", ints(2, 3, below=5), x(5, 4), more={"mode": mode}, **BAG)
    function("embedding_bag", ints(6, below=5), x(5, 4), given(0, 2, 2, dtype="i8"),
             more={"mode": mode}, label=f"{mode}, offsets", **BAG)
    function("embedding_bag", given(2, 2, 1, 2, 3, dtype="i8"), x(5, 4), given(0, 2, 5, dtype="i8"),
             more={"mode": mode, "padding_idx": 2, "include_last_offset": True}, **BAG)
function("embedding_bag", ints(2, 3, below=5), x(5, 4), x(2, 3), label="weights",
         ours=lambda i, w, p: OURS.embedding_bag(i, w, mode="sum", per_sample_weights=p),
         theirs=lambda i, w, p: F.embedding_bag(i, w, mode="sum", per_sample_weights=p),
         **BAG)


# ---- attention
ATTEND = "scaled_dot_product_attention"
QUERY, KEY, VALUE = x(2, 4, 3, 5), x(2, 4, 6, 5), x(2, 4, 6, 2)
GROUPED = x(2, 6, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 4)
ALLOWED = made(lambda rng, d: np.tri(3, 6, 2) > 0)
NOTHING = given([True, False] * 3, [False] * 6, [True] * 6, dtype=bool)  # for the second query
ADDED = made(lambda rng, d: np.where(rng.random((3, 6)) < 0.3, -np.inf, 1.0).astype(d))
SECOND = ("grad grad", "forward")
FIRST = ("values", "grad", "vmap", "vmap of grad")


def attention(*inputs: Any, label: str, **options: Any) -> None:
    """An entry of query, key, value and perhaps a mask.

    Only torch's attention without a fused kernel has second derivatives.
    """
    def whole(*tensors: Any) -> Any:
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(*tensors, **options)

    function(ATTEND, *inputs, label=label, more=options, only=FIRST)
    function(ATTEND, *inputs, label=f"{label}, second derivatives", more=options, theirs=whole,
             only=SECOND)


attention(QUERY, KEY, VALUE, label="heads")
attention(x(3, 5), x(6, 5), x(6, 2), label="without heads")
attention(QUERY, KEY, VALUE, label="causal", is_causal=True)
attention(x(2, 6, 5), x(2, 3, 5), x(2, 3, 5), label="causal, fewer keys", is_causal=True, scale=0.3)
attention(x(2, 1, 3, 5), x(1, 4, 6, 5), x(2, 4, 6, 2), label="broadcast")
attention(*GROUPED, label="grouped", enable_gqa=True)
attention(x(6, 3, 4), x(3, 5, 4), x(3, 5, 4), label="grouped, causal", enable_gqa=True,
          is_causal=True)
attention(*GROUPED, bools(2, 6, 3, 5), label="grouped, allowed", enable_gqa=True)
attention(QUERY, KEY, VALUE, ALLOWED, label="allowed")
attention(QUERY, KEY, VALUE, bools(2, 1, 1, 6), label="allowed keys")
attention(QUERY, KEY, VALUE, NOTHING, label="a query that may look at nothing")
attention(QUERY, KEY, VALUE, x(3, 6), label="added")
attention(QUERY, KEY, VALUE, ADDED, label="never")


# ---- with projections
def projected(label: str, *more: Any, batched: bool = True, **options: Any) -> None:
    """An entry of 4 features and 2 heads; `more` are inputs by their names in `names`."""
    names = options.pop("names", ())
    n = (2,) if batched else ()

    def call(lib: Any) -> Any:
        def run(q: Any, k: Any, v: Any, w: Any, b: Any, out: Any, out_b: Any, *rest: Any) -> Any:
            named = {"bias_k": None, "bias_v": None, "add_zero_attn": False, "dropout_p": 0.0}
            named |= options | dict(zip(names, rest))
            with sdpa_kernel(SDPBackend.MATH):
                given = lib.multi_head_attention_forward(
                    q, k, v, 4, 2, w, b, out_proj_weight=out, out_proj_bias=out_b, **named)
            return given if given[1] is not None else given[0]

        return run

    function("multi_head_attention_forward", x(3, *n, 4), x(5, *n, 4), x(5, *n, 4), x(12, 4),
             x(12), x(4, 4), x(4), *more, label=label, ours=call(OURS), theirs=call(F),
             kinds="f", loose=20)


for need, average in itertools.product((True, False), (True, False)):
    projected(f"need_weights={need}, average={average}", need_weights=need,
              average_attn_weights=average)
projected("without batch", batched=False)
projected("not training", training=False, dropout_p=0.5)
projected("masks", bools(3, 5), given([False] * 5, [True] * 2 + [False] * 3, dtype=bool),
          names=("attn_mask", "key_padding_mask"), need_weights=False)
projected("numbers to add for each head", x(4, 3, 5), names=("attn_mask",))
projected("one more key", x(1, 1, 4), x(1, 1, 4), names=("bias_k", "bias_v"), add_zero_attn=True)
projected("given keys and values", x(4, 6, 2), x(4, 6, 2), names=("static_k", "static_v"))
