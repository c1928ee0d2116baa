"""Compiles dynamic-shape programs, and specializes frequent sizes."""
