"""Symbolic Python numbers: expressions over the numbers that a call passes in."""
