"""Handles the arrays of tensors: dtypes, shapes, devices, memory, NumPy and CuPy."""
