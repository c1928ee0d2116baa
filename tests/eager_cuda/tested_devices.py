"""The devices on which a test of tensors on GPUs runs."""

from __future__ import annotations

import pytest
from gpus import NEEDS_GPU

BOTH = pytest.mark.parametrize(
    "cupy", ["stand-in", pytest.param("gpu", marks=NEEDS_GPU)], indirect=True)
"""With the stand-in for CuPy, and on a GPU where `pytest -m gpu` asks for it."""
