"""Signal processing: `fw.signal.windows`, and the spectra of frames."""

from ..short_time import stft
from . import windows

__all__ = ["stft", "windows"]
