"""ONNX out: `export` writes a function or module as a model and checks it."""

from .export import ExportReport, export

__all__ = ["ExportReport", "export"]
