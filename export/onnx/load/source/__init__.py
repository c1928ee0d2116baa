"""Writes a graph as source of Python."""
