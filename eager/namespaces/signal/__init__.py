"""Signal processing: `fw.signal.windows` has the windows of PyTorch and SciPy."""

from . import windows

__all__ = ["windows"]
