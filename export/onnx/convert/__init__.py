"""Converts graphs to ONNX operators."""
