"""Compiled functions in files: `save` of what `fw.compile` gives, and `fw.load_compiled`."""

from .loaded import Loaded, load_compiled

__all__ = ["Loaded", "load_compiled"]
