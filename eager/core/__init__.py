"""Defines tensors, the entries and the dispatch of ops, and the tape."""
