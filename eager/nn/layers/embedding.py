"""Embedding layers: they look up rows of a weight by integer indices."""

from __future__ import annotations

from typing import Any

from ...arguments import check_choice
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops.create import zeros
from ...tensor_methods.methods import update
from .. import functional as F
from ..base import init
from ..base.module import Module
from ..base.parameter import Parameter
from ..functional.embeddings import padding_row

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """Base of layers that hold one vector for each index."""

    weight: Parameter
    padding_idx: int | None

    def _start(
        self, rows: int, dim: int, padding: int | None, values: Tensor | None, frozen: bool,
        device: Any, dtype: Any,
    ) -> None:
        self.num_embeddings, self.embedding_dim = rows, dim
        self.padding_idx = padding_row(type(self).__name__, padding, rows)
        if values is None:
            self.weight = Parameter(zeros(rows, dim, dtype=dtype, device=device), not frozen)
            self.reset_parameters()
            return
        if tuple(values.shape) != (rows, dim):
            raise ShapeError(f"{type(self).__name__}: the weight {values.shape} is not "
                             f"(num_embeddings, embedding_dim) = ({rows}, {dim})")
        self.weight = Parameter(values, not frozen)

    def reset_parameters(self) -> None:
        """Draws the weight from the standard normal distribution; the row padding_idx is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                rows = Tensor(self.weight._data)
                rows[self.padding_idx] = 0.0
                update(self.weight, rows)


def _matrix(owner: str, embeddings: Tensor) -> tuple[int, int]:
    if embeddings.ndim != 2:
        raise ShapeError(f"{owner}.from_pretrained: embeddings are (rows, dim), got shape "
                         f"{embeddings.shape}")
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(_Table):
    """Integers `input` to the rows of `weight` they name: (*input.shape, embedding_dim).

    weight is (num_embeddings, embedding_dim).
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,  # gradients are always dense
        _weight: Tensor | None = None, _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._start(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq, self.sparse)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer with the weight `embeddings` (rows, dim), without gradient if `freeze`.

        Raises:
            ShapeError: embeddings does not have two axes.
        """
        rows, dim = _matrix("Embedding", embeddings)
        return cls(rows, dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                   _weight=embeddings, _freeze=freeze)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        text += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        text += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        text += ", scale_grad_by_freq=True" if self.scale_grad_by_freq else ""
        return text + (", sparse=True" if self.sparse else "")


class EmbeddingBag(_Table):
    """For each bag of integers the sum, mean or max of the rows they name: (bags, embedding_dim).

    A bag is a row of `input` (bags, n), or a part of `input` (n,) that begins at one of `offsets`.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False,  # gradients are always dense
        _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.mode = check_choice("EmbeddingBag", "mode", mode, ("sum", "mean", "max"))
        self.include_last_offset = include_last_offset
        self._start(num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer with the weight `embeddings` (rows, dim), without gradient if `freeze`.

        Raises:
            ShapeError: embeddings does not have two axes.
        """
        rows, dim = _matrix("EmbeddingBag", embeddings)
        layer = cls(rows, dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                   include_last_offset, padding_idx)
        layer.weight.requires_grad_(not freeze)
        return layer

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        text += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        text += ", scale_grad_by_freq=True" if self.scale_grad_by_freq else ""
        text += f", mode={self.mode!r}"
        return text + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")
