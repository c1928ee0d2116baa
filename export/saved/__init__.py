"""Saves compiled functions to files (`save`) and loads them (`fw.load_compiled`)."""

from .loaded import LoadedFunction, load_compiled

__all__ = ["LoadedFunction", "load_compiled"]
