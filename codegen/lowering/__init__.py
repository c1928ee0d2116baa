"""Kernel lowering: the lowering table of a back end and the cache of lowered kernels."""
