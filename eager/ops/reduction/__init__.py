"""Reductions along axes, and the softmax."""
