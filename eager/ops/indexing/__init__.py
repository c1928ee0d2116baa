"""Gather, scatter, search and sort."""
