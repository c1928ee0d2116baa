"""Compares the speed of fusewire with other libraries: run `python -m benchmarks` in the root."""
