"""DETR: Carion et al., arXiv 2005.12872, with the names of `DetrForObjectDetection`."""

from __future__ import annotations

import math
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
from .detr_backbone import BackboneConfig, backbone


@dataclass(frozen=True)
class DetrConfig(Config):
    """The hyperparameters of DETR. A class is added to `num_labels` for queries without an object.
    """

    backbone_config: BackboneConfig = field(default_factory=BackboneConfig)
    num_queries: int = 100
    num_labels: int = 91
    d_model: int = 256
    encoder_layers: int = 6
    encoder_ffn_dim: int = 2048
    encoder_attention_heads: int = 8
    decoder_layers: int = 6
    decoder_ffn_dim: int = 2048
    decoder_attention_heads: int = 8
    activation_function: str = "relu"
    dropout: float = 0.1

    SUPPORTED: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "activation_function": tuple(ACTIVATIONS), "position_embedding_type": ("sine",),
        "attention_dropout": (0, 0.0), "activation_dropout": (0, 0.0), "dilation": (False,),
        "encoder_layerdrop": (0, 0.0), "decoder_layerdrop": (0, 0.0), "num_channels": (3,)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DetrConfig:
        given = values.get("backbone_config") or {}
        if values.get("use_timm_backbone"):
            given = {"backbone": values.get("backbone"), **given}
        labels = {"num_labels": len(values["id2label"])} if "id2label" in values else {}
        return super().from_dict({**values, **labels,
                                  "backbone_config": BackboneConfig.from_dict(given)})


class Attention(nn.Module):
    """Attention in which places are added to queries and keys, not to values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, query: fw.Tensor, key: fw.Tensor, value: fw.Tensor, mask: fw.Tensor | None
                ) -> fw.Tensor:
        query, key, value = (split_heads(layer(x), self.heads) for layer, x in (
            (self.q_proj, query), (self.k_proj, key), (self.v_proj, value)))
        return self.out_proj(merge_heads(F.scaled_dot_product_attention(query, key, value, mask)))


class Layer(nn.Module):
    """What layers of the encoder and of the decoder share: attention to oneself, and an MLP."""

    def __init__(self, config: DetrConfig, heads: int, inner: int) -> None:
        super().__init__()
        width = config.d_model
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)
        self.activation = ACTIVATIONS[config.activation_function]
        self.dropout = nn.Dropout(config.dropout)

    def attend_to_self(self, x: fw.Tensor, places: fw.Tensor, mask: fw.Tensor | None
                       ) -> fw.Tensor:
        """Attention to oneself, its residual connection and norm: the shape of `x`."""
        found = self.self_attn(x + places, x + places, x, mask)
        return self.self_attn_layer_norm(x + self.dropout(found))

    def feed_forward(self, x: fw.Tensor) -> fw.Tensor:
        """The MLP, its residual connection and norm: the shape of `x`."""
        found = self.fc2(self.activation(self.fc1(x)))
        return self.final_layer_norm(x + self.dropout(found))


class EncoderLayer(Layer):
    def __init__(self, config: DetrConfig) -> None:
        super().__init__(config, config.encoder_attention_heads, config.encoder_ffn_dim)

    def forward(self, x: fw.Tensor, places: fw.Tensor, mask: fw.Tensor | None) -> fw.Tensor:
        return self.feed_forward(self.attend_to_self(x, places, mask))


class DecoderLayer(Layer):
    def __init__(self, config: DetrConfig) -> None:
        super().__init__(config, config.decoder_attention_heads, config.decoder_ffn_dim)
        self.encoder_attn = Attention(config.d_model, config.decoder_attention_heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model)

    def forward(self, x: fw.Tensor, queries: fw.Tensor, image: fw.Tensor, places: fw.Tensor,
                mask: fw.Tensor | None) -> fw.Tensor:
        x = self.attend_to_self(x, queries, None)
        found = self.encoder_attn(x + queries, image + places, image, mask)
        return self.feed_forward(self.encoder_attn_layer_norm(x + self.dropout(found)))


def sine_places(present: fw.Tensor, width: int) -> fw.Tensor:
    """Sines and cosines of the place of each pixel: (n, h * w, width).

    Args:
        present: (n, h, w), 1.0 for pixels of the image and 0.0 for padding.
        width: features; half of them for rows and half for columns.
    """
    half = width // 2
    exponents = fw.arange(half, device=present.device) // 2 * 2
    steps = fw.exp(exponents.astype(present.dtype) * (math.log(10000.0) / half))
    parts = []
    for axis in (1, 2):
        at = fw.cumulative_sum(present, axis=axis)
        last = at[:, -1:, :] if axis == 1 else at[:, :, -1:]
        angles = (at / (last + 1e-6) * (2 * math.pi))[..., None] / steps
        both = fw.stack([fw.sin(angles[..., 0::2]), fw.cos(angles[..., 1::2])], axis=-1)
        parts.append(both.reshape(*present.shape, half))
    return fw.concat(parts, axis=-1).reshape(present.shape[0], -1, width)


class Transformer(nn.Module):
    """Images (n, 3, h, w) to the features of the queries (n, num_queries, d_model)."""

    def __init__(self, config: DetrConfig) -> None:
        super().__init__()
        features = backbone(config.backbone_config)
        self.backbone = nn.ModuleDict({"conv_encoder": nn.ModuleDict({"model": features})})
        self.query_position_embeddings = nn.Embedding(config.num_queries, config.d_model)
        self.input_projection = nn.Conv2d(features.channels, config.d_model, 1)
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(
            [EncoderLayer(config) for _ in range(config.encoder_layers)])})
        self.decoder = nn.ModuleDict({
            "layers": nn.ModuleList([DecoderLayer(config) for _ in range(config.decoder_layers)]),
            "layernorm": nn.LayerNorm(config.d_model)})

    def forward(self, images: fw.Tensor, pixel_mask: fw.Tensor | None) -> fw.Tensor:
        x = self.input_projection(self.backbone["conv_encoder"]["model"](images))
        n, width, h, w = x.shape
        if pixel_mask is None:
            present, mask = fw.ones((n, h, w), dtype=x.dtype, device=x.device), None
        else:
            pixels = pixel_mask[:, None].astype(x.dtype)
            present = F.interpolate(pixels, size=(h, w)).reshape(n, h, w)
            mask = padding_mask(present.reshape(n, h * w))
        places = sine_places(present, width)
        image = x.reshape(n, width, h * w).permute_dims((0, 2, 1))
        for layer in self.encoder["layers"]:
            image = layer(image, places, mask)
        queries = self.query_position_embeddings.weight[None]
        found = fw.zeros((n, *queries.shape[1:]), dtype=x.dtype, device=x.device)
        for layer in self.decoder["layers"]:
            found = layer(found, queries, image, places, mask)
        return self.decoder["layernorm"](found)


class Detr(PretrainedModel):
    """Images (n, 3, h, w) to the logits of classes (n, num_queries, num_labels + 1), and to boxes
    (n, num_queries, 4): middle x, middle y, width, height, as shares of the image.

    `detections` makes scores, classes and corners of them.

    Args of a call:
        pixel_values: (n, 3, h, w).
        pixel_mask: (n, h, w), 1 or True for pixels and 0 for padding. Default all ones.
    """

    CONFIG = DetrConfig
    IGNORED = (r".*\.num_batches_tracked",)

    def __init__(self, config: DetrConfig) -> None:
        super().__init__(config)
        width = config.d_model
        self.model = Transformer(config)
        self.class_labels_classifier = nn.Linear(width, config.num_labels + 1)
        self.bbox_predictor = nn.ModuleDict({"layers": nn.ModuleList(
            [nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 4)])})

    def forward(self, pixel_values: fw.Tensor, pixel_mask: fw.Tensor | None = None
                ) -> tuple[fw.Tensor, fw.Tensor]:
        x = self.model(pixel_values, pixel_mask)
        first, second, last = self.bbox_predictor["layers"]
        return self.class_labels_classifier(x), F.sigmoid(last(F.relu(second(F.relu(first(x))))))


def detections(logits: fw.Tensor, boxes: fw.Tensor, height: int, width: int
               ) -> tuple[fw.Tensor, fw.Tensor, fw.Tensor]:
    """The scores (n, queries), classes (n, queries) and corners (n, queries, 4) of objects.

    Corners are x1, y1, x2, y2 in pixels. Keep those with a score above a threshold of your choice.

    Args:
        logits, boxes: the results of `Detr`.
        height, width: of the images, in pixels.
    """
    likely = F.softmax(logits, -1)[..., :-1]
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    size = fw.tensor([width, height, width, height], dtype=boxes.dtype, device=boxes.device)
    return likely.max(axis=-1), likely.argmax(axis=-1), \
        fw.concat([middle - half, middle + half], axis=-1) * size
