"""A mixture of experts, with the names of `MixtralSparseMoeBlock`: arXiv 2401.04088."""

from __future__ import annotations

from collections.abc import Callable

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

Activation = Callable[[fw.Tensor], fw.Tensor]


class Expert(nn.Module):
    """A gated unit: w2(act(w1(x)) * w3(x))."""

    def __init__(self, width: int, inner: int, activation: Activation) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)
        self.activation = activation

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.w2(self.activation(self.w1(x)) * self.w3(x))


class SparseExperts(nn.Module):
    """The weighted sum of the experts that a router chooses for each token: the shape of `x`.

    Args:
        width: features of a token.
        inner: features inside an expert.
        experts: number of experts.
        chosen: experts of a token.
        activation: of an expert.
    """

    def __init__(self, width: int, inner: int, experts: int, chosen: int,
                 activation: Activation) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([Expert(width, inner, activation) for _ in range(experts)])
        self.chosen = chosen

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        probabilities = F.softmax(self.gate(tokens).astype(fw.float32), -1)
        weights, experts = fw.topk(probabilities, self.chosen, axis=-1)
        weights = (weights / weights.sum(axis=-1, keepdims=True)).astype(x.dtype)
        out = fw.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            share = fw.where(experts == i, weights, 0).sum(axis=-1)  # 0 if not chosen
            rows = fw.nonzero((experts == i).any(axis=-1))[0]
            out = out.index_add(0, rows, expert(tokens[rows]) * share[rows][:, None])
        return out.reshape(x.shape)
