"""HTTP: bodies, limits, and the Open Inference Protocol in REST."""
