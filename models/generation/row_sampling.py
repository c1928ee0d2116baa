"""Chooses the next tokens of texts side by side that are sampled in different ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw

from .sampling import Sampling, keep_at_least, least_of_nucleus

_ALL = 2.0  # a share of probability that no sum of rounded probabilities reaches
_BELOW_ONE = 1 - 2.0 ** -20  # draws below it never round up to the sum of all probabilities


@dataclass(frozen=True)
class RowSampling:
    """How the token of each row is chosen, as arrays: see `Sampling`.

    Args:
        temperature, top_p, min_p: (n, 1), float32.
        top_k: (n, 1), int64.
        sorts: True if a row has a `top_k` or `top_p`, which need the logits in order.
    """

    temperature: np.ndarray[Any, Any]
    top_k: np.ndarray[Any, Any]
    top_p: np.ndarray[Any, Any]
    min_p: np.ndarray[Any, Any]
    sorts: bool

    @classmethod
    def of(cls, rows: Sequence[Sampling], vocabulary: int) -> RowSampling:
        """The arrays for some rows, whose repetition penalties are not read."""
        def column(values: Sequence[Any], dtype: Any) -> np.ndarray[Any, Any]:
            return np.array(values, dtype)[:, None]

        return cls(column([row.temperature for row in rows], np.float32),
                   column([min(row.top_k or vocabulary, vocabulary) for row in rows], np.int64),
                   column([row.top_p or _ALL for row in rows], np.float32),
                   column([row.min_p or 0 for row in rows], np.float32),
                   any(row.top_k is not None or row.top_p is not None for row in rows))


class RowSampler:
    """Compiled functions that choose a token of each row."""

    def __init__(self) -> None:
        self._by_sorts = {True: fw.compile(_chosen_in_order, dynamic=False),
                          False: fw.compile(_chosen, dynamic=False)}

    @property
    def recordings(self) -> int:
        """The traces that were recorded so far."""
        return sum(function.stats.recordings for function in self._by_sorts.values())

    def choose(self, logits: fw.Tensor, rows: RowSampling, draws: np.ndarray[Any, Any]
               ) -> list[int]:
        """The token of each row.

        Args:
            logits: (n, vocabulary), float32.
            rows: how each of them is sampled.
            draws: (n,), uniform from 0 to 1, which decide.
        """
        uniform = np.minimum(draws, _BELOW_ONE)[:, None].astype(np.float64)
        arrays = [rows.temperature, rows.min_p, uniform]
        if rows.sorts:
            arrays += [rows.top_k, rows.top_p]
        tokens: list[int] = self._by_sorts[rows.sorts](logits, *map(fw.Tensor, arrays)).tolist()
        return tokens


def _chosen_in_order(logits: fw.Tensor, temperature: fw.Tensor, min_p: fw.Tensor,
                     uniform: fw.Tensor, top_k: fw.Tensor, top_p: fw.Tensor) -> fw.Tensor:
    scaled = _scaled(logits, temperature)
    in_order = fw.sort(scaled, axis=-1, descending=True)
    scaled = keep_at_least(scaled, fw.take_along_axis(in_order, top_k - 1, axis=-1))
    scaled = keep_at_least(scaled, least_of_nucleus(scaled, top_p))
    return fw.where(temperature[:, 0] > 0, _drawn(scaled, min_p, uniform), logits.argmax(axis=-1))


def _chosen(logits: fw.Tensor, temperature: fw.Tensor, min_p: fw.Tensor, uniform: fw.Tensor
            ) -> fw.Tensor:
    drawn = _drawn(_scaled(logits, temperature), min_p, uniform)
    return fw.where(temperature[:, 0] > 0, drawn, logits.argmax(axis=-1))


def _scaled(logits: fw.Tensor, temperature: fw.Tensor) -> fw.Tensor:
    return logits / fw.where(temperature > 0, temperature, 1.0)


def _drawn(logits: fw.Tensor, min_p: fw.Tensor, uniform: fw.Tensor) -> fw.Tensor:
    """The token at which the sum of probabilities exceeds `uniform` (n, 1): (n,)."""
    probabilities = fw.softmax(logits, -1)
    most = probabilities.max(axis=-1, keepdims=True)
    likely = fw.where(probabilities >= min_p * most, probabilities, 0.0).astype(fw.float64)
    sums = fw.cumulative_sum(likely, axis=-1)
    return (sums <= uniform * sums[:, -1:]).astype(fw.int64).sum(axis=-1)
