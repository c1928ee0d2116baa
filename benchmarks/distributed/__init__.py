"""Measures distributed training: convergence of each scheme, and overlap with a slow link."""
