"""Provides small instances of the models of `examples`, with inputs, for tests of whole models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from models import bert, gpt2, llama, resnet, unet, vit, whisper

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


MODELS = {
    "GPT-2": Small(lambda: gpt2.GPT2(99, 32, 32, 3, 4), (tokens(99, 2, 7),)),
    "BERT": Small(lambda: bert.BERT(99, 32, 32, 3, 4, 64), (
        tokens(99, 2, 7), tokens(3, 2, 7) - 1, np.array([[1] * 7, [1] * 4 + [0] * 3]))),
    "Llama": Small(lambda: llama.Llama(99, 32, 80, 3, 4, 2), (tokens(99, 2, 9),)),
    "Whisper": Small(lambda: whisper.Whisper(99, 8, 20, 12, 16, 2, 2), (
        images(2, 8, 40), tokens(99, 2, 6))),
    "ViT": Small(lambda: vit.VisionTransformer(32, 8, 3, 2, 16, 32, 5), (images(2, 3, 32, 32),)),
    "ResNet-18": Small(lambda: resnet.ResNet(resnet.Basic, (2, 2, 2, 2), classes=7), (
        images(2, 3, 48, 40),)),
    "ResNet-14": Small(lambda: resnet.ResNet(resnet.Bottleneck, (1, 1, 1, 1), classes=7), (
        # no input of a relu is so near 0 that rounding could give it the other sign
        images(2, 3, 48, 40, seed=20),)),
    "ResNet-50": Small(lambda: resnet.ResNet(resnet.Bottleneck, (3, 4, 6, 3), classes=7), (
        images(2, 3, 48, 40),)),
    "U-Net": Small(lambda: unet.UNet(3, (8, 16), 1, 4, 8), (
        images(2, 3, 16, 16), np.array([3, 40]))),
}
