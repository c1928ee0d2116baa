"""The CUDA back end: writes loop IR as CUDA C."""
