"""ONNX in: `load` reads a model as a Module whose `forward` is source of Python."""

from .load import load
from .runtime.limits import Limits
from .runtime.module import Model

__all__ = ["Limits", "Model", "load"]
