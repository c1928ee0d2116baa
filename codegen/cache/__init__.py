"""Compiled programs on disk: keys, entries and their data format."""
