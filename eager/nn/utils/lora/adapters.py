"""Defines the adapters of LoRA: terms of a layer's result, from two small matrices.

An adapter is a child of its layer, under the name "lora", and a forward hook of the layer adds its
result. So the layer keeps its class, its name and its parameters, and x W + ((x A) B) * scale needs
no matrix of the size of W besides W. A parametrization of the weight would make W + A B * scale
in each step, and a gradient of that size.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ....arguments import check_at_least, check_fraction, check_whole
from ....arrays import dtypes
from ....core.tensor import Tensor
from ....errors import ArgumentError, DTypeError
from ....ops.create import zeros
from ....ops.elementwise.pointwise import cast
from ....ops.shape.view import reshape
from ... import functional as F
from ...base import init
from ...base.module import Module
from ...base.parameter import Parameter
from ...layers.conv import Conv1d, Conv2d, Conv3d
from ...layers.embedding import Embedding
from ...layers.linear import Linear

__all__ = ["Adapter", "ConvAdapter", "EmbeddingAdapter", "LinearAdapter",
           "TransposedLinearAdapter", "register"]

CHILD = "lora"  # the name of an adapter in its layer
_WIDE = (dtypes.float32, dtypes.float64)


class Adapter(Module):
    """The base of adapters: computes a term of a layer's result from its input.

    A subclass defines NAMES, shapes, forward and change. A and B are float32, or float64 for
    weights of float64.

    Args:
        layer: the layer, with its attribute weight.
        rank: the number of rows of A, at least 1.
        alpha: the numerator of the factor `scale`.
        dropout: the probability that an element of the input is dropped in training. Default 0.0.
        rslora: divides alpha by the root of the rank in place of the rank: Kalajdzievski, arXiv
            2312.03732. Default False.

    Raises:
        ArgumentError: a number is out of range, or the layer cannot have an adapter.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Linear(6, 4)
        >>> adapter = fw.nn.utils.lora.LinearAdapter(layer, rank=2, alpha=8)
        >>> adapter.A.shape, adapter.B.shape, adapter.scale
        ((2, 6), (4, 2), 4.0)
    """

    NAMES: ClassVar[tuple[str, str]] = ("lora_A.weight", "lora_B.weight")
    """The names of A and B in files."""
    transposed: ClassVar[bool] = False
    """True for weights (n_in, n_out)."""
    A: Parameter
    B: Parameter

    def __init__(self, layer: Any, rank: int, alpha: float, dropout: float = 0.0,
                 rslora: bool = False) -> None:
        super().__init__()
        self.rank, self.rslora = check_whole("lora", "rank", rank, 1), bool(rslora)
        self.alpha = check_at_least("lora", "alpha", alpha, 0)
        self.dropout = check_fraction("lora", "dropout", dropout, below_one=True)
        self.scale = alpha / (math.sqrt(rank) if rslora else rank)
        self.enabled = True
        weight = layer.weight
        dtype = weight.dtype if weight.dtype in _WIDE else dtypes.float32
        first, second = self.shapes(layer, rank)
        self.A = Parameter(zeros(first, dtype=dtype, device=weight.device))
        self.B = Parameter(zeros(second, dtype=dtype, device=weight.device))
        self.reset_parameters()
        self.train(layer.training)

    def reset_parameters(self) -> None:
        """Draws A as the weight of a Linear; B is 0, so that the layer's results stay the same."""
        init.kaiming_uniform_(self.A, a=math.sqrt(5))
        init.zeros_(self.B)

    def shapes(self, layer: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of A and B."""
        raise NotImplementedError(f"{type(self).__name__} does not define shapes")

    def change(self, layer: Any) -> Tensor:
        """What the adapter amounts to, as an addition to the weight of the layer, in its shape."""
        raise NotImplementedError(f"{type(self).__name__} does not define change")

    def _input(self, x: Tensor) -> Tensor:
        return F.dropout(cast(x, self.A.dtype), self.dropout, self.training)

    def extra_repr(self) -> str:
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"rank={self.rank}, alpha={self.alpha}{dropout}" + ", rslora" * self.rslora


class LinearAdapter(Adapter):
    """The adapter of a Linear: A is (rank, in_features), B is (out_features, rank).

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Linear(6, 4)
        >>> adapter = fw.nn.utils.lora.LinearAdapter(layer, rank=2, alpha=8)
        >>> adapter(layer, fw.ones(3, 6)).shape
        (3, 4)
    """

    def shapes(self, layer: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (rank, layer.in_features), (layer.out_features, rank)

    def forward(self, layer: Any, x: Tensor) -> Tensor:
        return F.linear(F.linear(self._input(x), self.A) * self.scale, self.B)

    def change(self, layer: Any) -> Tensor:
        product = (self.B @ self.A) * self.scale
        return product.mT if self.transposed else product


class TransposedLinearAdapter(LinearAdapter):
    """The adapter of a linear layer whose weight is (in_features, out_features), as in GPT-2.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.utils.lora.TransposedLinearAdapter.transposed
        True
    """

    transposed = True


class EmbeddingAdapter(Adapter):
    """The adapter of an Embedding: A is (rank, num_embeddings), B is (embedding_dim, rank).

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Embedding(6, 4)
        >>> adapter = fw.nn.utils.lora.EmbeddingAdapter(layer, rank=2, alpha=8)
        >>> adapter(layer, fw.tensor([5, 0, 1])).shape
        (3, 4)
    """

    NAMES = ("lora_embedding_A", "lora_embedding_B")

    def reset_parameters(self) -> None:
        """Draws B from the normal distribution; A is 0, so the layer's results stay the same."""
        init.zeros_(self.A)
        init.normal_(self.B)

    def shapes(self, layer: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if layer.max_norm is not None:
            raise ArgumentError("lora: an Embedding with max_norm changes its rows as they are "
                                "read, so it takes no adapter", "choose other targets")
        return (rank, layer.num_embeddings), (layer.embedding_dim, rank)

    def forward(self, layer: Any, x: Tensor) -> Tensor:
        rows = F.embedding(x, self.A.mT, layer.padding_idx,
                           scale_grad_by_freq=layer.scale_grad_by_freq)
        return F.linear(rows * self.scale, self.B)

    def change(self, layer: Any) -> Tensor:
        return (self.B @ self.A).mT * self.scale


class ConvAdapter(Adapter):
    """The adapter of a convolution: A is (rank, in_channels, *kernel), B 1 in space.

    B is (out_channels, rank, 1, ...). The convolution with A has the sizes of the layer.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Conv2d(3, 8, 5, stride=2)
        >>> adapter = fw.nn.utils.lora.ConvAdapter(layer, rank=2, alpha=8)
        >>> adapter(layer, fw.ones(1, 3, 9, 9)).shape, adapter.A.shape
        ((1, 8, 3, 3), (2, 3, 5, 5))
    """

    def shapes(self, layer: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if layer.groups != 1:
            raise ArgumentError(f"lora: a convolution with groups={layer.groups} takes no adapter",
                                "choose other targets")
        return ((rank, layer.in_channels, *layer.kernel_size),
                (layer.out_channels, rank, *[1] * layer.axes))

    def forward(self, layer: Any, x: Tensor) -> Tensor:
        inner = layer.convolved(self._input(x), self.A, None)
        return type(layer).function(inner * self.scale, self.B)

    def change(self, layer: Any) -> Tensor:
        first, second = self.A, self.B
        product = reshape(second, (second.shape[0], -1)) @ reshape(first, (first.shape[0], -1))
        return reshape(product * self.scale, layer.weight.shape)


# ---- layers and their adapters
_ADAPTERS: dict[type, type[Adapter]] = {
    Linear: LinearAdapter, Embedding: EmbeddingAdapter,
    **dict.fromkeys((Conv1d, Conv2d, Conv3d), ConvAdapter),
}


def register(layer: type[Module], adapter: type[Adapter]) -> None:
    """Lets `layer` and its subclasses be targets of `add`, with adapters of the class `adapter`.

    Args:
        layer: a class of layers that are called with one tensor.
        adapter: LinearAdapter for layers with the attributes in_features, out_features and weight;
            TransposedLinearAdapter if the weight is (in_features, out_features); else a subclass
            of Adapter.

    Raises:
        DTypeError: one of them is no such class.

    Example:
        >>> import fusewire as fw
        >>> class Product(fw.nn.Module):
        ...     in_features, out_features = 3, 2
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.weight = fw.nn.Parameter(fw.ones(3, 2))
        ...     def forward(self, x):
        ...         return x @ self.weight
        >>> fw.nn.utils.lora.register(Product, fw.nn.utils.lora.TransposedLinearAdapter)
    """
    for given, base in ((layer, Module), (adapter, Adapter)):
        if not (isinstance(given, type) and issubclass(given, base)):
            raise DTypeError(f"lora.register: {given!r} is no subclass of {base.__name__}",
                             "pass the class of a layer, then that of its adapter")
    _ADAPTERS[layer] = adapter


def adapter_class(layer: Module) -> type[Adapter] | None:
    """The class of adapters for `layer`; None if there is none."""
    return next((_ADAPTERS[c] for c in type(layer).__mro__ if c in _ADAPTERS), None)


def add_adapted(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
                ) -> Tensor | None:
    """A forward hook: the result `out` of `layer` plus that of its adapter, in the dtype of `out`.

    None, for `out` itself, while the adapter is disabled.
    """
    adapter = layer.lora
    if not adapter.enabled:
        return None
    x = args[0] if args else next(iter(kwargs.values()))
    return cast(out + adapter(layer, x), out.dtype)
