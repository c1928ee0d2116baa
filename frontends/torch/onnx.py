"""Export to ONNX."""

from __future__ import annotations

from typing import Any

from ...export import onnx as _plain
from .base.tensor_class import retag as _retag


def export(model: Any, args: Any, f: Any = None, **options: Any) -> Any:
    """Writes `model` as an ONNX file, by the options of `fusewire.onnx.export`."""
    examples = args if isinstance(args, tuple) else (args,)
    return _retag(_plain.export(model, examples, f, **options))
