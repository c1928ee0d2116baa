"""Lowers 3 by 3 convolutions with fewer multiplications, as products of transformed tiles.

Winograd, "Arithmetic complexity of computations" (1980); Lavin and Gray, "Fast algorithms for
convolutional neural networks" (2016).
"""
