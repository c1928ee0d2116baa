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
    """The rows of weight that integers name: (*) -> (*, embedding_dim).

    weight is (num_embeddings, embedding_dim), drawn from the standard normal distribution.
    Embedding.from_pretrained(embeddings) takes an existing weight.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of a row.
        padding_idx: a row that starts as 0 and gets no gradient; may count from the end. Default
            None.
        max_norm: rows in use with a larger norm are scaled to it, in weight itself. Default None:
            no limit.
        norm_type: order of that norm. Default 2.0.
        scale_grad_by_freq: True divides the gradient of a row by the number of its uses in the
            input. Default False.
        sparse: stored, but without effect: gradients are dense. Default False.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: padding_idx is outside of the rows.
        IndexingError: an index is not in [0, num_embeddings).
        DTypeError: the indices are not integers.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Embedding.from_pretrained(fw.tensor([[1.0], [2.0], [3.0]]))
        >>> layer(fw.tensor([[2, 0]]))
        tensor([[[3.],
                 [1.]]])
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
    """The sum, mean or maximum of the rows that each bag of integers names: (bags, dim).

    dim is embedding_dim. The call takes input (bags, n), whose rows are the bags, or input (n,)
    with offsets (bags,), the first positions of the bags. An empty bag gives 0. With mode "sum" it
    also takes per_sample_weights, factors of the shape of the input. weight is
    (num_embeddings, embedding_dim), drawn from the standard normal distribution.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of a row.
        max_norm: rows in use with a larger norm are scaled to it, in weight itself. Default None:
            no limit.
        norm_type: order of that norm. Default 2.0.
        scale_grad_by_freq: True divides the gradient of a row by the number of its uses in the
            input. Default False.
        sparse: stored, but without effect: gradients are dense. Default False.
        mode: "sum", "mean" or "max". Default "mean".
        include_last_offset: True if the last offset is n, the end of the last bag. Default False.
        padding_idx: a row that starts as 0 and counts for nothing in a bag; may count from the end.
            Default None.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        ArgumentError: padding_idx is outside of the rows, mode is unknown, per_sample_weights come
            with another mode than "sum", or scale_grad_by_freq or sparse with mode "max".
        ShapeError: input and offsets do not have these axes.
        IndexingError: an index is not in [0, num_embeddings).
        DTypeError: the indices are not integers.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.EmbeddingBag.from_pretrained(fw.tensor([[1.0], [2.0], [4.0]]), mode="sum")
        >>> layer(fw.tensor([0, 1, 2]), offsets=fw.tensor([0, 2]))
        tensor([[3.],
                [4.]])
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
