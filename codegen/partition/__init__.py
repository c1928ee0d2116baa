"""Graphs with ops that have no kernel: native parts and library calls."""
