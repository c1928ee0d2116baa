"""Things around training: the loading of data."""

from . import data

__all__ = ["data"]
