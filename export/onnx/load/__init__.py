"""ONNX in: `load` reads a model as a Module whose `forward` is source of Python."""

from .limits import Limits
from .load import load
from .module import Model

__all__ = ["Limits", "Model", "load"]
