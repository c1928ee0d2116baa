"""Runs CUDA programs: compiles by NVRTC, launches through CuPy, replays CUDA graphs, autotunes."""
