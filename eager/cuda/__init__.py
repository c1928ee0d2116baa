"""Holds tensors on NVIDIA's GPUs: the driver, CuPy's arrays and functions, and `fw.cuda`."""
