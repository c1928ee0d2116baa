"""Well-known models as published, small and with random weights, for ours in `examples`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffusers
import torch
import transformers


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
    """The published model of a name in `small_models`."""

    name: str
    make: Callable[[], Any]
    outputs: Callable[[Any], Any] = lambda out: out  # of what it gives
    prefix: str = ""  # what names in the checkpoint begin with
    tied: str = ""  # a name in the checkpoint for a parameter that ours has under another name
    keywords: tuple[str, ...] = ()  # names of the inputs, where they are needed

    def __str__(self) -> str:
        return self.name


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=99, n_positions=32, n_embd=32, n_layer=3, n_head=4))


def bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=32))


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=80, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64))


def whisper() -> Any:
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=99, num_mel_bins=8, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, d_model=16, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=20, max_target_positions=12, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1))


def vit() -> Any:
    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=3, num_heads=2, hidden_dim=16, mlp_dim=32,
        num_classes=5)
    torch.nn.init.normal_(model.heads.head.weight)  # it begins with zeros, which would hide all
    return model


def resnet(block: str, depths: list[int]) -> Callable[[], Any]:
    kind = getattr(torchvision.models.resnet, block)
    return lambda: torchvision.models.ResNet(kind, depths, num_classes=7)


def unet() -> Any:
    return diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=4,
        block_out_channels=(8, 16), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8)


MODELS = (
    Model("GPT-2", gpt2, lambda out: out.logits, "transformer.", "lm_head.weight"),
    Model("BERT", bert, lambda out: (out.last_hidden_state, out.pooler_output),
          keywords=("input_ids", "token_type_ids", "attention_mask")),
    Model("Llama", llama, lambda out: out.logits),
    Model("Whisper", whisper, lambda out: out.logits, "model.", "proj_out.weight",
          ("input_features", "decoder_input_ids")),
    Model("ViT", vit),
    Model("ResNet-18", resnet("BasicBlock", [2, 2, 2, 2])),
    Model("ResNet-50", resnet("Bottleneck", [3, 4, 6, 3])),
    Model("U-Net", unet, lambda out: out.sample),
)
