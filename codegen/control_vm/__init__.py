"""Decisions and loops between kernels, as bytecode of a small native virtual machine."""
