"""Pointwise functions that are made of other ops."""
