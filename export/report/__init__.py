"""Writes reports as self-contained HTML files: charts, tables, and the machine they are of."""
