"""Provides small models of `fusewire.models`, with inputs, for tests of whole models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusewire.models.audio import whisper
from fusewire.models.multimodal import clip
from fusewire.models.text import bert, distilbert, gpt2, llama, t5
from fusewire.models.vision import (
    convnext,
    detr,
    diffusion_unet,
    mobilenet,
    resnet,
    swin,
    unet,
    vit,
)

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Small:
    """A maker of a model, and the arrays of its arguments."""

    make: Callable[[], Any]
    inputs: tuple[Any, ...]


def tokens(count: int, *shape: int) -> Any:
    return RNG.integers(1, count, shape)


def images(*shape: int, seed: int | None = None) -> Any:
    rng = RNG if seed is None else np.random.default_rng(seed)
    return rng.standard_normal(shape).astype(np.float32)


GPT2 = gpt2.GPT2Config(vocab_size=99, n_positions=32, n_embd=32, n_layer=3, n_head=4)
BERT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 32}
DISTILBERT = {"vocab_size": 99, "max_position_embeddings": 32, "n_layers": 2, "n_heads": 4,
              "dim": 32, "hidden_dim": 64}
LLAMA = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2}
WHISPER = {"vocab_size": 99, "num_mel_bins": 8, "max_source_positions": 20,
           "max_target_positions": 12, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
           "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64,
           "decoder_ffn_dim": 64}
T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4}
CLIP = {"text_config": {**TOWER, "vocab_size": 99, "max_position_embeddings": 20,
                        "eos_token_id": 98},
        "vision_config": {**TOWER, "image_size": 32, "patch_size": 8}, "projection_dim": 16}
DETR = {"backbone_config": {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [1, 1]},
        "num_queries": 5, "num_labels": 3, "d_model": 16,
        **{f"{part}_{name}": count for part in ("encoder", "decoder")
           for name, count in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 24))}}
BLOCKS = tuple([mobilenet.SMALL[i] for i in (0, 1, 2, 4)])

MODELS = {
    "GPT-2": Small(lambda: gpt2.GPT2(GPT2), (tokens(99, 2, 7),)),
    "BERT": Small(lambda: bert.Bert.from_config(BERT), (
        tokens(99, 2, 7), np.array([[1] * 7, [1] * 4 + [0] * 3]), tokens(3, 2, 7) - 1)),
    "Llama": Small(lambda: llama.Llama.from_config(LLAMA), (tokens(99, 2, 9),)),
    "Whisper": Small(lambda: whisper.Whisper.from_config(WHISPER), (
        images(2, 8, 40), tokens(99, 2, 6))),
    "ViT": Small(lambda: vit.VisionTransformer(32, 8, 3, 2, 16, 32, 5), (images(2, 3, 32, 32),)),
    "ResNet-18": Small(lambda: resnet.resnet18(7), (images(2, 3, 48, 40),)),
    "ResNet-14": Small(lambda: resnet.ResNet(resnet.Bottleneck, (1, 1, 1, 1), 7), (
        # no input of a relu is so near 0 that rounding could give it the other sign
        images(2, 3, 48, 40, seed=20),)),
    "ResNet-50": Small(lambda: resnet.resnet50(7), (images(2, 3, 48, 40),)),
    "U-Net": Small(lambda: diffusion_unet.UNet(3, (8, 16), 1, 4, 8), (
        images(2, 3, 16, 16), np.array([3, 40]))),
    "DistilBERT": Small(lambda: distilbert.DistilBert.from_config(DISTILBERT), (
        tokens(99, 2, 7),)),
    "Qwen 3": Small(lambda: llama.Qwen3.from_config({**LLAMA, "head_dim": 16}), (
        tokens(99, 2, 9),)),
    "T5": Small(lambda: t5.T5.from_config(T5), (tokens(99, 2, 7), tokens(99, 2, 5))),
    "DETR": Small(lambda: detr.Detr.from_config(DETR), (images(2, 3, 40, 56),)),
    "CLIP": Small(lambda: clip.CLIP.from_config(CLIP), (tokens(99, 2, 7), images(3, 3, 32, 32))),
    "MobileNet v3": Small(lambda: mobilenet.MobileNetV3(BLOCKS, 32, 7, 0.5), (
        images(2, 3, 32, 32),)),
    "ConvNeXt": Small(lambda: convnext.ConvNeXt((8, 16), (1, 2), 7, 0.0), (
        images(2, 3, 32, 32),)),
    "Swin": Small(lambda: swin.SwinTransformer(16, (2, 2), (2, 4), 7, 4, drop=0.0), (
        images(2, 3, 44, 44),)),
    "Segmentation": Small(lambda: unet.UNet(3, 2, (8, 16)), (images(2, 3, 17, 16),)),
}
