"""Models of diffusers: networks that remove noise, and the encoders of their images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .catalogue import MODELS, Inputs, Model, floats, joined, with_weights


def _diffusers(name: str, **given: Any) -> Callable[[], Any]:
    def make() -> Any:
        import diffusers

        from . import torchvision_ops  # noqa: F401 (before diffusers, which imports it)

        return getattr(diffusers, name)(**given)

    return make


def _steps(batch: int) -> Inputs:
    return {"timestep": np.full(batch, 10, np.int64)}


def _sample(out: Any) -> Any:
    return out.sample


_WIDTHS = (128, 256, 256)
_UNET = {"sample_size": 32, "in_channels": 3, "out_channels": 3, "layers_per_block": 2,
         "block_out_channels": _WIDTHS, "attention_head_dim": 8,
         "down_block_types": ("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"),
         "up_block_types": ("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D")}


def _unet(module: Any) -> Any:
    from fusewire.models.vision.diffusion_unet import UNet

    return with_weights(UNet(3, _WIDTHS), module)


MODELS["unet_32"] = Model("diffusion", _diffusers("UNet2DModel", **_UNET), joined(
    floats("sample", 3, 32, 32), _steps), _sample, _unet, True)
MODELS["unet_conditional"] = Model("diffusion", _diffusers(
    "UNet2DConditionModel", sample_size=32, block_out_channels=(128, 256, 512),
    layers_per_block=1, cross_attention_dim=512,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D")), joined(
        floats("sample", 4, 32, 32), _steps, floats("encoder_hidden_states", 77, 512)), _sample)
MODELS["autoencoder_tiny"] = Model("diffusion", _diffusers("AutoencoderTiny"),
                                   floats("sample", 3, 128, 128), _sample)
MODELS["autoencoder_kl"] = Model("diffusion", _diffusers(
    "AutoencoderKL", block_out_channels=(64, 128, 256), layers_per_block=1,
    down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3),
    floats("sample", 3, 64, 64), _sample)
MODELS["diffusion_transformer"] = Model("diffusion", _diffusers(
    "DiTTransformer2DModel", num_layers=6, num_attention_heads=6, attention_head_dim=64),
    joined(floats("hidden_states", 4, 32, 32), _steps,
           lambda batch: {"class_labels": np.arange(batch)}), _sample)
