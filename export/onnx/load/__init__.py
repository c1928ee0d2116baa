"""Reads ONNX models: `load` returns a Module whose `forward` is generated Python source."""

from .load import load
from .runtime.limits import Limits
from .runtime.module import Model

__all__ = ["Limits", "Model", "load"]
