"""Outlining: repeated regions of a graph are compiled once; the schedule of kernels."""
