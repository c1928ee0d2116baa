"""Holds the public modules beside the layers: `fw.fft`, `fw.special`, `fw.random`."""
