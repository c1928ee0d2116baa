"""The CUDA runtime: NVRTC, devices by CuPy, CUDA graphs and autotuning."""
