"""Implements the `fusewire` command: one module per command, which `main` collects."""
