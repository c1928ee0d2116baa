"""Traces a function and builds its ONNX model."""
