"""Models of transformers, small and with random weights, with the calls that compare them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import parity.torchvision_ops  # noqa: F401 (before transformers, which imports torchvision)
import torch
import transformers as hf

RNG = np.random.default_rng(1)
IDS = RNG.integers(3, 90, (2, 7))
MASK = np.array([[1] * 7, [1] * 4 + [0] * 3])  # the second text is shorter
LEFT = np.array([[1] * 9, [0] * 4 + [1] * 5])  # padding comes first, as when text is generated
ENDS = np.where(np.arange(7) == np.array([[5], [3]]), 98, IDS)  # 98 ends each text
SPECTROGRAMS = RNG.standard_normal((2, 8, 40)).astype(np.float32)
IMAGES = RNG.standard_normal((3, 3, 32, 32)).astype(np.float32)
PICTURES = np.random.default_rng(2).standard_normal((2, 3, 40, 56)).astype(np.float32)
PRESENT = np.ones((2, 40, 56), np.int64)  # the second picture is smaller
PRESENT[1, 24:] = PRESENT[1, :, 32:] = 0

DECODER = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
ENCODER = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
           "intermediate_size": 64, "max_position_embeddings": 32}
TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4}
T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
DETR = (("backbone.model.", "backbone.conv_encoder.model."), (".o_proj.", ".out_proj."),
        (".mlp.", "."))
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

DECODERS: dict[str, Callable[[], Any]] = {
    "GPT-2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=4, **SPECIAL)),
    "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER)),
    "Llama 3": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(
        **DECODER, rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "Mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**DECODER, sliding_window=4)),
    "Mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(
        **DECODER, num_local_experts=4, experts_implementation="eager")),
    "Qwen 2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**DECODER)),
    "Qwen 3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**DECODER, head_dim=16)),
}
"""Models that continue a text."""


def detr(layer_type: str) -> Any:
    """A detector all of whose parameters are trained, norms aside, with statistics of its own."""
    backbone = hf.ResNetConfig(embedding_size=8, hidden_sizes=[16, 24], depths=[2, 1],
                               layer_type=layer_type, out_features=["stage2"])
    model = hf.DetrForObjectDetection(hf.DetrConfig(
        use_timm_backbone=False, backbone_config=backbone, num_queries=5, num_labels=3, d_model=16,
        **{f"{part}_{name}": count for part in ("encoder", "decoder")
           for name, count in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 24))}))
    with torch.no_grad():
        for name, value in model.named_buffers():
            value.copy_(torch.rand(value.shape) + (0.0 if name.endswith("bias") else 0.5))
    return model.requires_grad_(True)


@dataclass(frozen=True)
class Published:
    """A model of transformers.

    inputs: arrays by the names of its arguments, which ours has as well; outputs: the tensors of
    its result that ours returns; renamed: parts of names in memory, and what files have instead.
    """

    make: Callable[[], Any]
    inputs: dict[str, Any]
    outputs: Callable[[Any], tuple[Any, ...]]
    renamed: tuple[tuple[str, str], ...] = ()

    def arguments(self, convert: Callable[[Any], Any]) -> dict[str, Any]:
        """The inputs as tensors of a library."""
        return {name: convert(array) for name, array in self.inputs.items()}


def _logits(out: Any) -> tuple[Any, ...]:
    return (out.logits,)


def _detected(out: Any) -> tuple[Any, ...]:
    return out.logits, out.pred_boxes


def _features(out: Any) -> tuple[Any, ...]:
    pooled = getattr(out, "pooler_output", None)
    return (out.last_hidden_state,) if pooled is None else (out.last_hidden_state, pooled)


TEXT = {"input_ids": IDS, "attention_mask": MASK}
PAIR = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5], "attention_mask": MASK}
PUBLISHED: dict[str, Published] = {
    "BERT": Published(lambda: hf.BertModel(hf.BertConfig(**ENCODER)),
                      {**TEXT, "token_type_ids": IDS % 2}, _features),
    "RoBERTa": Published(lambda: hf.RobertaModel(hf.RobertaConfig(**ENCODER, pad_token_id=1)),
                         {"input_ids": np.where(MASK, IDS, 1), "attention_mask": MASK}, _features),
    "DistilBERT": Published(lambda: hf.DistilBertModel(hf.DistilBertConfig(
        vocab_size=99, max_position_embeddings=32, n_layers=2, n_heads=4, dim=32, hidden_dim=64)),
        TEXT, _features),
    "T5": Published(lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)), PAIR, _logits),
    "Flan-T5": Published(lambda: hf.T5ForConditionalGeneration(hf.T5Config(
        **T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)), PAIR, _logits),
    "Whisper": Published(lambda: hf.WhisperForConditionalGeneration(hf.WhisperConfig(
        vocab_size=99, num_mel_bins=8, encoder_layers=2, decoder_layers=2, d_model=16,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=20, max_target_positions=12,
        decoder_start_token_id=1, **SPECIAL)),
        {"input_features": SPECTROGRAMS, "decoder_input_ids": IDS[:, :6]}, _logits),
    "CLIP": Published(lambda: hf.CLIPModel(hf.CLIPConfig(
        text_config={**TOWER, "vocab_size": 99, "max_position_embeddings": 20,
                     **SPECIAL, "eos_token_id": 98},
        vision_config={**TOWER, "image_size": 32, "patch_size": 8}, projection_dim=16)),
        {"input_ids": ENDS, "pixel_values": IMAGES}, lambda out: (out.logits_per_image,)),
    "DETR": Published(lambda: detr("bottleneck"), {"pixel_values": PICTURES}, _detected, DETR),
    "DETR, masked": Published(lambda: detr("basic"), {
        "pixel_values": PICTURES, "pixel_mask": PRESENT}, _detected, DETR),
}
"""All other models."""
