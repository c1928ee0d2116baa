"""Partitions graphs with ops that have no kernel into native parts and library calls."""
