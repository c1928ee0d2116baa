"""Settings of products on GPUs, without effect."""

from __future__ import annotations

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False,
                         allow_bf16_reduced_precision_reduction=False)


def is_built() -> bool:
    """False."""
    return False
