"""Segments: parts of a traced program that are compiled and run as one graph."""
