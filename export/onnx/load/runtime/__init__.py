"""Runs loaded models: values, limits, and the table of operators."""
