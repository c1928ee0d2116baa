"""Generates the Python source of a model."""
