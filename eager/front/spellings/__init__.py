"""PyTorch's spellings of functions and methods of tensors, as data."""
