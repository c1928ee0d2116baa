"""Tensors, the ops that make them, and the tape of gradients."""
