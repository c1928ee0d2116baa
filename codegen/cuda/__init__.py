"""Loop IR as CUDA C, compiled by NVRTC and run through CuPy."""
