"""Variables, as programs for old versions of PyTorch name tensors."""

from __future__ import annotations

from typing import Any


def Variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
    """`data`, which requires a gradient if asked for."""
    return data.requires_grad_() if requires_grad else data
