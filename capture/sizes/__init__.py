"""Symbolic sizes: polynomials over named sizes, and the integers that stand for them in a trace."""
