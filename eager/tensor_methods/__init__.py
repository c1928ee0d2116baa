"""Binds the methods and protocols of Tensor to functions of the ops."""
