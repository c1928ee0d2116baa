"""ONNX out and in: `export` writes a function or module as a model, `load` reads a model."""

from .export import ExportReport, export
from .load import Limits, Model, load
from .load import operators as operators

__all__ = ["ExportReport", "Limits", "Model", "export", "load", "operators"]
