"""Models of torchvision and diffusers, small and with random weights, for ours without a config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffusers
import torch
from parity.torchvision_ops import torchvision


@dataclass(frozen=True)
class Model:
    """The published model of a name in `small_models`."""

    name: str
    make: Callable[[], Any]
    outputs: Callable[[Any], Any] = lambda out: out  # the tensors of its result

    def __str__(self) -> str:
        return self.name


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


def mobilenet_v3() -> Any:
    kind = torchvision.models.mobilenetv3
    blocks = [kind.InvertedResidualConfig(16, 3, 16, 16, True, "RE", 2, 1, 0.5),
              kind.InvertedResidualConfig(16, 3, 72, 24, False, "RE", 2, 1, 0.5),
              kind.InvertedResidualConfig(24, 3, 88, 24, False, "RE", 1, 1, 0.5),
              kind.InvertedResidualConfig(24, 5, 240, 40, True, "HS", 1, 1, 0.5)]
    return torchvision.models.MobileNetV3(blocks, 32, num_classes=7)


def convnext() -> Any:
    kind = torchvision.models.convnext
    model = torchvision.models.ConvNeXt(
        [kind.CNBlockConfig(8, 16, 1), kind.CNBlockConfig(16, None, 2)], num_classes=7)
    for name, p in model.named_parameters():
        if name.endswith("layer_scale"):  # it begins near 0, which would hide the blocks
            torch.nn.init.normal_(p)
    return model


def swin() -> Any:
    return torchvision.models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=7)


def whole(name: str) -> Callable[[], Any]:
    return lambda: getattr(torchvision.models, name)(num_classes=7)


MODELS = (
    Model("ViT", vit),
    Model("ResNet-18", resnet("BasicBlock", [2, 2, 2, 2])),
    Model("ResNet-50", resnet("Bottleneck", [3, 4, 6, 3])),
    Model("ResNeXt", whole("resnext50_32x4d")),
    Model("MobileNet v2", whole("mobilenet_v2")),
    Model("MobileNet v3", mobilenet_v3),
    Model("EfficientNet", whole("efficientnet_b0")),
    Model("ConvNeXt", convnext),
    Model("Swin", swin),
    Model("U-Net", unet, lambda out: out.sample),
)
