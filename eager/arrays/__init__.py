"""Handles the arrays of tensors: dtypes, shapes, devices, memory, and NumPy's functions."""
