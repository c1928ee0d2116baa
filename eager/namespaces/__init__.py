"""Modules that users see beside the layers: `fw.fft`, `fw.special`, `fw.cuda`."""
