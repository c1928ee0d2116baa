"""Lowers control flow between kernels to bytecode of a small native virtual machine."""
