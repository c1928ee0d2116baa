"""Times of fusewire beside those of other libraries: `python -m benchmarks` in the root."""
