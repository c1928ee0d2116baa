"""Loads torchvision also where its compiled part does not load: it was built for CUDA."""

from __future__ import annotations

import importlib
from typing import Any

import torch


def stand_in_for_compiled_ops() -> Any:
    """The library that declares the ops; they are gone when it is collected."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    return library


LIBRARY = stand_in_for_compiled_ops()
torchvision = importlib.import_module("torchvision")
