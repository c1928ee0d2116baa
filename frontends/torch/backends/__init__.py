"""Settings of libraries that PyTorch uses; they have no effect here."""

from __future__ import annotations

from . import cuda, cudnn, mkldnn, mps

__all__ = ["cuda", "cudnn", "mkldnn", "mps"]
