"""Ops of neural networks: convolution, pooling, attention, recurrence."""
