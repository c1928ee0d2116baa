"""Fusion: which nodes of a graph share a kernel, and the keys by which kernels are shared."""
