"""Ops on each element: arithmetic, casts, activations."""
