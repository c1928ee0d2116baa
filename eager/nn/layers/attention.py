"""The multi-head attention layer and the names of PyTorch's attention backends."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...arguments import check_whole
from ...core.tensor import Tensor
from ...errors import ArgumentError
from ...ops.create import zeros
from ..base import init
from ..base.module import Module
from ..base.parameter import Parameter
from ..functional.attention import Heads, Projection, multi_head, projections, thirds
from .linear import Linear

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the class name that attention layers print for their output projection."""


class MultiheadAttention(Module):
    """Attention of `num_heads` heads: query (l, n, embed_dim) -> (l, n, embed_dim), and weights.

    The call takes query, key (s, n, kdim) and value (s, n, vdim), with n first for batch_first, or
    all without n. It returns the output and the weights, (n, l, s), averaged over the heads. With
    average_attn_weights=False the weights are (n, num_heads, l, s), with need_weights=False None.
    Vaswani et al. 2017.

    attn_mask is (l, s) or (n * num_heads, l, s), and key_padding_mask (n, s). True excludes a key;
    numbers are added to the scores. is_causal=True declares that attn_mask is causal. A query
    without any key gives attention 0.

    Args:
        embed_dim: features of query and output, a multiple of num_heads.
        num_heads: the number of heads.
        dropout: probability that a weight becomes 0 in training. Default 0.0.
        bias: adds learned biases to the projections. Default True.
        add_bias_kv: adds one learned key and value to the sequences. Default False.
        add_zero_attn: adds a key and a value of zeros to the sequences. Default False.
        kdim: features of the key. Default None: embed_dim.
        vdim: features of the value. Default None: embed_dim.
        batch_first: axis 0 of query, key, value and output is n. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: embed_dim or num_heads is below 1, num_heads does not divide embed_dim, or
            is_causal comes without attn_mask.
        ShapeError: query, key, value or a mask have other shapes.
        DTypeError: a mask holds integers.

    Example:
        >>> import fusewire as fw
        >>> x = fw.zeros(2, 5, 8)
        >>> output, weights = fw.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
        >>> output.shape, weights.shape
        ((2, 5, 8), (2, 5, 5))
    """

    reads_weights = True  # those of layers that it holds, without calling the layers

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.embed_dim = check_whole("MultiheadAttention", "embed_dim", embed_dim, 1)
        self.num_heads = check_whole("MultiheadAttention", "num_heads", num_heads, 1)
        self.kdim, self.vdim = (embed_dim if n is None else n for n in (kdim, vdim))
        self.dropout, self.batch_first = dropout, batch_first
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn
        if self.head_dim * num_heads != embed_dim:
            raise ArgumentError(f"MultiheadAttention: embed_dim {embed_dim} is not divisible by "
                                f"num_heads {num_heads}")

        def parameter_of(*shape: int, exists: bool = True) -> Parameter | None:
            return Parameter(zeros(shape, dtype=dtype, device=device)) if exists else None

        packed = self.kdim == self.vdim == embed_dim
        parameters = {
            "q_proj_weight": parameter_of(embed_dim, embed_dim, exists=not packed),
            "k_proj_weight": parameter_of(embed_dim, self.kdim, exists=not packed),
            "v_proj_weight": parameter_of(embed_dim, self.vdim, exists=not packed),
            "in_proj_weight": parameter_of(3 * embed_dim, embed_dim, exists=packed),
            "in_proj_bias": parameter_of(3 * embed_dim, exists=bias)}
        for name, parameter in parameters.items():
            self.register_parameter(name, parameter)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self.bias_k, self.bias_v = (parameter_of(1, 1, embed_dim, exists=add_bias_kv) for _ in "kv")
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draws weights by xavier_uniform_ and bias_k, bias_v by xavier_normal_; zeros biases."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = self._parameters[name]
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        return multi_head(self._heads(), query, key, value, 0 if self.batch_first else 1,
                          self.dropout if self.training else 0.0, key_padding_mask, attn_mask,
                          need_weights, average_attn_weights, is_causal)

    def _heads(self) -> Heads:
        packed, out = self.in_proj_weight, self.out_proj
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) \
            if packed is None else thirds(packed)
        return Heads(self.num_heads, projections(weights, thirds(self.in_proj_bias)),
                     Projection(out.weight, out.bias), self.bias_k, self.bias_v, self.add_zero_attn)


class SDPBackend(enum.Enum):
    """Names of PyTorch's attention backends; the choice has no effect here."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A context without effect: there is one implementation of attention."""
    yield
