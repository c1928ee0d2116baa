"""Holds the base class of optimizers and its arithmetic."""
