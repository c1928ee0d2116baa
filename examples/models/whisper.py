"""Whisper: Radford et al., arXiv 2212.04356, with the parameter names of the checkpoints.

Weights: the `model.safetensors` of `openai/whisper-tiny` and its larger siblings.
"""

from __future__ import annotations

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: fw.Tensor, source: fw.Tensor, causal: bool = False) -> fw.Tensor:
        n, length, width = x.shape
        query, key, value = (
            part(y).reshape(n, y.shape[1], self.heads, -1).permute_dims((0, 2, 1, 3))
            for part, y in ((self.q_proj, x), (self.k_proj, source), (self.v_proj, source)))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.out_proj(out.permute_dims((0, 2, 1, 3)).reshape(n, length, width))


class Layer(nn.Module):
    """A layer of the encoder, or with `cross` one of the decoder, which looks at the audio too."""

    def __init__(self, width: int, heads: int, cross: bool) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        if cross:
            self.encoder_attn = Attention(width, heads)
            self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: fw.Tensor, audio: fw.Tensor | None = None) -> fw.Tensor:
        y = self.self_attn_layer_norm(x)
        x = x + self.self_attn(y, y, causal=audio is not None)
        if audio is not None:
            x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), audio)
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class Encoder(nn.Module):
    """Log-mel spectrograms (n, bins, 2 * frames) to (n, frames, width)."""

    def __init__(self, bins: int, frames: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(bins, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(frames, width)
        self.layers = nn.ModuleList([Layer(width, heads, False) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, spectrogram: fw.Tensor) -> fw.Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(spectrogram)))).permute_dims((0, 2, 1))
        x = x + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class Decoder(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int, layers: int,
                 heads: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.embed_positions = nn.Embedding(positions, width)
        self.layers = nn.ModuleList([Layer(width, heads, True) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, tokens: fw.Tensor, audio: fw.Tensor) -> fw.Tensor:
        x = self.embed_tokens(tokens) + self.embed_positions.weight[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, audio)
        return self.layer_norm(x) @ self.embed_tokens.weight.T


class Whisper(nn.Module):
    """Spectrograms (n, bins, 2 * frames) and tokens (n, length) to the next token's logits."""

    def __init__(self, vocabulary: int = 51865, bins: int = 80, frames: int = 1500,
                 positions: int = 448, width: int = 384, layers: int = 4, heads: int = 6) -> None:
        super().__init__()
        self.encoder = Encoder(bins, frames, width, layers, heads)
        self.decoder = Decoder(vocabulary, positions, width, layers, heads)

    def forward(self, spectrogram: fw.Tensor, tokens: fw.Tensor) -> fw.Tensor:
        return self.decoder(tokens, self.encoder(spectrogram))
