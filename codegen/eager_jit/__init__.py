"""Compiles single eager ops on large arrays to native code."""
