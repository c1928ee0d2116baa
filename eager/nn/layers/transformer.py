"""Transformer layers: encoder, decoder and both (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...arguments import check_choice
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import full
from ...ops.shape.grid import triu
from .. import functional as F
from ..base import init
from ..base.container import ModuleList
from ..base.module import Module
from .attention import MultiheadAttention
from .dropout import Dropout
from .linear import Linear
from .normalization import LayerNorm

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
           "TransformerEncoderLayer"]

Activation = str | Callable[[Tensor], Tensor]


class _Layer(Module):
    """Base of encoder and decoder layers: residual blocks of attention and a feed-forward part."""

    ATTENTIONS: tuple[str, ...]  # names of the attention blocks, before the feed-forward one

    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        for name in self.ATTENTIONS:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias,
                                                   batch_first=batch_first, **options))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.norm_first = norm_first
        numbers = range(1, len(self.ATTENTIONS) + 2)
        for n in numbers:
            setattr(self, f"norm{n}", LayerNorm(d_model, layer_norm_eps, bias=bias, **options))
        for n in numbers:
            setattr(self, f"dropout{n}", Dropout(dropout))
        if isinstance(activation, str):
            check_choice(type(self).__name__, "activation", activation, ("relu", "gelu"))
            activation = F.relu if activation == "relu" else F.gelu
        self.activation = activation

    def _residual(self, x: Tensor, n: int, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Residual block number `n`: `x` plus `part` of it, with the norm before or after."""
        norm, dropout = getattr(self, f"norm{n}"), getattr(self, f"dropout{n}")
        if self.norm_first:
            return x + dropout(part(norm(x)))  # type: ignore[no-any-return]
        return norm(x + dropout(part(x)))  # type: ignore[no-any-return]

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _attention(
    layer: MultiheadAttention, mask: Tensor | None, padding: Tensor | None, causal: bool,
    memory: Tensor | None = None,
) -> Callable[[Tensor], Tensor]:
    """Attention to the tensor itself, or to `memory`, as a function of the tensor."""
    def attend(x: Tensor) -> Tensor:
        source = x if memory is None else memory
        return layer(x, source, source, attn_mask=mask, key_padding_mask=padding,
                     need_weights=False, is_causal=causal)[0]

    return attend


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear layers: src (s, n, d_model) -> (s, n, d_model).

    With batch_first src is (n, s, d_model); it may lack n. The blocks are attention and
    linear2(activation(linear1(x))); each adds its input and has a norm. The call takes
    src_mask (s, s) and src_key_padding_mask (n, s). True in a mask excludes a position; numbers are
    added to the scores. is_causal=True declares that src_mask is causal.

    Args:
        d_model: features of a position.
        nhead: heads of each attention.
        dim_feedforward: features between the two linear layers. Default 2048.
        dropout: probability of every dropout. Default 0.1.
        activation: "relu", "gelu" or a function. Default F.relu.
        layer_norm_eps: eps of the norms. Default 1e-05.
        batch_first: axis 0 of inputs and output is n. Default False.
        norm_first: True normalizes before each block, False after its sum. Default False.
        bias: adds learned biases to all layers. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: nhead does not divide d_model, or an unknown activation.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32)
        >>> layer(fw.zeros(7, 2, 16)).shape
        (7, 2, 16)
    """

    ATTENTIONS = ("self_attn",)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:
        attend = _attention(self.self_attn, src_mask, src_key_padding_mask, is_causal)
        return self._residual(self._residual(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """TransformerEncoderLayer with attention to memory: tgt (t, n, d_model) -> (t, n, d_model).

    The call takes tgt and memory (s, n, d_model), with n first for batch_first, or without n. It
    also takes tgt_mask (t, t), memory_mask (t, s), tgt_key_padding_mask (n, t) and
    memory_key_padding_mask (n, s). True in a mask excludes a position; numbers are added to the
    scores. tgt_is_causal and memory_is_causal declare that a mask is causal.

    Args:
        d_model: features of a position.
        nhead: heads of each attention.
        dim_feedforward: features between the two linear layers. Default 2048.
        dropout: probability of every dropout. Default 0.1.
        activation: "relu", "gelu" or a function. Default F.relu.
        layer_norm_eps: eps of the norms. Default 1e-05.
        batch_first: axis 0 of inputs and output is n. Default False.
        norm_first: True normalizes before each block, False after its sum. Default False.
        bias: adds learned biases to all layers. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: nhead does not divide d_model, or an unknown activation.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32)
        >>> layer(fw.zeros(5, 2, 16), fw.zeros(7, 2, 16)).shape
        (5, 2, 16)
    """

    ATTENTIONS = ("self_attn", "multihead_attn")

    multihead_attn: MultiheadAttention

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        to_itself = _attention(self.self_attn, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        to_memory = _attention(self.multihead_attn, memory_mask, memory_key_padding_mask,
                               memory_is_causal, memory)
        x = self._residual(self._residual(tgt, 1, to_itself), 2, to_memory)
        return self._residual(x, 3, self._feed_forward)


class _Stack(Module):
    """Base of stacks: copies of one layer in sequence, then a norm."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def _run(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **kwargs)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Copies of `encoder_layer` in sequence, then `norm`: src (s, n, d_model) -> (s, n, d_model).

    The copies start with equal parameters. The call takes src, mask (s, s), src_key_padding_mask
    (n, s) and is_causal, which declares that mask is causal.

    Args:
        encoder_layer: the layer that is copied.
        num_layers: the number of copies.
        norm: the last module. Default None: no norm.
        enable_nested_tensor: stored, but without effect. Default True.
        mask_check: stored, but without effect. Default True.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32)
        >>> fw.nn.TransformerEncoder(layer, num_layers=2)(fw.zeros(7, 2, 16)).shape
        (7, 2, 16)
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True,  # no effect: there are no nested tensors
        mask_check: bool = True,  # no effect either
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._run(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask,
                         is_causal=bool(is_causal))


class TransformerDecoder(_Stack):
    """Copies of `decoder_layer` in sequence, then `norm`: tgt (t, n, d_model) -> (t, n, d_model).

    The copies start with equal parameters. The call takes the arguments of TransformerDecoderLayer,
    which go to each copy.

    Args:
        decoder_layer: the layer that is copied.
        num_layers: the number of copies.
        norm: the last module. Default None: no norm.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32)
        >>> decoder = fw.nn.TransformerDecoder(layer, num_layers=2)
        >>> decoder(fw.zeros(5, 2, 16), fw.zeros(7, 2, 16)).shape
        (5, 2, 16)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        return self._run(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
            memory_is_causal=memory_is_causal)


class Transformer(Module):
    """An encoder and a decoder: src (s, n, d_model), tgt (t, n, d_model) -> (t, n, d_model).

    With batch_first n is axis 0; src and tgt may lack n. The call takes src_mask (s, s), tgt_mask
    (t, t), memory_mask (t, s), src_key_padding_mask and memory_key_padding_mask (n, s), and
    tgt_key_padding_mask (n, t). True in a mask excludes a position; numbers are added to the
    scores. src_is_causal, tgt_is_causal and memory_is_causal declare that a mask is causal. Vaswani
    et al. 2017.

    Args:
        d_model: features of a position. Default 512.
        nhead: heads of each attention. Default 8.
        num_encoder_layers: layers of the encoder. Default 6.
        num_decoder_layers: layers of the decoder. Default 6.
        dim_feedforward: features between the two linear layers. Default 2048.
        dropout: probability of every dropout. Default 0.1.
        activation: "relu", "gelu" or a function. Default F.relu.
        custom_encoder: replaces the encoder. Default None.
        custom_decoder: replaces the decoder. Default None.
        layer_norm_eps: eps of the norms. Default 1e-05.
        batch_first: axis 0 of inputs and output is n. Default False.
        norm_first: True normalizes before each block, False after its sum. Default False.
        bias: adds learned biases to all layers. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: nhead does not divide d_model, or an unknown activation.
        ShapeError: src and tgt have other axes, batches or features.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Transformer(16, 4, num_encoder_layers=1, num_decoder_layers=1)
        >>> mask = model.generate_square_subsequent_mask(5)
        >>> model(fw.zeros(7, 2, 16), fw.zeros(5, 2, 16), tgt_mask=mask).shape
        (5, 2, 16)
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, custom_encoder: Any | None = None,
        custom_decoder: Any | None = None, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                   batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*options), num_encoder_layers, norm())
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*options), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        """Draws all weights by xavier_uniform_."""
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:
        self._check(src.shape, tgt.shape)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask,
                              is_causal=src_is_causal)
        return self.decoder(  # type: ignore[no-any-return]
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal)

    def _check(self, src: Any, tgt: Any) -> None:
        batch_axis = 0 if self.batch_first else 1
        fits = len(src) == len(tgt) in (2, 3) and src[-1] == tgt[-1] == self.d_model
        if not fits or (len(src) == 3 and src[batch_axis] != tgt[batch_axis]):
            layout = "(n, s, d_model) and (n, t, d_model)" if self.batch_first else \
                "(s, n, d_model) and (t, n, d_model)"
            raise ShapeError(f"Transformer: takes src and tgt {layout} with d_model "
                             f"{self.d_model}, or both without n, got {src} and {tgt}")

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz), -inf above the diagonal, 0 elsewhere: each position looks at those up to it."""
        return triu(full((sz, sz), -float("inf"), dtype, device), k=1)
