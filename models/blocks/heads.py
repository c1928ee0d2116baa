"""Splits the features of a token among attention heads, and joins them again."""

from __future__ import annotations

import fusewire as fw


def split_heads(x: fw.Tensor, heads: int) -> fw.Tensor:
    """(n, length, heads * d) to (n, heads, length, d)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).permute_dims((0, 2, 1, 3))


def merge_heads(x: fw.Tensor) -> fw.Tensor:
    """(n, heads, length, d) to (n, length, heads * d)."""
    return x.permute_dims((0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)
