"""The ResNets of DETR, whose norms are frozen, with the names of `ResNetBackbone` or of timm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

from ..config import Config, ConfigError
from . import resnet


@dataclass(frozen=True)
class BackboneConfig(Config):
    """The hyperparameters of a ResNet; its last stage is the result.

    `backbone`: the name of a function of `models/vision/resnet.py`, in files of timm's models.
    """

    backbone: str | None = None
    embedding_size: int = 64
    hidden_sizes: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[int, ...] = (3, 4, 6, 3)
    layer_type: str = "bottleneck"

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "model_type": ("resnet", "timm_backbone"), "layer_type": ("bottleneck", "basic"),
        "hidden_act": ("relu",), "downsample_in_bottleneck": (False,),
        "downsample_in_first_stage": (False,), "num_channels": (3,),
        "backbone": (None, "resnet18", "resnet34", "resnet50", "resnet101", "resnet152")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BackboneConfig:
        config = super().from_dict(values)
        last = f"stage{len(config.depths)}"
        if config.backbone is None and (values.get("out_features") or [last])[-1] != last:
            raise ConfigError(f"out_features={values['out_features']!r} of the backbone",
                              f"only its last stage, {last}, is implemented")
        return config


class FrozenBatchNorm(nn.Module):
    """A batch norm whose statistics, scales and offsets are fixed: the shape (n, channels, h, w)
    stays."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0),
                            ("running_var", 1.0)):
            self.register_buffer(name, fw.full((channels,), value))

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        scale = self.weight / fw.sqrt(self.running_var + 1e-5)
        offset = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + offset[:, None, None]


class ConvLayer(nn.Module):
    """A convolution and its norm, and a ReLU if it is `active`."""

    def __init__(self, n_in: int, n_out: int, size: int, stride: int = 1, active: bool = True
                 ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(n_in, n_out, size, stride, padding=size // 2, bias=False)
        self.normalization = FrozenBatchNorm(n_out)
        self.active = active

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = self.normalization(self.convolution(x))
        return F.relu(x) if self.active else x


class ResidualLayer(nn.Module):
    """Two 3x3 convolutions, or with `bottleneck` one between two of 1x1, beside a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        inner = n_out // 4
        self.layer = nn.Sequential(
            ConvLayer(n_in, inner, 1), ConvLayer(inner, inner, 3, stride),
            ConvLayer(inner, n_out, 1, active=False)) if bottleneck else nn.Sequential(
            ConvLayer(n_in, n_out, 3, stride), ConvLayer(n_out, n_out, 3, active=False))
        self.shortcut = nn.Identity() if n_in == n_out and stride == 1 else \
            ConvLayer(n_in, n_out, 1, stride, active=False)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return F.relu(self.layer(x) + self.shortcut(x))


class ResNetBackbone(nn.Module):
    """Images (n, 3, h, w) to the features of the last stage."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.embedder = nn.ModuleDict({"embedder": ConvLayer(3, config.embedding_size, 7, 2)})
        stages, n_in = [], config.embedding_size
        for stage, (n_out, depth) in enumerate(zip(config.hidden_sizes, config.depths)):
            layers = [ResidualLayer(n_in if i == 0 else n_out, n_out,
                                    2 if i == 0 and stage > 0 else 1,
                                    config.layer_type == "bottleneck") for i in range(depth)]
            stages.append(nn.ModuleDict({"layers": nn.Sequential(*layers)}))
            n_in = n_out
        self.encoder = nn.ModuleDict({"stages": nn.ModuleList(stages)})
        self.channels = n_in

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        x = F.max_pool2d(self.embedder["embedder"](images), 3, stride=2, padding=1)
        for stage in self.encoder["stages"]:
            x = stage["layers"](x)
        return x


class TimmBackbone(resnet.ResNet):
    """The same, with the names that timm and torchvision give to its parameters."""

    def __init__(self, name: str) -> None:
        made = getattr(resnet, name)()
        nn.Module.__init__(self)
        for part, module in made.named_children():
            if part != "fc":
                setattr(self, part, _frozen(module))
        self.channels = made.fc.in_features

    def forward(self, images: fw.Tensor) -> fw.Tensor:
        return self.features(images)


def _frozen(module: nn.Module) -> nn.Module:
    """A module whose batch norms are frozen."""
    if isinstance(module, nn.BatchNorm2d):
        return FrozenBatchNorm(module.num_features)
    for name, child in module.named_children():
        setattr(module, name, _frozen(child))
    return module


def backbone(config: BackboneConfig) -> ResNetBackbone | TimmBackbone:
    """The backbone of a config: images (n, 3, h, w) to features (n, channels, h / 32, w / 32)."""
    return ResNetBackbone(config) if config.backbone is None else TimmBackbone(config.backbone)
