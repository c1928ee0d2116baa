"""Convolutions of 3 by 3 by Winograd's way: fewer multiplications, by products of transformed tiles.

Winograd, "Arithmetic complexity of computations" (1980); Lavin and Gray, "Fast algorithms for
convolutional neural networks" (2016).
"""
