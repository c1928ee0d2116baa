"""The base class of optimizers and its arithmetic."""
