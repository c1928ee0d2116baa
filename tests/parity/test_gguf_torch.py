"""GGUF files give the outputs that transformers gives for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import parity.torchvision_ops  # noqa: F401 (before transformers, which imports torchvision)
import pytest
import torch
import transformers

import fusewire as fw
from fusewire import models

WIDTH, INNER, HEADS, KEY_HEADS, LAYERS, TOKENS = 64, 96, 4, 2, 2, 40
HEAD = {"llama": 16, "qwen2": 16, "qwen3": 128}  # transformers reads no other size for Qwen 3
RNG = np.random.default_rng(0)


def write(path: Path, architecture: str, bits: Any) -> None:
    """Writes a file with random weights; matrices are quantized as `bits` says."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HEAD[architecture])
    writer.add_context_length(64)
    writer.add_vocab_size(TOKENS)
    if architecture == "qwen3":
        writer.add_key_length(HEAD[architecture])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{i}" for i in range(TOKENS)])
    writer.add_token_merges(["t 0"])
    for name, shape in shapes(architecture).items():
        x = RNG.standard_normal(shape).astype(np.float32) * 0.2
        kind = bits if len(shape) == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(x, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def shapes(architecture: str) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a file."""
    head = HEAD[architecture]
    rows, key_rows = HEADS * head, KEY_HEADS * head
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (WIDTH,), "attn_q.weight": (rows, WIDTH),
        "attn_k.weight": (key_rows, WIDTH), "attn_v.weight": (key_rows, WIDTH),
        "attn_output.weight": (WIDTH, rows), "ffn_norm.weight": (WIDTH,),
        "ffn_gate.weight": (INNER, WIDTH), "ffn_up.weight": (INNER, WIDTH),
        "ffn_down.weight": (WIDTH, INNER)}
    if architecture == "qwen2":
        layer |= {"attn_q.bias": (rows,), "attn_k.bias": (key_rows,), "attn_v.bias": (key_rows,)}
    if architecture == "qwen3":
        layer |= {"attn_q_norm.weight": (head,), "attn_k_norm.weight": (head,)}
    return {"token_embd.weight": (TOKENS, WIDTH), "output_norm.weight": (WIDTH,),
            "output.weight": (TOKENS, WIDTH),
            **{f"blk.{i}.{name}": shape for i in range(LAYERS) for name, shape in layer.items()}}


@pytest.mark.parametrize("bits", ["F32", "F16", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_outputs_are_those_of_transformers(architecture: str, bits: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, architecture, gguf.GGMLQuantizationType[bits])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="model.gguf", dtype=torch.float32).eval()
    ids = RNG.integers(0, TOKENS, (2, 7))
    wanted = theirs(torch.tensor(ids)).logits.detach().numpy()
    got = models.from_pretrained(path)(fw.tensor(ids)).numpy()
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-5 * np.abs(wanted).max())


def test_another_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"not a model" * 100)
    with pytest.raises(fw.StateError, match="is not a GGUF file"):
        models.from_pretrained(tmp_path / "model.gguf")


def test_another_architecture_is_an_error(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "rwkv")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(models.ConfigError, match="'rwkv' of a GGUF file is not implemented"):
        models.from_pretrained(tmp_path / "model.gguf")
