"""Signal processing: `fw.signal.windows`, and the spectra of frames."""

from ..short_time import istft, stft
from . import windows

__all__ = ["istft", "stft", "windows"]
