"""Turns sound into spectrograms with the frequencies of the ear, and masks parts of them."""

from __future__ import annotations

import fusewire as fw

_SCALES = ("htk", "slaney")
_BEND_HZ, _STEP_HZ = 1000.0, 200 / 3  # slaney: linear below the bend, 3 mels for 200 Hz
_BEND_MEL = _BEND_HZ / _STEP_HZ
_LOG_STEP = 1.856297990365626 / 27  # slaney: log(6.4) / 27 for each mel above the bend


def mel_spectrogram(sound: fw.Tensor, sample_rate: int, n_fft: int = 400, hop_length: int = 160,
                    n_mels: int = 80, f_min: float = 0.0, f_max: float | None = None,
                    power: float = 2.0, scale: str = "htk", norm: str | None = None) -> fw.Tensor:
    """The power at each mel frequency and time, (n, n_mels, frames).

    Windows are periodic Hann windows, centred by reflection at the ends.

    Args:
        sound: floats (n, samples).
        sample_rate: samples in a second.
        n_fft: samples of a window. Default 400.
        hop_length: samples between windows. Default 160.
        n_mels: number of frequencies. Default 80.
        f_min, f_max: range of frequencies in Hz. Default 0, and half of the sample rate.
        power: of the magnitudes; 1 or 2. Default 2.
        scale: "htk" or "slaney". Default "htk".
        norm: None, or "slaney": triangles of area 1. Default None.

    Raises:
        ShapeError: `sound` is not (n, samples).
        ArgumentError: another scale or norm, or an empty range of frequencies.

    Example:
        >>> import fusewire as fw
        >>> fw.data.transforms.mel_spectrogram(fw.rand(2, 1600), 16000).shape
        (2, 80, 11)
    """
    if sound.ndim != 2:
        raise fw.ShapeError(f"mel_spectrogram: sound is (n, samples), got {sound.shape}",
                            "a single sound is sound[None]")
    steps = fw.arange(n_fft, dtype=sound.dtype, device=sound.device)
    window = 0.5 - 0.5 * (2 * fw.pi * steps / n_fft).cos()
    spectrum = fw.stft(sound, n_fft, hop_length, window=window).abs() ** power
    filters = mel_filters(n_fft // 2 + 1, n_mels, sample_rate, f_min, f_max, scale, norm)
    return filters.to(sound.device).astype(spectrum.dtype) @ spectrum


def mel_filters(n_freqs: int, n_mels: int, sample_rate: int, f_min: float = 0.0,
                f_max: float | None = None, scale: str = "htk", norm: str | None = None
                ) -> fw.Tensor:
    """The weights of frequencies in each mel frequency, overlapping triangles (n_mels, n_freqs).

    The arguments are those of `mel_spectrogram`; `n_freqs` is n_fft // 2 + 1.

    Example:
        >>> import fusewire as fw
        >>> fw.data.transforms.mel_filters(201, 80, 16000).shape
        (80, 201)
    """
    highest = sample_rate / 2 if f_max is None else f_max
    if scale not in _SCALES or norm not in (None, "slaney"):
        raise fw.ArgumentError(f"mel_filters: scale={scale!r}, norm={norm!r}",
                               f"scale is one of {_SCALES}, norm None or 'slaney'")
    if not 0 <= f_min < highest:
        raise fw.ArgumentError(f"mel_filters: f_min={f_min} and f_max={highest} are no range",
                               "0 <= f_min < f_max, in Hz")
    ends = _to_mel(fw.tensor([f_min, highest], dtype=fw.float64), scale)
    steps = fw.arange(n_mels + 2, dtype=fw.float64) / (n_mels + 1)
    points = _to_hz(ends[0] + (ends[1] - ends[0]) * steps, scale)
    frequencies = fw.arange(n_freqs, dtype=fw.float64) * (sample_rate / 2 / (n_freqs - 1))
    widths = (points[1:] - points[:-1]).expand_dims(1)
    distance = points.expand_dims(1) - frequencies
    triangles = fw.minimum(-distance[:-2] / widths[:-1], distance[2:] / widths[1:]).clip(0, None)
    return triangles if norm is None else \
        triangles * (2 / (points[2:] - points[:-2])).expand_dims(1)


def spec_augment(spectrograms: fw.Tensor, frequency_masks: int = 2, frequency_width: int = 27,
                 time_masks: int = 2, time_width: int = 100, value: float = 0.0,
                 generator: fw.Generator | None = None) -> fw.Tensor:
    """The spectrograms with random bands of frequencies and of time replaced by `value`.

    Source: Park et al., SpecAugment, 2019.

    Args:
        spectrograms: (n, frequencies, frames).
        frequency_masks, time_masks: number of bands of each kind. Default 2.
        frequency_width, time_width: a band is from 0 to as many wide. Default 27 and 100.
        value: that of masked elements. Default 0.
        generator: source of the bands. Default None: the default generator.

    Raises:
        ShapeError: `spectrograms` is not (n, frequencies, frames).

    Example:
        >>> import fusewire as fw
        >>> fw.data.transforms.spec_augment(fw.ones(2, 80, 200)).shape
        (2, 80, 200)
    """
    if spectrograms.ndim != 3:
        raise fw.ShapeError(f"spec_augment: spectrograms are (n, frequencies, frames), got "
                            f"{spectrograms.shape}", "a single one is spectrogram[None]")
    rows = _bands(spectrograms, 1, frequency_masks, frequency_width, generator)
    columns = _bands(spectrograms, 2, time_masks, time_width, generator)
    is_masked = rows.expand_dims(2) | columns.expand_dims(1)
    return fw.where(is_masked, value, spectrograms)


def _bands(x: fw.Tensor, axis: int, masks: int, widest: int, generator: fw.Generator | None
           ) -> fw.Tensor:
    """Which positions along an axis are masked, bool (n, size)."""
    size, shape = x.shape[axis], (x.shape[0], masks, 1)
    width = fw.randint(0, min(widest, size) + 1, shape, generator=generator, device=x.device)
    place = fw.rand(*shape, generator=generator, device=x.device, dtype=fw.float64)
    start = fw.floor(place * (size - width + 1)).astype(fw.int64)
    at = fw.arange(size, device=x.device)
    return ((at >= start) & (at < start + width)).any(axis=1)


def _to_mel(hz: fw.Tensor, scale: str) -> fw.Tensor:
    if scale == "htk":
        return 2595 * (1 + hz / 700).log10()
    above = _BEND_MEL + (hz.clip(_BEND_HZ, None) / _BEND_HZ).log() / _LOG_STEP
    return fw.where(hz < _BEND_HZ, hz / _STEP_HZ, above)


def _to_hz(mel: fw.Tensor, scale: str) -> fw.Tensor:
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    above = _BEND_HZ * ((mel.clip(_BEND_MEL, None) - _BEND_MEL) * _LOG_STEP).exp()
    return fw.where(mel < _BEND_MEL, mel * _STEP_HZ, above)
