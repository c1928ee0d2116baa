"""ONNX out and in: `export` writes a function or module as a model, `load` reads a model."""

from .export import ExportReport, export
from .load import Model, load
from .load import operators as operators

__all__ = ["ExportReport", "Model", "export", "load", "operators"]
