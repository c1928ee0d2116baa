"""Well-known models: the published code of each with random weights, and the one in `examples`.

Small configurations; names, shapes and order of computation are those of the checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from models import bert, gpt2, llama, resnet, unet, vit, whisper

RNG = np.random.default_rng(0)


def stand_in_for_torchvision_ops() -> None:
    """Lets torchvision load where its compiled part does not: it was built for CUDA."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    globals()["_kept"] = library  # it is undone when the library is collected


stand_in_for_torchvision_ops()
import torchvision  # noqa: E402


@dataclass(frozen=True)
class Model:
    """A model of ours and the published one."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    inputs: tuple[Any, ...]
    outputs: Callable[[Any], Any] = lambda out: out  # of what theirs gives
    prefix: str = ""  # what names in the checkpoint begin with
    tied: str = ""  # a name in the checkpoint for a parameter that ours has under another name
    keywords: tuple[str, ...] = ()  # names of the inputs in theirs, where they are needed

    def __str__(self) -> str:
        return self.name


def tokens(count: int, *shape: int) -> Any:
    return RNG.integers(1, count, shape)


def images(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def their_gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=99, n_positions=32, n_embd=32, n_layer=3, n_head=4))


def their_bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=32))


def their_llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=80, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64))


def their_whisper() -> Any:
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=99, num_mel_bins=8, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, d_model=16, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=20, max_target_positions=12, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1))


def their_vit() -> Any:
    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=3, num_heads=2, hidden_dim=16, mlp_dim=32,
        num_classes=5)
    torch.nn.init.normal_(model.heads.head.weight)  # it begins with zeros, which would hide all
    return model


def their_resnet(block: str, depths: list[int]) -> Callable[[], Any]:
    kind = getattr(torchvision.models.resnet, block)
    return lambda: torchvision.models.ResNet(kind, depths, num_classes=7)


def their_unet() -> Any:
    return diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=4,
        block_out_channels=(8, 16), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8)


MODELS = (
    Model("GPT-2", lambda: gpt2.GPT2(99, 32, 32, 3, 4), their_gpt2, (tokens(99, 2, 7),),
          lambda out: out.logits, "transformer.", "lm_head.weight"),
    Model("BERT", lambda: bert.BERT(99, 32, 32, 3, 4, 64), their_bert,
          (tokens(99, 2, 7), tokens(2, 2, 7) - 1, np.array([[1] * 7, [1] * 4 + [0] * 3])),
          lambda out: (out.last_hidden_state, out.pooler_output),
          keywords=("input_ids", "token_type_ids", "attention_mask")),
    Model("Llama", lambda: llama.Llama(99, 32, 80, 3, 4, 2), their_llama, (tokens(99, 2, 9),),
          lambda out: out.logits),
    Model("Whisper", lambda: whisper.Whisper(99, 8, 20, 12, 16, 2, 2), their_whisper,
          (images(2, 8, 40), tokens(99, 2, 6)), lambda out: out.logits, "model.",
          "proj_out.weight", ("input_features", "decoder_input_ids")),
    Model("ViT", lambda: vit.VisionTransformer(32, 8, 3, 2, 16, 32, 5), their_vit,
          (images(2, 3, 32, 32),)),
    Model("ResNet-18", lambda: resnet.ResNet(resnet.Basic, (2, 2, 2, 2), classes=7),
          their_resnet("BasicBlock", [2, 2, 2, 2]), (images(2, 3, 48, 40),)),
    Model("ResNet-50", lambda: resnet.ResNet(resnet.Bottleneck, (3, 4, 6, 3), classes=7),
          their_resnet("Bottleneck", [3, 4, 6, 3]), (images(2, 3, 48, 40),)),
    Model("U-Net", lambda: unet.UNet(3, (8, 16), 1, 4, 8), their_unet,
          (images(2, 3, 16, 16), np.array([3, 40])), lambda out: out.sample),
)
