"""The CUDA back end: loop IR becomes CUDA C."""
