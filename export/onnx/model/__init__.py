"""Traces a function and makes an ONNX model of it."""
