"""Compares fusewire with other libraries on whole published models with random weights."""
