"""Writes the nodes, sizes and numbers of an ONNX model."""
