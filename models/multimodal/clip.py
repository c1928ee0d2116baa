"""CLIP: Radford et al., arXiv 2103.00020, with the names of `CLIPModel`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

from ..blocks.activations import ACTIVATIONS
from ..blocks.heads import merge_heads, split_heads
from ..blocks.padding import padding_mask
from ..config import Config
from ..pretrained_model import PretrainedModel


@dataclass(frozen=True)
class TowerConfig(Config):
    """The hyperparameters that both towers have."""

    hidden_size: int = 512
    intermediate_size: int = 2048
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    hidden_act: str = "quick_gelu"
    layer_norm_eps: float = 1e-5

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "hidden_act": tuple(ACTIVATIONS), "attention_dropout": (0, 0.0)}


@dataclass(frozen=True)
class TextConfig(TowerConfig):
    """The hyperparameters of the tower of text."""

    vocab_size: int = 49408
    max_position_embeddings: int = 77
    eos_token_id: int = 49407


@dataclass(frozen=True)
class VisionConfig(TowerConfig):
    """The hyperparameters of the tower of images."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 32


@dataclass(frozen=True)
class CLIPConfig(Config):
    """The hyperparameters of CLIP."""

    text_config: TextConfig = field(default_factory=TextConfig)
    vision_config: VisionConfig = field(default_factory=VisionConfig)
    projection_dim: int = 512
    logit_scale_init_value: float = 2.6592

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CLIPConfig:
        towers = {"text_config": TextConfig, "vision_config": VisionConfig}
        return super().from_dict({**values, **{
            name: config.from_dict(values.get(name) or {}) for name, config in towers.items()}})


class Attention(nn.Module):
    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None, causal: bool) -> fw.Tensor:
        query, key, value = (split_heads(layer(x), self.heads)
                             for layer in (self.q_proj, self.k_proj, self.v_proj))
        out = F.scaled_dot_product_attention(query, key, value, mask, is_causal=causal)
        return self.out_proj(merge_heads(out))


class Layer(nn.Module):
    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = nn.ModuleDict({
            "fc1": nn.Linear(config.hidden_size, config.intermediate_size),
            "fc2": nn.Linear(config.intermediate_size, config.hidden_size)})
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: fw.Tensor, mask: fw.Tensor | None, causal: bool) -> fw.Tensor:
        x = x + self.self_attn(self.layer_norm1(x), mask, causal)
        return x + self.mlp["fc2"](self.activation(self.mlp["fc1"](self.layer_norm2(x))))


def encoder(config: TowerConfig) -> nn.ModuleDict:
    """The layers of a tower, under the names of the checkpoint."""
    return nn.ModuleDict({"layers": nn.ModuleList(
        [Layer(config) for _ in range(config.num_hidden_layers)])})


class TextTower(nn.Module):
    """Tokens (n, length) to the features of each text (n, hidden_size)."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.embeddings = nn.ModuleDict({
            "token_embedding": nn.Embedding(config.vocab_size, config.hidden_size),
            "position_embedding": nn.Embedding(config.max_position_embeddings,
                                               config.hidden_size)})
        self.encoder = encoder(config)
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.eos_token_id = config.eos_token_id

    def forward(self, input_ids: fw.Tensor, attention_mask: fw.Tensor | None) -> fw.Tensor:
        n, length = input_ids.shape
        x = self.embeddings["token_embedding"](input_ids) \
            + self.embeddings["position_embedding"].weight[:length]
        mask = padding_mask(attention_mask)
        for layer in self.encoder["layers"]:
            x = layer(x, mask, True)
        texts = fw.arange(n, device=input_ids.device)
        return self.final_layer_norm(x)[texts, self.last(input_ids)]

    def last(self, input_ids: fw.Tensor) -> fw.Tensor:
        """The position of the token whose features stand for the text: (n,).

        The first published checkpoints name another end token than they use; there it is the
        token with the largest number.
        """
        if self.eos_token_id == 2:
            return input_ids.argmax(axis=-1)
        return (input_ids == self.eos_token_id).astype(fw.int64).argmax(axis=-1)


class VisionEmbeddings(nn.Module):
    """Images (n, channels, size, size) to embedded patches (n, patches + 1, hidden_size)."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        patches = (config.image_size // config.patch_size) ** 2
        self.class_embedding = nn.Parameter(fw.randn(config.hidden_size))
        self.patch_embedding = nn.Conv2d(config.num_channels, config.hidden_size,
                                         config.patch_size, config.patch_size, bias=False)
        self.position_embedding = nn.Embedding(patches + 1, config.hidden_size)

    def forward(self, pixel_values: fw.Tensor) -> fw.Tensor:
        patches = self.patch_embedding(pixel_values).flatten(2).permute_dims((0, 2, 1))
        n, _, width = patches.shape
        first = self.class_embedding.broadcast_to((n, 1, width))
        return fw.concat([first, patches], axis=1) + self.position_embedding.weight


class VisionTower(nn.Module):
    """Images (n, channels, size, size) to their features (n, hidden_size)."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.embeddings = VisionEmbeddings(config)
        self.pre_layrnorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.encoder = encoder(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, pixel_values: fw.Tensor) -> fw.Tensor:
        x = self.pre_layrnorm(self.embeddings(pixel_values))
        for layer in self.encoder["layers"]:
            x = layer(x, None, False)
        return self.post_layernorm(x[:, 0])


class CLIP(PretrainedModel):
    """The scaled similarities of images and texts, (images, texts).

    Args of a call:
        input_ids: (texts, length), int.
        pixel_values: (images, channels, size, size).
        attention_mask: (texts, length), 1 or True for a token, 0 for padding. Default all ones.
    """

    CONFIG = CLIPConfig
    IGNORED = (r".*position_ids",)

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__(config)
        text, vision = config.text_config, config.vision_config
        self.text_model, self.vision_model = TextTower(text), VisionTower(vision)
        self.text_projection = nn.Linear(text.hidden_size, config.projection_dim, bias=False)
        self.visual_projection = nn.Linear(vision.hidden_size, config.projection_dim, bias=False)
        self.logit_scale = nn.Parameter(fw.tensor(config.logit_scale_init_value))

    def text_features(self, input_ids: fw.Tensor,
                      attention_mask: fw.Tensor | None = None) -> fw.Tensor:
        """Unit vectors of texts: (texts, projection_dim)."""
        return F.normalize(self.text_projection(self.text_model(input_ids, attention_mask)), dim=-1)

    def image_features(self, pixel_values: fw.Tensor) -> fw.Tensor:
        """Unit vectors of images: (images, projection_dim)."""
        return F.normalize(self.visual_projection(self.vision_model(pixel_values)), dim=-1)

    def forward(self, input_ids: fw.Tensor, pixel_values: fw.Tensor,
                attention_mask: fw.Tensor | None = None) -> fw.Tensor:
        texts = self.text_features(input_ids, attention_mask)
        return fw.exp(self.logit_scale) * (self.image_features(pixel_values) @ texts.T)
