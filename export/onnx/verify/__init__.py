"""Runs a model and compares it with the function."""
