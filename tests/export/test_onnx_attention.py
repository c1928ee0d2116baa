"""Attention as one operator, from opset 23 on: run by onnxruntime and by onnx's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fusewire as fw
from fusewire import nn
from fusewire.export.onnx import export
from fusewire.export.onnx.verify import compare, verify

attention = nn.functional.scaled_dot_product_attention


def drawn(*shape: int) -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


Q, K, V = drawn(2, 4, 5, 8), drawn(2, 4, 7, 8), drawn(2, 4, 7, 6)
FEW = (Q, K[:, :2], V[:, :2])  # grouped: two heads of query for each of key and value
SIZES = {"q": {0: "b", 2: "l"}, "k": {0: "b", 2: "s"}, "v": {0: "b", 2: "s"}}
BELOW = fw.from_numpy(np.where(np.tri(5, 7), 0, -np.inf).astype("f4"))
NOTHING = fw.from_numpy(np.arange(5)[:, None] > np.array([2] * 7))  # for three of the queries


def by_hand(q: Any, k: Any, v: Any) -> Any:
    return fw.softmax(q @ k.mT / 8 ** 0.5, -1) @ v


def self_attention(**settings: Any) -> Any:
    fw.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, **settings)
    return lambda x: layer(x, x, x, need_weights=False)[0]


def padded() -> Any:
    fw.manual_seed(0)
    layer, mask = nn.MultiheadAttention(8, 2), nn.Transformer.generate_square_subsequent_mask(5)
    return lambda x, padding: layer(x, x, x, key_padding_mask=padding, attn_mask=mask,
                                    need_weights=False)[0]


def masked(q: Any, k: Any, v: Any, m: Any) -> Any:
    return attention(q, k, v, m)


CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "plain": (lambda q, k, v: attention(q, k, v), (Q, K, V), {}),
    "of any size": (lambda q, k, v: attention(q, k, v), (Q, K, V), SIZES),
    "by hand": (by_hand, (Q, K, V), SIZES),
    "another scale": (lambda q, k, v: attention(q, k, v, scale=0.7), (Q, K, V), {}),
    "causal": (lambda q, k, v: attention(q, k, v, is_causal=True), (Q, K, V), SIZES),
    "causal, fewer keys": (lambda q, k, v: attention(q, k, v, is_causal=True),
                           (drawn(2, 4, 9, 8), K, V), {}),
    "grouped": (lambda q, k, v: attention(q, k, v, enable_gqa=True), FEW, SIZES),
    "grouped, causal": (lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True), FEW,
                        SIZES),
    "numbers added": (masked, (Q, K, V, drawn(5, 7)), {}),
    "numbers for each head": (masked, (Q, K, V, drawn(4, 1, 7)), {**SIZES, "m": {2: "s"}}),
    "never": (masked, (Q, K, V, BELOW), {}),
    "truth values": (masked, (Q, K, V, drawn(2, 1, 5, 7) > 0), {}),
    "nothing to look at": (masked, (Q, K, V, NOTHING), {}),
    "one row for all": (masked, (Q, K, V, drawn(7) > 0), {**SIZES, "m": {0: "s"}}),
    "both masks": (lambda q, k, v, m: attention(q, k, v, m, is_causal=True, enable_gqa=True),
                   (*FEW, drawn(5, 7)), {}),
    "half": (lambda q, k, v: attention(q, k, v),
             tuple(x.astype(fw.float16) for x in (Q, K, V)), {}),
    "layer": (self_attention(), (drawn(5, 2, 8),), {"x": {0: "l", 1: "n"}}),
    "layer, examples first": (self_attention(batch_first=True), (drawn(2, 5, 8),), {}),
    "one more key": (self_attention(add_bias_kv=True, add_zero_attn=True), (drawn(5, 2, 8),), {}),
    "padding": (padded(), (drawn(5, 2, 8), drawn(2, 5) > 0), {}),
}


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("case", CASES)
def test_attention_is_one_operator(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                   ) -> None:
    fn, args, sizes = CASES[case]
    path = tmp_path / "model.onnx"
    report = export(fn, args, path, opset=23, dynamic_shapes=sizes)
    assert operators(path).count("Attention") == 1 and "Softmax" not in operators(path)
    assert report.runner.startswith("onnxruntime") and report.notes == ()
    monkeypatch.setattr(verify, "runner", lambda data: compare.reference(data, ""))
    assert "reference" in export(fn, args, path, opset=23, dynamic_shapes=sizes).runner
    export(fn, args, path, opset=22, dynamic_shapes=sizes)
    assert "Attention" not in operators(path) and "Softmax" in operators(path)


def weights_too(q: Any, k: Any, v: Any) -> Any:
    weights = fw.softmax(q @ k.mT, -1)
    return weights @ v, weights


def rows_of_nothing(q: Any, k: Any, v: Any) -> Any:
    """Gives nan where a query may look at nothing, where runtimes give 0 or nan."""
    return fw.softmax(fw.where(q[..., :1] > 0, q @ k.mT, -float("inf")), -1) @ v


KEPT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "weights are asked for": (weights_too, (Q, K, V)),
    "a negative scale": (lambda q, k, v: attention(q, k, v, scale=-1.0), (Q, K, V)),
    "double": (lambda q, k, v: attention(q, k, v), tuple(x.astype(fw.float64) for x in (Q, K, V))),
    "rows of nothing": (rows_of_nothing, (Q, K, V)),
    "along another axis": (lambda q, k, v: fw.softmax(q @ k.mT, 2) @ v, (Q, K, V)),
    "three axes": (lambda q, k, v: attention(q, k, v), (Q[0], K[0], V[0])),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_attention_for_all_runtimes(case: str, tmp_path: Path) -> None:
    fn, args = KEPT[case]
    path = tmp_path / "model.onnx"
    export(fn, args, path, opset=23)
    assert "Softmax" in operators(path)
