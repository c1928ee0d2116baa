"""NumPy's `lib`, where libraries look for windows: `fw.lib.stride_tricks.sliding_window_view`."""

from . import stride_tricks

__all__ = ["stride_tricks"]
