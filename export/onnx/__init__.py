"""Writes functions and modules as ONNX models (`export`) and reads ONNX models (`load`)."""

from .export import ExportReport, export
from .load import Limits, Model, load
from .load import operators as operators

__all__ = ["ExportReport", "Limits", "Model", "export", "load", "operators"]
