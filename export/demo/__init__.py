"""Trains a small network on handwritten digits, eagerly and compiled, as a demonstration."""
