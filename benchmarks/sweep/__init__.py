"""Compares fusewire with other libraries on programs of random kinds and shapes."""
