"""Masks of attention for texts that are padded to one length."""

from __future__ import annotations

import fusewire as fw


def padding_mask(attention_mask: fw.Tensor | None) -> fw.Tensor | None:
    """(n, 1, 1, length), True for keys that are tokens; None if every key is one.

    Args:
        attention_mask: (n, length), 1 or True for a token and 0 for padding. None: no padding.
    """
    return None if attention_mask is None else attention_mask.astype(fw.bool)[:, None, None, :]
