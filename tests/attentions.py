"""Defines attentions of various sizes with their gradients, and measures errors against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw
import fusewire.nn.functional as F


@dataclass(frozen=True)
class Case:
    """Sizes of an attention, and its mask: "", "bool", "numbers", or "nothing", which masks all
    keys of some queries."""

    queries: int
    keys: int
    width: int = 16
    values: int = 16
    heads: int = 2
    groups: int = 1
    causal: bool = False
    mask: str = ""

    def function(self) -> Callable[..., Any]:
        """The attention and the gradients of query, key and value."""
        def both(q: Any, k: Any, v: Any, g: Any, *mask: Any) -> Any:
            q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
            out = F.scaled_dot_product_attention(
                q, k, v, mask[0] if mask else None, is_causal=self.causal,
                enable_gqa=self.groups > 1)
            return (out.detach(), *fw.grad(out, [q, k, v], g))

        return both

    def arrays(self, seed: int = 0, dtype: Any = np.float32) -> list[Any]:
        rng = np.random.default_rng(seed)
        key_heads = self.heads // self.groups
        shapes = ((2, self.heads, self.queries, self.width), (2, key_heads, self.keys, self.width),
                  (2, key_heads, self.keys, self.values),
                  (2, self.heads, self.queries, self.values))
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        if self.mask == "numbers":
            arrays.append(rng.standard_normal((self.queries, self.keys)).astype(dtype))
        elif self.mask:
            arrays.append(rng.random((2, 1, self.queries, self.keys)) < 0.7)
            if self.mask == "nothing":
                arrays[-1][:, :, self.queries // 2] = False
        return arrays


def exact(case: Case, arrays: list[Any]) -> list[Any]:
    """The results of `case` in float64, run eagerly."""
    inputs = [a.astype(np.float64) if a.dtype != bool else a for a in arrays]
    return [x.numpy() for x in case.function()(*map(fw.from_numpy, inputs))]


def distances(results: Any, expected: list[Any]) -> list[float]:
    """The largest error of each result, relative to its largest element if that is above 1; inf for
    nan."""
    largest = [abs(a - b).max() / max(1, abs(b).max()) for a,
               b in zip(results, expected, strict=True)]
    return [float(np.nan_to_num(x, nan=np.inf)) for x in largest]
